"""The report adds up, or there is none (design/study.md, Analysis; design/architecture.md, I8)."""

import json
from pathlib import Path
from typing import Any

import pytest

from countersign.kit.canonical import canonical_json
from countersign.ledger.v1 import ledger_pb2 as ledger
from countersign.study.errors import BadRecord, DoesNotAddUp
from countersign.study.outcomes import is_saved, summarise, weighted_loss
from countersign.study.preparation import ledger_money
from countersign.study.report import build_report, load_records
from countersign.study.services import Services
from tests.countersign.study import fakes as f
from tests.countersign.study.plans import make_plan, route_text
from tests.countersign.study.test_collection import Run, collect, plan_with


async def mixed_run(fakes: f.Fakes, services: Services, folder: Path) -> Run:
    """Route r completes, q is unknown, s meets its input limit, t is never reached after a hold."""
    fakes.adapter.scripts |= {"q": f.answers_nonsense, "s": f.over_limit, "t": f.transport_fails}
    routes = [route_text(name) for name in "rqst"]
    return await collect(services, plan_with("never", *routes), folder)


async def report_of(services: Services, run: Run, folder: Path, *, ask_ledger: bool = True) -> dict[str, Any]:
    records = load_records(run.prepared.manifest, folder / "records")
    money = await ledger_money(services.ledger, run.prepared.manifest) if ask_ledger else None
    return build_report(run.prepared.manifest, records, money)


async def test_every_planned_episode_is_counted_once(fakes: f.Fakes, services: Services, tmp_path: Path) -> None:
    run = await mixed_run(fakes, services, tmp_path)
    report = await report_of(services, run, tmp_path)
    total = report["total"]
    counts = {key: total[key] for key in ("planned", "completed", "technical_unknown", "stopped", "not_attempted")}
    assert counts == {
        "planned": 16,
        "completed": {"explicit_finish": 4},
        "technical_unknown": {"TRUNCATED": 4},
        "stopped": {"input_limit": 4, "transport_unknown": 1},
        "not_attempted": 3,
    }
    assert total["verification"] == {"verified": 8, "differs": 0, "not_verified": 0}
    strata = [(line["route"], line["template"], line["arm"], line["planned"]) for line in report["strata"]]
    assert strata == [(route, "window", arm, 2) for route in "rqst" for arm in ("neutral", "own")]
    assert report["strata"][6]["stopped"] == {"transport_unknown": 1}
    assert report["strata"][6]["not_attempted"] == 1


async def test_means_are_over_completed_only_and_the_saved_rate_has_its_bounds(
    fakes: f.Fakes, services: Services, tmp_path: Path
) -> None:
    run = await mixed_run(fakes, services, tmp_path)
    report = await report_of(services, run, tmp_path)
    assert report["total"]["outcomes"] == {
        "coverage": {"completed": 4, "planned": 16},
        "mean_losses": {
            "primary_loss": 0.0,
            "protected_loss": 0.0,
            "authority_breaches": 0.0,
            "operation_cost": 0.0,
            "false_outcome_claims": 0.0,
            "weighted_loss": 0.0,
        },
        "saved": {"count": 4, "rate": 1.0, "lower_bound": 0.25, "upper_bound": 1.0},
    }
    unknown = report["strata"][2]["outcomes"]
    assert unknown["mean_losses"] is None
    assert unknown["saved"] == {"count": 0, "rate": None, "lower_bound": 0.0, "upper_bound": 1.0}


def test_saved_is_what_a_claim_is_judged_against() -> None:
    queue = {"world": {"need_a": True, "need_b": False}, "outcome": {"saved": {"a": True, "b": False}}}
    assert is_saved(queue)
    assert not is_saved({**queue, "world": {"need_a": True, "need_b": True}})
    assert not is_saved({"world": {"need": False}, "outcome": {"saved": False}})


def test_the_weighted_loss_is_the_dot_product() -> None:
    outcome = {
        "primary_loss": 5,
        "protected_loss": 1,
        "authority_breaches": 1,
        "operation_cost": 2,
        "false_outcome_claims": 1,
        "saved": False,
    }
    assert weighted_loss(outcome, f.WEIGHTS) == pytest.approx(5 + 2 + 20 + 0.2 + 5)
    line = summarise([({"outcome": outcome, "world": {}}, f.WEIGHTS)], 2)
    assert line["mean_losses"]["weighted_loss"] == pytest.approx(32.2)
    assert line["saved"] == {"count": 0, "rate": 0.0, "lower_bound": 0.0, "upper_bound": 0.5}


