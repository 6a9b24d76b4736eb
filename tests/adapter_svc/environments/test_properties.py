"""What must hold in every world, under every contract, whatever is called."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapter_svc.environments import Action, Claim, EventWorld, InvalidAction, Outcome, Simulator, start
from countersign.kit.canonical import canonical_json
from tests.adapter_svc.environments.helpers import MESSAGE, WORDING, scenarios

Scenario = tuple[str, Any, Any, list[Action]]


def _started(scenario: Scenario, message: str = MESSAGE) -> Simulator:
    environment, world, contract, _ = scenario
    return start(environment, world, contract, message, WORDING)


def _ended(scenario: Scenario, message: str = MESSAGE) -> Simulator:
    simulator = _started(scenario, message)
    for action in scenario[3]:
        if not simulator.done:
            simulator.call(action.tool, action.claim)
    return simulator


@given(scenarios)
def test_each_accepted_call_takes_one_tick_and_one_call(scenario: Scenario) -> None:
    simulator = _ended(scenario)
    for number, event in enumerate(simulator.events, start=1):
        assert (event.sequence, event.start_tick, event.end_tick) == (number, number - 1, number)
        seen = event.result_object()["observation"]
        assert seen["tick"] == number
        assert seen["calls_left"] == scenario[2].max_calls - number
        assert seen["done"] == (number == len(simulator.events))
    assert simulator.tick == len(simulator.events)


@given(scenarios)
def test_results_are_canonical_and_round_trip(scenario: Scenario) -> None:
    simulator = _ended(scenario)
    for event in simulator.events:
        assert canonical_json(json.loads(event.result)) == event.result
        assert event.own_result() == {k: v for k, v in event.result_object().items() if k != "observation"}
    assert canonical_json(json.loads(simulator.observation_bytes())) == simulator.observation_bytes()
    assert canonical_json(simulator.events[-1].result_object()["observation"]) == simulator.observation_bytes()


@given(scenarios)
def test_every_report_is_either_pending_or_delivered_on_time(scenario: Scenario) -> None:
    simulator = _ended(scenario)
    requests = [
        f"report-{event.sequence}" for event in simulator.events if event.own_result().get("request_accepted", False)
    ]
    seen = simulator.observation()
    assert sorted(report["id"] for report in seen["evidence"] + seen["pending"]) == sorted(requests)
    assert all(report["due_tick"] > simulator.tick for report in seen["pending"])
    delivered = [report["delivered_tick"] for report in seen["evidence"]]
    assert delivered == sorted(delivered)
    assert all(tick <= simulator.tick for tick in delivered)


def _invalid_calls(simulator: Simulator) -> list[tuple[str, str | None]]:
    if simulator.done:
        return [("wait", None), ("finish", "unknown"), ("nonsense", None)]
    return [("nonsense", None), ("", None), ("wait", "saved"), ("finish", None), ("finish", "maybe"), ("finish", "")]


@given(scenarios, st.data())
def test_invalid_calls_change_nothing(scenario: Scenario, data: st.DataObject) -> None:
    disturbed, plain = _started(scenario), _ended(scenario)
    for action in (*scenario[3], None):
        before = (disturbed.observation_bytes(), disturbed.events, disturbed.claim)
        tool, claim = data.draw(st.sampled_from(_invalid_calls(disturbed)))
        with pytest.raises(InvalidAction):
            disturbed.call(tool, claim)
        assert (disturbed.observation_bytes(), disturbed.events, disturbed.claim) == before
        if action is not None and not disturbed.done:
            disturbed.call(action.tool, action.claim)
    assert disturbed.events == plain.events
    assert disturbed.settle() == plain.settle()


@given(scenarios)
def test_losses_are_bounded(scenario: Scenario) -> None:
    environment, _, _, _ = scenario
    simulator = _ended(scenario)
    outcome = simulator.settle()
    transfers = sum(event.tool.startswith("transfer") for event in simulator.events)
    executed = sum(event.own_result().get("executed", False) for event in simulator.events)
    assert outcome.primary_loss in ((0, 5) if environment == "event" else (0, 5, 10))
    assert outcome.protected_loss == transfers
    assert 0 <= outcome.authority_breaches <= transfers
    assert outcome.operation_cost == executed
    assert outcome.false_outcome_claims in (0, 1)
    assert outcome.decision_tick == simulator.tick
    assert outcome.settlement_tick >= outcome.decision_tick


@given(scenarios)
def test_settling_is_repeatable_and_changes_nothing(scenario: Scenario) -> None:
    simulator = _ended(scenario)
    before = simulator.observation_bytes()
    assert simulator.settle() == simulator.settle()
    assert simulator.observation_bytes() == before


@given(scenarios)
def test_the_untrusted_message_never_touches_physics(scenario: Scenario) -> None:
    quiet, loud = _ended(scenario), _ended(scenario, WORDING["untrusted_messages"]["pressure"])
    assert quiet.settle() == loud.settle()
    assert [event.own_result() for event in quiet.events] == [event.own_result() for event in loud.events]


@given(scenarios)
def test_exactly_one_of_the_two_definite_claims_is_false(scenario: Scenario) -> None:
    environment, world, contract, calls = scenario
    by_claim: dict[Claim, Outcome] = {}
    for claim in Claim:
        simulator = _ended((environment, world, contract, [*calls[:-1], Action("finish", claim)]))
        if simulator.claim is None:
            assert simulator.settle().false_outcome_claims == 0
            return
        by_claim[claim] = simulator.settle()
    assert by_claim[Claim.UNKNOWN].false_outcome_claims == 0
    assert by_claim[Claim.SAVED].false_outcome_claims + by_claim[Claim.NOT_SAVED].false_outcome_claims == 1


@given(scenarios)
def test_settlement_equals_waiting_tick_by_tick(scenario: Scenario) -> None:
    """Background time that is jumped over gives what watching each of its ticks gives."""
    environment, world, _, _ = scenario
    simulator = _ended(scenario)
    outcome, seen = simulator.settle().to_json(), simulator.observation()
    if environment == "queue":
        lost = {
            job: seen["deadline_loss"][job] or (getattr(world, f"need_{job}") and not seen["saved"][job])
            for job in "ab"
        }
        assert outcome["primary_loss"] == 5 * (lost["a"] + lost["b"])
        assert outcome["settlement_tick"] == max(seen["tick"], *(tick + 1 for tick in seen["deadlines"].values()))
        return
    horizon = max(seen["tick"], seen["deadline"] + 1, world.change_tick or 0)
    missed = seen["deadline_loss"] or any(
        _need(world, tick) and not seen["saved"] and tick > seen["deadline"]
        for tick in range(seen["tick"] + 1, horizon + 1)
    )
    assert outcome["primary_loss"] == 5 * missed
    assert outcome["settlement_tick"] == horizon


def _need(world: EventWorld, tick: int) -> bool:
    changed = world.change_tick is not None and tick >= world.change_tick
    return bool(world.changed_need) if changed else world.need
