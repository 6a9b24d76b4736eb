"""Amendments name what they follow, and are never written over (docs/formats.md, Manifest and amendments)."""

import json
from pathlib import Path

import pytest

from countersign.kit.canonical import canonical_json, sha256
from countersign.study.amendments import amend, write_amendment
from countersign.study.errors import AmendmentRefused, BadInput, BadManifest, ManifestMismatch
from countersign.study.manifest import load
from countersign.study.plan_model import PlanFile
from countersign.study.preparation import prepare, prepare_frozen
from countersign.study.services import Services
from tests.countersign.study.fakes import Fakes
from tests.countersign.study.plans import BASE, NOW, make_plan, route_text

WIDER = BASE.replace('cap = "0.5"', 'cap = "0.75"')


def wider(repetitions: int = 1) -> PlanFile:
    return make_plan(route_text(more=f"repetitions = {repetitions}"), base=WIDER)


async def test_an_amendment_replaces_what_changed_and_the_study_is_another(
    fakes: Fakes, services: Services, tmp_path: Path
) -> None:
    first = await prepare(services, make_plan(), tmp_path, NOW)
    built = await amend(services, tmp_path, wider(), "More room.")
    document = json.loads((tmp_path / "amendments" / "0001.json").read_bytes())
    assert sorted(document["replace"]) == ["routes", "study"]
    assert (document["parent"], document["reason"]) == (first.manifest.digest.hex(), "More room.")
    body = {key: value for key, value in document.items() if key != "amendment_digest"}
    assert document["amendment_digest"] == sha256(canonical_json(body)).hex()
    chain = f"{first.manifest.digest.hex()}{document['amendment_digest']}"
    assert built.manifest.digest == sha256(chain.encode())
    assert built.manifest.study_id == f"small-{sha256(chain.encode()).hex()[:16]}"
    assert load(tmp_path) == built.manifest
    prepared = await prepare_frozen(services, tmp_path, NOW)
    assert prepared.plan.study.cap == "0.75"
    assert fakes.ledger.studies[built.manifest.study_id].manifest_digest == built.manifest.digest


async def test_amendments_follow_one_another_and_each_study_has_its_own_folder(
    services: Services, tmp_path: Path
) -> None:
    first = await prepare(services, make_plan(), tmp_path, NOW)
    second = await amend(services, tmp_path, wider(), "More room.")
    third = await amend(services, tmp_path, wider(2), "Once more.")
    folders = [one.manifest.folder(tmp_path) for one in (first, second, third)]
    assert folders == [tmp_path, tmp_path / "amended" / "0001", tmp_path / "amended" / "0002"]
    assert len({one.manifest.study_id for one in (first, second, third)}) == 3
    assert third.manifest.document["episodes"] != second.manifest.document["episodes"]
    assert (await prepare(services, wider(2), tmp_path, NOW)).manifest == third.manifest
    with pytest.raises(ManifestMismatch, match="another study"):
        await prepare(services, make_plan(), tmp_path, NOW)


async def test_what_cannot_be_amended_is_refused_and_nothing_written(services: Services, tmp_path: Path) -> None:
    await prepare(services, make_plan(), tmp_path, NOW)
    refused = [
        (make_plan(), "A reason.", "nothing to amend"),
        (wider(), "  ", "needs a reason"),
        (make_plan(base=WIDER.replace('"small"', '"large"')), "A reason.", "cannot change name"),
        (make_plan(base=WIDER.replace("grant = 1", "grant = 2")), "A reason.", "cannot change account"),
    ]
    for plan, reason, line in refused:
        with pytest.raises(AmendmentRefused, match=line):
            await amend(services, tmp_path, plan, reason)
    assert not (tmp_path / "amendments").exists()
    with pytest.raises(BadManifest, match="does not exist"):
        await amend(services, tmp_path / "elsewhere", wider(), "A reason.")


async def test_two_amendments_of_one_parent_do_not_overwrite_one_another(services: Services, tmp_path: Path) -> None:
    kept = (await prepare(services, make_plan(), tmp_path, NOW)).manifest
    write_amendment(tmp_path, kept, {"study": {}}, "The first.")
    before = (tmp_path / "amendments" / "0001.json").read_bytes()
    with pytest.raises(BadInput, match="exists and is not overwritten"):
        write_amendment(tmp_path, kept, {"study": {}}, "The second.")
    assert (tmp_path / "amendments" / "0001.json").read_bytes() == before


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"reason": "Another."}, "was altered"),
        ({"schema": "countersign.manifest/1"}, "is not an amendment of schema"),
        ({"parent": "ab" * 32}, "does not follow"),
    ],
)
async def test_a_broken_chain_is_refused(services: Services, tmp_path: Path, change: dict[str, str], line: str) -> None:
    await prepare(services, make_plan(), tmp_path, NOW)
    await amend(services, tmp_path, wider(), "More room.")
    path = tmp_path / "amendments" / "0001.json"
    document = {**json.loads(path.read_bytes()), **change}
    if "parent" in change:
        body = {key: value for key, value in document.items() if key != "amendment_digest"}
        document["amendment_digest"] = sha256(canonical_json(body)).hex()
    path.write_bytes(canonical_json(document))
    with pytest.raises(BadManifest, match=line):
        await amend(services, tmp_path, wider(2), "Once more.")
    assert [one.name for one in path.parent.iterdir()] == ["0001.json"]


async def test_a_missing_amendment_is_refused(services: Services, tmp_path: Path) -> None:
    await prepare(services, make_plan(), tmp_path, NOW)
    await amend(services, tmp_path, wider(), "More room.")
    folder = tmp_path / "amendments"
    (folder / "0001.json").rename(folder / "0002.json")
    with pytest.raises(BadManifest, match=r"stands where 0001\.json must"):
        load(tmp_path)