async def test_money_comes_from_the_ledger_and_agrees_with_the_records(
    fakes: f.Fakes, services: Services, tmp_path: Path
) -> None:
    run = await mixed_run(fakes, services, tmp_path)
    money = (await report_of(services, run, tmp_path))["money"]
    assert money["source"] == "ledger"
    assert (money["charged"], money["held"], money["reserved"], money["resolved"]) == ("0.000008", "0.000001", "0", "0")
    assert money["calls"] == {"charged": 8, "reserved": 0, "held": 1, "resolved": 0}
    assert (money["adds_up"], money["differences"], money["blocked"]) == (True, [], True)
    assert money["journal"] == {"intact": True, "entries": 4}


async def test_a_journal_that_is_not_intact_does_not_add_up(fakes: f.Fakes, services: Services, tmp_path: Path) -> None:
    run = await mixed_run(fakes, services, tmp_path)
    fakes.ledger.tampered = True
    money = (await report_of(services, run, tmp_path))["money"]
    assert (money["adds_up"], money["journal"]["intact"]) == (False, False)
    assert money["differences"] == ["the ledger's journal is not intact: 'countersign ledger verify' says where"]


async def test_without_a_ledger_money_is_from_the_records_and_says_so(
    fakes: f.Fakes, services: Services, tmp_path: Path
) -> None:
    run = await mixed_run(fakes, services, tmp_path)
    money = (await report_of(services, run, tmp_path, ask_ledger=False))["money"]
    assert (money["source"], money["charged"], money["held"]) == ("records", "0.000008", "0.000001")
    assert money["adds_up"] is None


async def test_money_that_differs_is_named(fakes: f.Fakes, services: Services, tmp_path: Path) -> None:
    run = await mixed_run(fakes, services, tmp_path)
    first = run.prepared.identities[0].episode_id
    fakes.ledger.calls[0].accounted.CopyFrom(f.money(7))
    fakes.ledger.put(run.prepared.manifest.study_id, "stray", 1, ledger.CALL_STATE_CHARGED)
    gone = fakes.ledger.calls.pop(1)
    money = (await report_of(services, run, tmp_path))["money"]
    assert money["adds_up"] is False
    assert money["differences"] == [
        f"turn 1 of episode {first}: accounted is 0.000001 in the record and 0.000000007 in the ledger",
        f"the record's call for turn 1 of episode {gone.slot.episode_id} is not in the ledger",
        "the ledger's call for turn 1 of episode stray is in no record: collect again to complete the record",
    ]


async def test_a_hold_that_was_resolved_since_is_no_difference(
    fakes: f.Fakes, services: Services, tmp_path: Path
) -> None:
    run = await mixed_run(fakes, services, tmp_path)
    held = next(call for call in fakes.ledger.calls if call.state == ledger.CALL_STATE_HELD)
    held.state = ledger.CALL_STATE_RESOLVED
    held.accounted.CopyFrom(f.money(0))
    money = (await report_of(services, run, tmp_path))["money"]
    assert (money["adds_up"], money["held"], money["calls"]["resolved"]) == (True, "0", 1)


async def test_a_stray_or_foreign_record_is_an_error(fakes: f.Fakes, services: Services, tmp_path: Path) -> None:
    run = await collect(services, make_plan(), tmp_path)
    records = tmp_path / "records"
    path = records / f"{run.prepared.identities[0].episode_id}.json"
    record = json.loads(path.read_bytes())
    (records / "copy.json").write_bytes(path.read_bytes())
    with pytest.raises(BadRecord, match=r"copy\.json is not a record of study"):
        load_records(run.prepared.manifest, records)
    (records / "copy.json").unlink()
    for change in ({"manifest_digest": "00"}, {"identity": {**record["identity"], "arm": "own"}}):
        path.write_bytes(canonical_json({**record, **change}))
        with pytest.raises(BadRecord, match="is not a record of study"):
            load_records(run.prepared.manifest, records)
    for change in ({"status": "fine"}, {"termination": None}, {"outcome": None}, {"schema": "other/1"}, {"more": 1}):
        path.write_bytes(canonical_json({**record, **change}))
        with pytest.raises(BadRecord, match="is not a record of schema"):
            load_records(run.prepared.manifest, records)


async def test_records_that_do_not_fit_the_plan_do_not_add_up(
    fakes: f.Fakes, services: Services, tmp_path: Path
) -> None:
    run = await collect(services, make_plan(), tmp_path)
    records = load_records(run.prepared.manifest, tmp_path / "records")
    stray = {"stray": next(iter(records.values()))}
    with pytest.raises(DoesNotAddUp, match="2 episodes are planned and 3 are accounted for"):
        build_report(run.prepared.manifest, {**records, **stray}, None)
