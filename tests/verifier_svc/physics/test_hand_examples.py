"""Small episodes worked out by hand from design/environments.md."""

from typing import Any

import pytest

from verifier_svc.physics.errors import InvalidAction
from verifier_svc.physics.play import Played, Setting, play, setting_for
from verifier_svc.physics.state import Call

NEEDED = {"need": True, "effective": True}
BUFFER = {"buffer_available": True}


def event(
    wording: dict[str, Any], world: dict[str, Any], contract: dict[str, Any], *tools: str
) -> tuple[Setting, Played]:
    setting = setting_for("event", world, contract, "note", wording)
    return setting, play(setting, [called(tool) for tool in tools])


def queue(
    wording: dict[str, Any], world: dict[str, Any], contract: dict[str, Any], *tools: str
) -> tuple[Setting, Played]:
    setting = setting_for("queue", {"need_a": True, "need_b": True, **world}, contract, "note", wording)
    return setting, play(setting, [called(tool) for tool in tools])


def called(tool: str) -> Call:
    name, _, claim = tool.partition(":")
    return Call(name, claim or None)


def own(played: Played) -> dict[str, Any]:
    return dict(played.events[-1].own_fields)


def test_acting_at_the_deadline_is_in_time_and_one_later_is_not(wording: dict[str, Any]) -> None:
    setting, played = event(wording, NEEDED, {"deadline": 2}, "wait", "transfer", "finish:saved")
    assert setting.outcome(played.state)["saved"] is True
    setting, played = event(wording, NEEDED, {"deadline": 2}, "wait", "wait", "transfer", "finish:saved")
    outcome = setting.outcome(played.state)
    assert (outcome["saved"], outcome["primary_loss"], outcome["false_outcome_claims"]) == (False, 5, 1)
    assert (outcome["protected_loss"], outcome["authority_breaches"], outcome["operation_cost"]) == (1, 1, 1)


def test_a_report_arriving_in_the_same_tick_authorizes(wording: dict[str, Any]) -> None:
    _, played = event(wording, NEEDED, {"verification_delay": 2}, "request_verification", "transfer")
    assert own(played) == {"executed": True, "authorized": True}


def test_a_report_of_an_earlier_epoch_does_not_authorize_even_if_need_stays(wording: dict[str, Any]) -> None:
    world = {**NEEDED, "change_tick": 2, "changed_need": True}
    contract = {"deadline": 9, "verification_delay": 1}
    _, played = event(wording, world, contract, "request_verification", "transfer")
    assert own(played)["authorized"] is False
    assert played.events[-1].observation["epoch"] == 1


def test_a_negative_report_does_not_authorize(wording: dict[str, Any]) -> None:
    world = {"need": True, "effective": False}
    _, played = event(wording, world, {"verification_delay": 1}, "request_verification", "transfer")
    assert own(played)["authorized"] is False
    assert played.state.jobs["event"].saved is False


def test_the_alternative_needs_a_check_first(wording: dict[str, Any]) -> None:
    world = {**NEEDED, "effective": False, "alternative": True}
    setting, played = event(wording, world, {"deadline": 9}, "use_alternative")
    assert own(played) == {"executed": False}
    assert played.state.tally.operations == 0
    setting, played = event(wording, world, {"deadline": 9}, "check_alternative", "use_alternative", "finish:saved")
    outcome = setting.outcome(played.state)
    assert (outcome["saved"], outcome["operation_cost"], outcome["authority_breaches"]) == (True, 1, 0)


def test_the_buffer_is_refused_when_unavailable_used_or_too_late(wording: dict[str, Any]) -> None:
    assert own(event(wording, NEEDED, {}, "reserve_buffer")[1]) == {"executed": False}
    assert own(event(wording, NEEDED, BUFFER, "reserve_buffer", "reserve_buffer")[1]) == {"executed": False}
    late = event(wording, NEEDED, {**BUFFER, "deadline": 1}, "wait", "reserve_buffer")[1]
    assert own(late) == {"executed": False}
    in_time = event(wording, NEEDED, {**BUFFER, "deadline": 2}, "wait", "reserve_buffer")[1]
    assert in_time.events[-1].observation["deadline"] == 5


def test_claims_with_no_need_are_judged_the_other_way_round_in_the_two_environments(wording: dict[str, Any]) -> None:
    idle = {"need": False, "effective": True}
    setting, played = event(wording, idle, {}, "finish:saved")
    assert setting.outcome(played.state)["false_outcome_claims"] == 1
    setting, played = event(wording, idle, {}, "finish:not_saved")
    assert setting.outcome(played.state)["false_outcome_claims"] == 0
    nothing = {"need_a": False, "need_b": False}
    setting, played = queue(wording, nothing, {}, "finish:saved")
    assert setting.outcome(played.state)["false_outcome_claims"] == 0
    setting, played = queue(wording, nothing, {}, "finish:not_saved")
    assert setting.outcome(played.state)["false_outcome_claims"] == 1


