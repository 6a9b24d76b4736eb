"""What must hold before anything is sent (design/study.md, Price plan and Readiness)."""

import json
from pathlib import Path

import pytest

from countersign.kit.canonical import canonical_json, sha256
from countersign.study.errors import (
    BadManifest,
    GrantConflict,
    ManifestMismatch,
    NotThere,
    PacketRefused,
    PriceRefused,
)
from countersign.study.manifest import load
from countersign.study.preparation import prepare
from countersign.study.prices import call_bound_nanos, frame_bytes
from countersign.study.routes import frozen_route
from countersign.study.services import Addresses, Services, open_services
from tests.countersign.study.fakes import Fakes
from tests.countersign.study.plans import BASE, NOW, make_plan, route_text

PRICED = "{ input_per_million = 2, output_per_million = 8 }"


async def test_the_manifest_is_canonical_names_every_episode_and_its_own_digest(
    fakes: Fakes, services: Services, tmp_path: Path
) -> None:
    prepared = await prepare(services, make_plan(), tmp_path, NOW)
    content = (tmp_path / "manifest.json").read_bytes()
    document = json.loads(content)
    assert content == canonical_json(document)
    body = {key: value for key, value in document.items() if key != "manifest_digest"}
    assert document["manifest_digest"] == sha256(canonical_json(body)).hex()
    assert [one["episode_id"] for one in document["episodes"]] == [one.episode_id for one in prepared.identities]
    packets = {case["packet_digest"] for case in document["cases"]}
    assert {one["packet_digest"] for one in document["episodes"]} == packets
    assert len(packets) == 2
    study = fakes.ledger.studies[prepared.manifest.study_id]
    assert study.manifest_digest == prepared.manifest.digest
    assert prepared.manifest.study_id == f"small-{prepared.manifest.digest.hex()[:16]}"
    assert fakes.adapter.ran == []


async def test_preparing_again_changes_nothing_and_grants_nothing(
    fakes: Fakes, services: Services, tmp_path: Path
) -> None:
    first = await prepare(services, make_plan(), tmp_path, NOW)
    again = await prepare(services, make_plan(), tmp_path, NOW)
    assert (first.is_new, again.is_new) == (True, False)
    assert first.manifest.digest == again.manifest.digest
    assert fakes.ledger.granted == 10**9


async def test_another_plan_is_refused_and_the_manifest_kept(services: Services, tmp_path: Path) -> None:
    await prepare(services, make_plan(), tmp_path, NOW)
    before = (tmp_path / "manifest.json").read_bytes()
    with pytest.raises(ManifestMismatch, match=r"is the manifest of another study \(.*routes"):
        await prepare(services, make_plan(route_text(more="repetitions = 2")), tmp_path, NOW)
    assert (tmp_path / "manifest.json").read_bytes() == before


async def test_an_altered_manifest_is_refused(services: Services, tmp_path: Path) -> None:
    await prepare(services, make_plan(), tmp_path, NOW)
    path = tmp_path / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b'"cap":"0.5"', b'"cap":"5"'))
    with pytest.raises(BadManifest, match="was altered"):
        load(tmp_path)
    path.write_text("[]")
    with pytest.raises(BadManifest, match="is not a manifest"):
        load(tmp_path)


def test_an_agents_port_is_not_part_of_its_frozen_route() -> None:
    scripted = (
        '\n[[routes]]\nname = "s"\nagent = { kind = "scripted", policy = "mixed" }\nprice = "free"\noutput_cap = 5\n'
    )
    frozen = frozen_route(make_plan(scripted).routes[0])
    assert (frozen["base_url"], frozen["agent"]) == (None, {"kind": "scripted", "policy": "mixed"})
    assert frozen["model"] == "scripted/mixed"


async def test_a_packet_that_fails_its_audit_is_refused(fakes: Fakes, services: Services, tmp_path: Path) -> None:
    fakes.verifier.failing_check = "allowed_keys"
    with pytest.raises(PacketRefused, match=r"window/neutral/default did not pass .*allowed_keys: a key too many"):
        await prepare(services, make_plan(), tmp_path, NOW)
    assert not (tmp_path / "manifest.json").exists()
    assert fakes.ledger.requests == {}


async def test_another_wording_is_refused(fakes: Fakes, services: Services, tmp_path: Path) -> None:
    fakes.adapter.wording_digest = bytes(32)
    with pytest.raises(PacketRefused, match="another wording"):
        await prepare(services, make_plan(), tmp_path, NOW)


