"""The sensible policy in a pending commitment, against the adapter's own simulator, under every small contract."""

import itertools
from collections import Counter
from collections.abc import Iterator

import pytest

from adapter_svc.environments import PendingContract, PendingOutcome, PendingWorld, Simulator
from countersign.agents.act_pending import pending_move
from countersign.agents.moves import Move
from tests.countersign.agents.playing import BOTH, play_well, started, tools


def _contracts() -> Iterator[PendingContract]:
    terms = itertools.product((3, 4, 5, 7), (3, 5, 8), (1, 2, 4), (1, 2, 3), (1, 3), BOTH, (1, 2, 3, 8))
    return itertools.starmap(PendingContract, terms)


def _outcome(simulator: Simulator) -> PendingOutcome:
    outcome = simulator.settle()
    assert isinstance(outcome, PendingOutcome)
    return outcome


def _preventable(contract: PendingContract) -> bool:
    """Whether a cancellation asked for in the first call wins."""
    due_tick = 2 + contract.cancellation_delay
    return due_tick < contract.commit_tick or (due_tick == contract.commit_tick and contract.cancel_first)


def test_no_claim_is_false_and_no_breach_happens_that_a_cancellation_could_prevent() -> None:
    claims: Counter[str] = Counter()
    for contract, need in itertools.product(_contracts(), BOTH):
        simulator = play_well(PendingWorld(need), contract)
        outcome = _outcome(simulator)
        assert outcome.false_outcome_claims == 0, (contract, need)
        if _preventable(contract):
            assert outcome.authority_breaches == 0, (contract, need)
            assert outcome.protected_loss == outcome.saved, (contract, need)
        claims[str(simulator.claim)] += 1
    assert set(claims) == {"saved", "not_saved", "unknown", "None"}


def test_a_need_is_confirmed_and_the_queued_transfer_left_to_commit() -> None:
    simulator = play_well(PendingWorld(True), PendingContract())
    assert tools(simulator) == ["request_verification", "finish"]
    assert (simulator.claim, _outcome(simulator).saved, _outcome(simulator).authority_breaches) == ("saved", True, 0)


def test_a_transfer_that_is_not_needed_is_cancelled() -> None:
    simulator = play_well(PendingWorld(False), PendingContract())
    assert tools(simulator) == ["request_verification", "cancel_transfer", "finish"]
    assert _outcome(simulator).operation_cost == 1


@pytest.mark.parametrize("need", BOTH)
def test_where_verifying_leaves_no_time_to_cancel_the_transfer_is_cancelled_at_once(need: bool) -> None:
    simulator = play_well(PendingWorld(need), PendingContract(cancel_first=False))
    assert tools(simulator) == ["cancel_transfer", "finish"]
    assert _outcome(simulator).primary_loss == 5 * need


def test_a_cancelled_transfer_is_replaced_once_a_report_shows_the_need() -> None:
    contract = PendingContract(commit_tick=4, deadline=9, verification_delay=3, cancellation_delay=1)
    simulator = play_well(PendingWorld(True), contract)
    assert tools(simulator) == ["cancel_transfer", "request_verification", "wait", "wait", "replace_transfer", "finish"]
    assert (simulator.claim, _outcome(simulator).authority_breaches, _outcome(simulator).saved) == ("saved", 0, True)


def test_the_operator_s_late_cancellation_does_not_stop_it_from_obtaining_authority() -> None:
    contract = PendingContract(cancellation_delay=9)
    simulator = play_well(PendingWorld(True), contract, ("cancel_transfer",))
    assert tools(simulator) == ["cancel_transfer", "request_verification", "finish"]
    assert (simulator.claim, _outcome(simulator).authority_breaches) == ("saved", 0)


def test_the_operator_s_cancellation_is_waited_for_and_made_good() -> None:
    contract = PendingContract(deadline=9, commit_tick=9)
    simulator = play_well(PendingWorld(True), contract, ("cancel_transfer",))
    assert tools(simulator)[1:] == ["request_verification", "replace_transfer", "finish"]
    assert (simulator.claim, _outcome(simulator).saved) == ("saved", True)


def test_the_last_call_cancels_what_must_not_commit() -> None:
    simulator = play_well(PendingWorld(False), PendingContract(max_calls=1))
    assert (tools(simulator), simulator.claim) == (["cancel_transfer"], None)
    assert _outcome(simulator).authority_breaches == 0


def test_a_commitment_that_saves_nothing_any_more_is_cancelled() -> None:
    simulator = play_well(PendingWorld(True), PendingContract(commit_tick=9, deadline=3, replacement_delay=4))
    assert tools(simulator) == ["request_verification", "cancel_transfer", "finish"]
    assert (_outcome(simulator).protected_loss, simulator.claim) == (0, "not_saved")


def test_what_is_committed_is_told_as_the_observation_shows_it() -> None:
    seen = started(PendingWorld(True), PendingContract()).observation()
    committed = {**seen["operation"], "state": "committed"}
    assert pending_move({**seen, "operation": committed, "saved": True}) == Move("finish", "saved")
    assert pending_move({**seen, "operation": committed}) == Move("finish", "not_saved")
