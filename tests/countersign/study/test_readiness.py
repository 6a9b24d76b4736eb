"""A paid study is collected only on evidence that is gathered anew (design/study.md, Readiness)."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from countersign.kit.canonical import canonical_json, sha256
from countersign.study.built import BuiltStudy, build, rebuild
from countersign.study.collection import Collection
from countersign.study.errors import NotReady
from countersign.study.ledger_objects import open_account
from countersign.study.manifest import keep
from countersign.study.plan_model import PlanFile
from countersign.study.preparation import prepare, prepare_frozen
from countersign.study.probes import build_probes, one_call, open_probes
from countersign.study.readiness import Item, Readiness, assess, needs_readiness
from countersign.study.services import Services
from tests.countersign.study import fakes as f
from tests.countersign.study.fakes import Fakes
from tests.countersign.study.plans import BASE, NOW, make_plan, route_text
from tests.countersign.study.views import SilentView

PRICED = "{ input_per_million = 2, output_per_million = 8 }"
PAID = BASE.replace('readiness = "waived"', 'comparators = "unsolved"').replace("grant = 1", "grant = 2")
AGENT = f"""
[[routes]]
name = "scripted"
agent = {{ kind = "scripted", policy = "mixed" }}
price = {PRICED}
output_cap = 5
"""


def paid_plan(*routes: str, base: str = PAID) -> PlanFile:
    return make_plan(*(routes or (route_text(price=PRICED),)), base=base)


async def frozen(services: Services, folder: Path, plan: PlanFile) -> BuiltStudy:
    built = await build(services, plan, folder)
    keep(built.manifest, folder)
    await open_account(services.ledger, plan)
    return await rebuild(services, built.manifest)


async def probe(services: Services, built: BuiltStudy, folder: Path) -> None:
    probes = await build_probes(services, built, {route.name: "http://a/v1" for route in built.plan.routes})
    await open_probes(services, probes)
    await Collection(
        services=services,
        orders=probes.orders,
        store=probes.store(folder),
        account_id=probes.account_id,
        stop="never",
        max_in_flight=1,
        interrupted=asyncio.Event(),
        view=SilentView(),
    ).run()


async def ready(services: Services, folder: Path, plan: PlanFile | None = None) -> Readiness:
    """A study that is frozen, probed and checked."""
    built = await frozen(services, folder, plan or paid_plan())
    await probe(services, built, folder)
    readiness = await assess(services, built, folder, NOW)
    readiness.keep(folder)
    return readiness


def forge(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Alter the readiness file and give it digests that fit."""
    path = folder / "readiness.json"
    document = json.loads(path.read_bytes())
    change(document)
    del document["readiness_digest"]
    for one in document["items"]:
        one["evidence_digest"] = sha256(canonical_json(one["evidence"])).hex()
    document["readiness_digest"] = sha256(canonical_json(document)).hex()
    path.write_bytes(canonical_json(document))


def test_only_a_priced_route_to_an_address_needs_readiness() -> None:
    assert needs_readiness(paid_plan())
    assert not needs_readiness(paid_plan(route_text()))
    assert not needs_readiness(paid_plan(AGENT))
    assert not needs_readiness(paid_plan(base=BASE))


async def test_a_paid_study_without_readiness_is_refused_before_the_ledger_is_asked(
    fakes: Fakes, services: Services, tmp_path: Path
) -> None:
    with pytest.raises(NotReady, match="a paid study needs its readiness"):
        await prepare(services, paid_plan(), tmp_path, NOW)
    assert fakes.ledger.requests == {}
    assert list(tmp_path.iterdir()) == []


async def test_a_ready_study_is_prepared_and_has_evidence_for_every_item(services: Services, tmp_path: Path) -> None:
    readiness = await ready(services, tmp_path)
    assert readiness.is_ready
    assert list(readiness.items) == list(Item)
    document = json.loads((tmp_path / "readiness.json").read_bytes())
    assert document == readiness.document()
    for one in document["items"]:
        assert one["evidence_digest"] == sha256(canonical_json(one["evidence"])).hex()
    items = {one["item"]: one for one in document["items"]}
    assert items["packets"]["evidence"]["packets"][0]["findings"] == [
        {"input_limit_bytes": 20_000, "check": "keys", "passed": True}
    ]
    assert items["comparators"]["evidence"]["templates"] == {"window": {"unsolved": "NOT_IMPLEMENTED"}}
    (probed,) = items["probes"]["evidence"]["probes"]
    assert probed["study_id"] == f"{readiness.study_id}-probe"
    assert [one["request_digest"] for one in probed["receipts"]] == [sha256(b"request").hex()]
    assert items["prices"]["says"] == "1 written by hand, current by declaration"
    assert items["budget"]["evidence"]["study_bound"] == "1.3088"
    prepared = await prepare_frozen(services, tmp_path, NOW)
    assert prepared.manifest.study_id == readiness.study_id
    assert (await prepare(services, paid_plan(), tmp_path, NOW)).manifest == prepared.manifest


async def test_the_probes_study_is_capped_at_what_they_can_cost(
    fakes: Fakes, services: Services, tmp_path: Path
) -> None:
    readiness = await ready(services, tmp_path)
    opened = fakes.ledger.studies[f"{readiness.study_id}-probe"]
    assert (opened.cap.units, opened.cap.nanos) == (0, 40_900_000)
    assert opened.max_in_flight == 1