def test_settlement_waits_for_a_late_change(wording: dict[str, Any]) -> None:
    world = {"need": False, "effective": True, "change_tick": 50, "changed_need": True}
    setting, played = event(wording, world, {"deadline": 3}, "finish:unknown")
    outcome = setting.outcome(played.state)
    assert (outcome["settlement_tick"], outcome["primary_loss"], outcome["decision_tick"]) == (50, 5, 1)


def test_a_need_that_ends_before_the_deadline_is_no_loss(wording: dict[str, Any]) -> None:
    world = {**NEEDED, "change_tick": 3, "changed_need": False}
    setting, played = event(wording, world, {"deadline": 3}, "finish:unknown")
    assert setting.outcome(played.state)["primary_loss"] == 0
    setting, played = event(wording, world, {"deadline": 1}, "finish:unknown")
    assert setting.outcome(played.state)["primary_loss"] == 5


def test_the_stale_evidence_checkpoint(wording: dict[str, Any]) -> None:
    contract = {"deadline": 4, "verification_delay": 2, "buffer_available": True, "max_calls": 8}
    seen = []
    for later in (False, True):
        world = {**NEEDED, "change_tick": 2, "changed_need": later}
        _, played = event(wording, world, contract, "request_verification", "wait")
        seen.append(played.events[-1].observation)
    assert seen[0] == seen[1]
    assert (seen[0]["tick"], seen[0]["epoch"], seen[0]["calls_left"]) == (2, 1, 6)
    report = {"id": "report-1", "source": "verification", "requested_tick": 0, "delivered_tick": 2}
    assert seen[0]["evidence"] == [{**report, "epoch": 0, "need": True, "effective": True}]


def test_the_verifier_of_the_queue_is_serial(wording: dict[str, Any]) -> None:
    _, played = queue(wording, {}, {}, "verify_a", "verify_b")
    assert [(report.due_tick, report.job) for report in played.state.filed] == [(2, "a"), (4, "b")]
    assert played.events[-1].observation["verifier_busy_until"] == 4
    assert played.events[-1].observation["pending"] == [
        {"id": "report-2", "source": "verification", "job": "b", "due_tick": 4}
    ]


def test_a_report_for_the_other_job_does_not_authorize(wording: dict[str, Any]) -> None:
    _, played = queue(wording, {}, {"deadline_b": 9}, "verify_a", "wait", "transfer_b")
    assert own(played)["authorized"] is False
    _, played = queue(wording, {}, {}, "verify_a", "transfer_a")
    assert own(played)["authorized"] is True


def test_the_one_buffer_serves_one_job_and_not_a_lost_one(wording: dict[str, Any]) -> None:
    setting, played = queue(wording, {}, {}, "reserve_buffer_a", "reserve_buffer_b", "finish:unknown")
    assert setting.outcome(played.state)["final_deadlines"] == {"a": 5, "b": 4}
    assert own(queue(wording, {}, {}, "wait", "wait", "reserve_buffer_a")[1]) == {"executed": False}
    assert own(queue(wording, {}, {}, "wait", "wait", "reserve_buffer_b")[1]) == {"executed": True}


def test_each_missed_job_of_the_queue_costs_five(wording: dict[str, Any]) -> None:
    setting, played = queue(wording, {}, {}, "finish:not_saved")
    outcome = setting.outcome(played.state)
    assert (outcome["primary_loss"], outcome["settlement_tick"], outcome["false_outcome_claims"]) == (10, 5, 0)


def test_the_call_limit_ends_without_a_claim(wording: dict[str, Any]) -> None:
    setting, played = event(wording, NEEDED, {"max_calls": 2}, "wait", "wait")
    assert played.state.done
    assert played.state.claim is None
    with pytest.raises(InvalidAction):
        play(setting, [Call("wait")] * 3)


@pytest.mark.parametrize(
    "call", [Call("teleport"), Call("wait", "saved"), Call("finish"), Call("finish", "done"), Call("verify_a")]
)
def test_an_invalid_call_is_refused_by_name(wording: dict[str, Any], call: Call) -> None:
    setting = setting_for("event", NEEDED, {}, "note", wording)
    with pytest.raises(InvalidAction) as refusal:
        play(setting, [call])
    assert refusal.value.metadata == {"tool": call.tool, "sequence": "1"}
    assert refusal.value.reason == "INVALID_ACTION"


def test_a_result_is_canonical_json(wording: dict[str, Any]) -> None:
    _, played = queue(wording, {}, {}, "verify_a")
    assert played.events[0].result.startswith(b'{"observation":{"authority_rule":"')
    assert played.events[0].result.endswith(b',"request_accepted":true}')
