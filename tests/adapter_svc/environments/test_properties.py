"""What must hold in every world, under every contract, whatever is called."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapter_svc.environments import (
    Action,
    Claim,
    EventWorld,
    InvalidAction,
    Outcome,
    PendingContract,
    PendingSimulator,
    PendingWorld,
    ProbeContract,
    ProbeWorld,
    QueueWorld,
    Simulator,
    World,
    start,
)
from countersign.kit.canonical import canonical_json
from tests.adapter_svc.environments.helpers import MESSAGE, WORDING, pending_contracts, probe_contracts, scenarios

Scenario = tuple[str, Any, Any, list[Action]]
REPORT_NAMES = {
    "request_verification": "report",
    "request_human": "report",
    "verify_a": "report",
    "verify_b": "report",
    "read_certificate": "certificate",
    "consume_probe": "probe",
}


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
    simulator, first = _ended(scenario), 2 if scenario[0] == "pending" else 0
    for number, event in enumerate(simulator.events, start=1):
        assert (event.sequence, event.start_tick, event.end_tick) == (number, first + number - 1, first + number)
        seen = event.result_object()["observation"]
        assert seen["tick"] == first + number
        assert seen["calls_left"] == scenario[2].max_calls - number
        assert seen["done"] == (number == len(simulator.events))
    assert simulator.tick == first + len(simulator.events)


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
    requests = ["operator-epoch0"] if scenario[0] == "pending" else []
    for event in simulator.events:
        if event.tool in REPORT_NAMES and event.own_result()["request_accepted"]:
            requests.append(f"{REPORT_NAMES[event.tool]}-{event.sequence}")
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


def _executed(simulator: Simulator) -> tuple[int, int]:
    """How many transfers and how many operations the records show; what settles without a call included."""
    if isinstance(simulator, PendingSimulator):
        # Each replacement means one cancellation more that took effect; the last operation commits or is cancelled.
        replacements = sum(
            event.tool == "replace_transfer" and event.own_result()["request_accepted"] for event in simulator.events
        )
        outcome = simulator.settle().to_json()
        return int(outcome["final_operation_state"] == "committed"), replacements + 1
    transfers = sum(event.tool.startswith("transfer") for event in simulator.events)
    executed = sum(event.own_result().get("executed", False) for event in simulator.events)
    probes = sum(event.tool == "consume_probe" and event.own_result()["request_accepted"] for event in simulator.events)
    return transfers, executed + probes


@given(scenarios)
def test_losses_are_bounded(scenario: Scenario) -> None:
    environment, _, _, _ = scenario
    simulator = _ended(scenario)
    outcome = simulator.settle()
    assert outcome.primary_loss in ((0, 5, 10) if environment == "queue" else (0, 5))
    protected, operations = _executed(simulator)
    assert outcome.protected_loss == protected
    assert outcome.operation_cost == operations
    breachable = sum(event.own_result().get("executed", False) for event in simulator.events)
    assert 0 <= outcome.authority_breaches <= (protected if environment != "probe" else breachable)
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
    environment, world, contract, _ = scenario
    simulator = _ended(scenario)
    outcome = simulator.settle().to_json()
    waits = outcome["settlement_tick"] - outcome["decision_tick"]
    # The same calls but the end, then nothing but waiting: the last observation shows what settlement found.
    acted = [Action(event.tool) for event in simulator.events if event.tool != "finish"]
    ended_by_call = len(simulator.events) - len(acted)
    patient = replace(contract, max_calls=100)
    watched = _ended((environment, world, patient, [*acted, *[Action("wait")] * (waits + ended_by_call)]))
    seen = watched.observation()
    assert (seen["tick"], watched.done) == (outcome["settlement_tick"], False)
    assert seen["saved"] == outcome["saved"]
    assert outcome["primary_loss"] == 5 * _obligations_missed(world, seen)
    if environment == "pending":
        assert seen["operation"]["state"] == outcome["final_operation_state"]


def _obligations_missed(world: World, seen: dict[str, Any]) -> int:
    if isinstance(world, QueueWorld):
        return int(seen["deadline_loss"]["a"]) + int(seen["deadline_loss"]["b"])
    return int(seen["deadline_loss"])


@given(scenarios)
def test_the_horizon_is_the_design_s(scenario: Scenario) -> None:
    environment, world, _, _ = scenario
    simulator = _ended(scenario)
    seen = simulator.observation()
    later = [*seen["deadlines"].values()] if environment == "queue" else [seen["deadline"]]
    ticks = [seen["tick"], *(deadline + 1 for deadline in later)]
    if isinstance(world, EventWorld):
        ticks.append(world.change_tick or 0)
    if environment in ("pending", "probe"):
        ticks += [report["due_tick"] for report in seen["pending"]]
    if environment == "pending":
        ticks += [seen["operation"]["commit_tick"], seen["operation"]["cancel_due_tick"] or 0]
    assert simulator.settle().settlement_tick == max(ticks)


@given(st.lists(st.sampled_from(PendingSimulator.TOOLS[:-1]), max_size=8), pending_contracts)
def test_a_needless_world_looks_the_same_until_a_report_or_a_saving_or_a_loss(
    tools: list[str], contract: PendingContract
) -> None:
    """Worlds of the support can be told apart by nothing but what the rules say that tells them apart."""
    playing = [start("pending", PendingWorld(need), contract, MESSAGE, WORDING) for need in (False, True)]
    for tool in tools:
        if playing[0].done:
            return
        first, second = (simulator.call(tool).result for simulator in playing)
        seen = playing[1].observation()
        if len(seen["evidence"]) > 1 or seen["saved"] or seen["deadline_loss"]:
            return
        assert first == second


@given(st.lists(st.sampled_from(("consume_probe", "rescue", "wait")), max_size=8), probe_contracts)
def test_probing_worlds_look_the_same_until_a_report_or_a_saving_or_a_loss(
    tools: list[str], contract: ProbeContract
) -> None:
    playing = [start("probe", ProbeWorld(need), contract, MESSAGE, WORDING) for need in (False, True)]
    for tool in tools:
        if playing[0].done:
            return
        first, second = (simulator.call(tool).result for simulator in playing)
        seen = playing[1].observation()
        if seen["evidence"] or seen["saved"] or seen["deadline_loss"]:
            return
        assert first == second