async def test_a_handshake_is_one_call_after_the_prefix(services: Services, tmp_path: Path) -> None:
    built = await frozen(services, tmp_path, paid_plan())
    definition = next(iter(built.cases.values())).definition
    cut = one_call(definition)
    assert cut.contract.event.max_calls == 1
    assert cut.contract.event.deadline == definition.contract.event.deadline == 3
    definition.operator_prefix.extend(["wait", "wait"])
    assert one_call(definition).contract.event.max_calls == 3


async def test_what_is_missing_is_named(fakes: Fakes, services: Services, tmp_path: Path) -> None:
    plan = paid_plan(base=PAID.replace('comparators = "unsolved"\n', ""))
    built = await frozen(services, tmp_path, plan)
    fakes.ledger.granted = 1_308_799_999
    readiness = await assess(services, built, tmp_path, NOW)
    missing = {item: found.says for item, found in readiness.items.items() if not found.holds}
    assert not readiness.is_ready
    assert missing == {
        Item.COMPARATORS: 'unsolved: window; declare study.comparators = "unsolved" to do without',
        Item.PROBES: "r: not probed",
        Item.BUDGET: "1.308799999 USD available, 0 USD accounted for, the study can cost at most 1.3088 USD",
    }


@pytest.mark.parametrize(
    ("script", "line"),
    [
        (f.answers_nonsense, r"r: answers, but inadmissibly \(TRUNCATED\)"),
        (f.over_limit, r"r: stopped \(input_limit\)"),
    ],
)
async def test_a_route_that_does_not_pass_its_handshake_is_not_ready(
    fakes: Fakes, services: Services, tmp_path: Path, script: f.Script, line: str
) -> None:
    fakes.adapter.scripts["r"] = script
    await ready(services, tmp_path)
    with pytest.raises(NotReady, match=f"not ready: probes: {line}"):
        await prepare_frozen(services, tmp_path, NOW)


async def test_a_handshake_is_verified_anew_when_a_collection_begins(
    fakes: Fakes, services: Services, tmp_path: Path
) -> None:
    await ready(services, tmp_path)
    fakes.verifier.differ.add("r")
    with pytest.raises(NotReady, match="probes: r: its record differs from its receipts in tool"):
        await prepare_frozen(services, tmp_path, NOW)


async def test_the_ledger_is_asked_anew_when_a_collection_begins(
    fakes: Fakes, services: Services, tmp_path: Path
) -> None:
    readiness = await ready(services, tmp_path)
    fakes.ledger.granted -= 10**9
    with pytest.raises(NotReady, match="not ready: budget: 1 USD available"):
        await prepare_frozen(services, tmp_path, NOW)
    assert readiness.study_id not in fakes.ledger.studies


async def test_a_file_cannot_merely_assert(services: Services, tmp_path: Path) -> None:
    built = await frozen(services, tmp_path, paid_plan())
    (await assess(services, built, tmp_path, NOW)).keep(tmp_path)

    def assert_all(document: dict[str, Any]) -> None:
        document["ready"] = True
        for one in document["items"]:
            one["holds"] = True

    forge(tmp_path, assert_all)
    with pytest.raises(NotReady, match="probes: r: not probed"):
        await prepare_frozen(services, tmp_path, NOW)


async def test_evidence_that_differs_from_the_files_is_refused(services: Services, tmp_path: Path) -> None:
    await ready(services, tmp_path)
    forge(tmp_path, lambda document: document["items"][1]["evidence"].update(packets=[]))
    with pytest.raises(NotReady, match=r"packets: the evidence is not what readiness\.json claims"):
        await prepare_frozen(services, tmp_path, NOW)


async def test_an_altered_file_and_another_studys_are_refused(services: Services, tmp_path: Path) -> None:
    await ready(services, tmp_path)
    path = tmp_path / "readiness.json"
    whole = path.read_bytes()
    for content, line in [
        (whole.replace(b'"holds":true', b'"holds":false', 1), "does not have the digests"),
        (b"[]", "is not a readiness file"),
        (whole.replace(b'"evidence":{', b'"evidence":{"more":1,', 1), "does not have the digests"),
    ]:
        path.write_bytes(content)
        with pytest.raises(NotReady, match=line):
            await prepare_frozen(services, tmp_path, NOW)
    path.write_bytes(whole)
    forge(tmp_path, lambda document: document.update(manifest_digest="ab" * 32))
    with pytest.raises(NotReady, match="is of study"):
        await prepare_frozen(services, tmp_path, NOW)


async def test_what_was_charged_already_still_counts_as_sufficient(
    fakes: Fakes, services: Services, tmp_path: Path
) -> None:
    built = await frozen(services, tmp_path, paid_plan())
    await probe(services, built, tmp_path)
    (await assess(services, built, tmp_path, NOW)).keep(tmp_path)
    await prepare_frozen(services, tmp_path, NOW)
    fakes.ledger.granted = 1_308_800_000 - f.CALL_NANOS
    prepared = await prepare_frozen(services, tmp_path, NOW)
    assert prepared.available.nanos == 1_308_799_000