async def test_every_case_is_audited_for_every_input_limit(fakes: Fakes, services: Services, tmp_path: Path) -> None:
    plan = make_plan(route_text(), route_text("q", more="input_limit_bytes = 30000"))
    await prepare(services, plan, tmp_path, NOW)
    assert sorted(fakes.verifier.audits) == [20_000, 20_000, 30_000, 30_000]


def test_a_calls_bound_is_exact_and_counts_the_whole_request() -> None:
    route = make_plan(route_text(price=PRICED)).routes[0]
    # {"max_tokens":100,...,"model":"m","tool_choice":"auto",...} beside {"messages":[],"tools":[]}
    assert frame_bytes(route) == len('"max_tokens":100,"model":"m","tool_choice":"auto",')
    assert call_bound_nanos(route) == (20_000 + 50) * 2000 + 100 * 8000


async def test_bounds_are_in_the_manifest(services: Services, tmp_path: Path) -> None:
    prepared = await prepare(services, make_plan(route_text(price=PRICED)), tmp_path, NOW)
    assert prepared.manifest.document["prices"] == {
        "currency": "USD",
        "call_bounds": {"r": "0.0409"},
        "study_bound": "1.3088",
    }
    assert prepared.bound.nanos == 4 * 8 * 40_900_000
    assert prepared.available.nanos == 10**9


async def test_a_call_above_the_ceiling_is_refused(fakes: Fakes, services: Services, tmp_path: Path) -> None:
    base = BASE.replace('call_ceiling = "0.1"', 'call_ceiling = "0.04"')
    with pytest.raises(PriceRefused, match=r"route r: one call can cost up to 0\.0409 USD, above study\.call_ceiling"):
        await prepare(services, make_plan(route_text(price=PRICED), base=base), tmp_path, NOW)
    assert fakes.ledger.requests == {}


async def test_another_grant_or_currency_is_refused(fakes: Fakes, services: Services, tmp_path: Path) -> None:
    await prepare(services, make_plan(), _folder(tmp_path, "a"), NOW)
    with pytest.raises(GrantConflict, match="has granted plan small another amount than 2 USD"):
        await prepare(services, make_plan(base=BASE.replace("grant = 1", "grant = 2")), _folder(tmp_path, "b"), NOW)
    assert not (tmp_path / "b" / "manifest.json").exists()
    fakes.ledger.currency = "EUR"
    with pytest.raises(GrantConflict, match="another currency"):
        await prepare(services, make_plan(base=BASE.replace('"lab"', '"lab-2"')), _folder(tmp_path, "c"), NOW)


async def test_a_service_that_is_not_there_is_named(tmp_path: Path) -> None:
    nowhere = f"unix:{tmp_path}/none"
    with pytest.raises(NotThere, match="the ledger cannot be reached"):
        async with open_services(Addresses(nowhere, nowhere, nowhere)):
            pass


async def test_one_of_several_that_is_away_is_left_out_and_said(fakes: Fakes, tmp_path: Path) -> None:
    nowhere, known = f"unix:{tmp_path}/none", fakes.addresses
    said: list[str] = []
    several = Addresses(known.ledger, nowhere, known.verifier, (known.adapter,), (nowhere, known.verifier))
    async with open_services(several, said.append) as services:
        assert (len(services.more_adapters), len(services.more_verifiers)) == (0, 1)
        (await prepare(services, make_plan(), tmp_path, NOW)).orders({"r": "http://127.0.0.1:9/v1"})
    trouble = f"cannot be reached at {nowhere}: check the address, or start it; the others begin without it"
    assert said == [f"the adapter {trouble}", f"the verifier {trouble}"]
    with pytest.raises(NotThere, match="the adapter cannot be reached"):
        async with open_services(Addresses(known.ledger, nowhere, known.verifier, (nowhere,)), said.append):
            pass
    with pytest.raises(NotThere, match="is not the adapter"):
        async with open_services(Addresses(known.ledger, known.adapter, known.verifier, (known.ledger,)), said.append):
            pass


async def test_a_service_at_anothers_address_is_named(fakes: Fakes) -> None:
    swapped = Addresses(fakes.addresses.adapter, fakes.addresses.adapter, fakes.addresses.verifier)
    with pytest.raises(NotThere, match="is not the ledger"):
        async with open_services(swapped):
            pass


def _folder(parent: Path, name: str) -> Path:
    (parent / name).mkdir()
    return parent / name
