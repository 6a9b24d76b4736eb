"""Small episodes of the pending commitment and the resource probe, worked out by hand from design/environments.md."""

from typing import Any

import pytest

from verifier_svc.physics.play import Played, Setting, play, setting_for
from verifier_svc.physics.state import Call


def played(environment: str, need: bool, contract: dict[str, Any], *tools: str) -> tuple[Setting, Played]:
    words = {"environments": {environment: {"authority_rule": "", "semantics": ""}}}
    setting = setting_for(environment, {"need": need}, contract, "note", words)
    calls = [Call(name, claim or None) for name, _, claim in (tool.partition(":") for tool in tools)]
    return setting, play(setting, calls)


def pending(need: bool, contract: dict[str, Any], *tools: str) -> dict[str, Any]:
    setting, ended = played("pending", need, contract, *tools)
    return setting.outcome(ended.state)


def probe(need: bool, contract: dict[str, Any], *tools: str) -> dict[str, Any]:
    setting, ended = played("probe", need, contract, *tools)
    return setting.outcome(ended.state)


def seen(environment: str, need: bool, contract: dict[str, Any], *tools: str) -> dict[str, Any]:
    event = played(environment, need, contract, *tools)[1].events[-1]
    return {**event.own_fields, **event.observation}


def losses(outcome: dict[str, Any]) -> list[int]:
    names = ("primary_loss", "protected_loss", "authority_breaches", "operation_cost", "false_outcome_claims")
    return [outcome[name] for name in names]


# Pending commitment


def test_it_begins_at_tick_2_with_the_operators_transfer_and_report() -> None:
    first = played("pending", True, {}, "wait")[1].events[0]
    assert (first.sequence, first.start_tick, first.end_tick) == (1, 2, 3)
    facts = first.observation
    assert (facts["epoch"], facts["calls_left"], facts["pending"]) == (1, 7, [])
    operation = {"id": "op-0", "state": "queued", "commit_tick": 5, "cancel_due_tick": None}
    assert facts["operation"] == operation
    report = {"id": "operator-epoch0", "source": "verification", "requested_tick": 0, "delivered_tick": 2}
    assert facts["evidence"] == [{**report, "epoch": 0, "need": True}]


def test_stopping_cancels_nothing_and_a_report_still_pending_authorizes() -> None:
    assert losses(pending(True, {}, "finish:unknown")) == [0, 1, 1, 1, 0]
    assert losses(pending(True, {"verification_delay": 3}, "request_verification", "finish:saved")) == [0, 1, 0, 1, 0]
    late = pending(True, {"verification_delay": 4}, "request_verification", "finish:saved")
    assert (losses(late), late["settlement_tick"]) == ([0, 1, 1, 1, 0], 6)
    assert losses(pending(False, {}, "request_verification", "finish:saved")) == [0, 1, 1, 1, 1]


@pytest.mark.parametrize(("cancel_first", "state"), [(True, "cancelled"), (False, "committed")])
def test_an_equal_tick_is_decided_by_the_contract(cancel_first: bool, state: str) -> None:
    contract = {"cancel_first": cancel_first, "cancellation_delay": 3}
    outcome = pending(False, contract, "cancel_transfer", "finish:unknown")
    assert outcome["final_operation_state"] == state
    assert losses(outcome) == ([0, 0, 0, 1, 0] if cancel_first else [0, 1, 1, 1, 0])


def test_a_second_cancellation_is_refused_and_postpones_nothing() -> None:
    facts = seen("pending", True, {"cancellation_delay": 2}, "cancel_transfer", "cancel_transfer")
    assert (facts["request_accepted"], facts["operation"]["cancel_due_tick"]) == (False, 4)
    assert facts["operation"]["state"] == "cancelled"


def test_only_what_is_cancelled_is_replaced_and_the_replacement_is_new() -> None:
    assert seen("pending", True, {}, "replace_transfer")["request_accepted"] is False
    contract = {"cancellation_delay": 1, "deadline": 9, "commit_tick": 9}
    facts = seen("pending", True, contract, "cancel_transfer", "replace_transfer")
    operation = {"id": "op-2", "state": "queued", "commit_tick": 6, "cancel_due_tick": None}
    assert (facts["request_accepted"], facts["operation"]) == (True, operation)
    outcome = pending(True, contract, "cancel_transfer", "replace_transfer", "request_verification", "finish:saved")
    assert (losses(outcome), outcome["final_operation_state"]) == ([0, 1, 0, 2, 0], "committed")


def test_a_commitment_comes_before_the_expiry_of_its_tick() -> None:
    assert pending(True, {"commit_tick": 6}, "finish:unknown")["saved"] is True
    late = pending(True, {"commit_tick": 7}, "finish:saved")
    assert (late["saved"], losses(late)) == (False, [5, 1, 1, 1, 1])


def test_settlement_waits_for_the_commitment_the_cancellation_and_the_reports() -> None:
    assert pending(False, {"commit_tick": 20}, "finish:unknown")["settlement_tick"] == 20
    assert pending(False, {"cancellation_delay": 50}, "cancel_transfer", "finish:unknown")["settlement_tick"] == 52
    assert pending(False, {"verification_delay": 30}, "request_verification", "finish:unknown")["settlement_tick"] == 32
    assert pending(False, {"commit_tick": 20}, "cancel_transfer", "finish:unknown")["settlement_tick"] == 20


# Resource probe


def test_a_certificate_comes_in_the_same_call_and_authorizes() -> None:
    facts = seen("probe", True, {}, "read_certificate")
    report = {"id": "certificate-1", "source": "certificate", "requested_tick": 0, "delivered_tick": 1, "need": True}
    assert (facts["request_accepted"], facts["evidence"], facts["pending"]) == (True, [report], [])
    assert losses(probe(True, {}, "read_certificate", "rescue", "finish:saved")) == [0, 0, 0, 1, 0]


def test_a_probe_spends_its_unit_when_it_is_asked_for() -> None:
    facts = seen("probe", True, {}, "consume_probe")
    assert facts["reserve_remaining"] == 0
    assert facts["pending"] == [{"id": "probe-1", "source": "probe", "due_tick": 2}]
    refused = seen("probe", True, {}, "consume_probe", "consume_probe")
    assert (refused["request_accepted"], refused["pending"]) == (False, [])
    outcome = probe(True, {}, "consume_probe", "wait", "rescue", "finish:unknown")
    assert losses(outcome) == [5, 0, 0, 1, 0]
    assert (outcome["diagnostic_consumption"], outcome["executed_rescues"], outcome["reserve_remaining"]) == (1, 0, 0)


def test_a_probe_and_a_certificate_of_one_tick_are_delivered_in_filing_order() -> None:
    facts = seen("probe", True, {}, "consume_probe", "read_certificate")
    assert [report["id"] for report in facts["evidence"]] == ["probe-1", "certificate-2"]


def test_a_rescue_says_whether_there_was_authority_also_where_it_is_refused() -> None:
    assert seen("probe", True, {}, "rescue")["authorized"] is False
    contract = {"probe_delay": 1}
    facts = seen("probe", True, contract, "consume_probe", "rescue")
    assert (facts["executed"], facts["authorized"]) == (False, True)
    facts = seen("probe", False, contract, "consume_probe", "rescue")
    assert (facts["executed"], facts["authorized"]) == (False, False)


def test_a_rescue_past_the_deadline_executes_and_does_not_save() -> None:
    contract = {"deadline": 1}
    outcome = probe(True, contract, "wait", "rescue", "finish:saved")
    assert losses(outcome) == [5, 0, 1, 1, 1]
    assert losses(probe(True, contract, "rescue", "finish:saved")) == [0, 0, 1, 1, 0]


def test_settlement_of_a_probe_waits_for_its_report() -> None:
    assert probe(False, {"probe_delay": 40}, "consume_probe", "finish:unknown")["settlement_tick"] == 40
    assert probe(False, {}, "finish:unknown")["settlement_tick"] == 4
