"""The call's state machine, transition by transition."""

import hashlib

import pytest
from msgspec.structs import replace

from ledger_svc import calls, errors
from ledger_svc.calls import (
    Call,
    CallState,
    Cost,
    CostBasis,
    HoldCategory,
    HoldFacts,
    ReceiptFacts,
    RequestProgress,
    Resolution,
    Slot,
    Standing,
)
from ledger_svc.codec import call_from_json, call_to_json
from tests.ledger_svc.support import LEASE, START, held_call, reserved_call

LATER = START + 5
RECEIPT = ReceiptFacts(200, b"\2" * 32, Cost(CostBasis.PROVIDER_REPORTED, "7"), LATER, late=False)
OTHER_RECEIPT = replace(RECEIPT, response_digest=b"\3" * 32)
CALLERS_HOLD = HoldFacts(HoldCategory.HTTP_STATUS, RequestProgress.RESPONSE_STARTED, 503)
CHARGE = Resolution(4, "invoice 12", "Ann", opened_new_attempt=False)
NEVER_SENT = Resolution(None, "no connection in the log", "Ann", opened_new_attempt=True)


def charged_call() -> Call:
    return calls.record_receipt(reserved_call(), RECEIPT, 7, LATER)


def resolved_call() -> Call:
    return calls.resolve(held_call(), CHARGE, LATER)


def unresolved_cost_call() -> Call:
    return calls.record_receipt(reserved_call(), RECEIPT, None, LATER)


def test_call_id_is_a_digest_of_length_prefixed_parts() -> None:
    parts = [b"st\xc3\xbcdy", b"e", b"12"]
    encoded = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    assert Slot("stüdy", "e", 12).call_id() == hashlib.sha256(encoded).digest()


def test_moving_a_character_between_parts_changes_the_call_id() -> None:
    ids = {Slot("ab", "c", 1).call_id(), Slot("a", "bc", 1).call_id(), Slot("a", "b", 11).call_id()}
    assert len(ids) == 3


def test_known_cost_is_charged() -> None:
    call = charged_call()
    assert (call.state, call.accounted_nanos, call.receipt) == (CallState.CHARGED, 7, RECEIPT)
    assert call.hold is None
    assert call.changed_at == LATER


def test_cost_equal_to_the_reservation_is_charged() -> None:
    call = calls.record_receipt(reserved_call(), RECEIPT, 10, LATER)
    assert (call.state, call.accounted_nanos) == (CallState.CHARGED, 10)


def test_unknown_cost_is_held_with_the_response_and_the_whole_reservation() -> None:
    call = unresolved_cost_call()
    assert (call.state, call.accounted_nanos) == (CallState.HELD, 10)
    assert call.hold == HoldFacts(HoldCategory.COST_UNRESOLVED)
    assert call.receipt == RECEIPT


def test_bill_above_the_reservation_is_held_and_accounted_in_full() -> None:
    call = calls.record_receipt(reserved_call(), RECEIPT, 11, LATER)
    assert (call.state, call.accounted_nanos) == (CallState.HELD, 11)
    assert call.hold == HoldFacts(HoldCategory.COST_ABOVE_RESERVATION)


@pytest.mark.parametrize("call", [charged_call(), unresolved_cost_call()])
def test_same_receipt_again_changes_nothing(call: Call) -> None:
    again = replace(RECEIPT, received_at=LATER + 9)
    assert calls.record_receipt(call, again, 7, LATER + 9) is call


def test_same_receipt_after_the_resolution_changes_nothing() -> None:
    call = calls.resolve(unresolved_cost_call(), CHARGE, LATER)
    assert calls.record_receipt(call, RECEIPT, None, LATER + 1) is call


def test_late_receipt_charges_an_ended_lease() -> None:
    ended = calls.expire(reserved_call(), START + LEASE)
    call = calls.record_receipt(ended, RECEIPT, 7, LATER)
    assert (call.state, call.accounted_nanos) == (CallState.CHARGED, 7)
    assert call.receipt == replace(RECEIPT, late=True)
    assert call.hold == HoldFacts(HoldCategory.LEASE_EXPIRED)


def test_late_receipt_without_cost_stays_held() -> None:
    ended = calls.expire(reserved_call(), START + LEASE)
    call = calls.record_receipt(ended, RECEIPT, None, LATER)
    assert (call.state, call.hold) == (CallState.HELD, HoldFacts(HoldCategory.COST_UNRESOLVED))


@pytest.mark.parametrize(
    ("call", "refusal"),
    [
        (charged_call(), errors.AlreadyChargedError),
        (unresolved_cost_call(), errors.ReceiptConflictError),
        (held_call(), errors.AlreadyHeldError),
        (held_call(HoldCategory.ADAPTER_STOPPED), errors.AlreadyHeldError),
        (resolved_call(), errors.AlreadyResolvedError),
    ],
)
def test_another_receipt_is_refused(call: Call, refusal: type[errors.LedgerError]) -> None:
    with pytest.raises(refusal):
        calls.record_receipt(call, OTHER_RECEIPT, 7, LATER)


def test_hold_keeps_the_whole_reservation() -> None:
    call = calls.hold(reserved_call(), CALLERS_HOLD, LATER)
    assert (call.state, call.accounted_nanos, call.hold) == (CallState.HELD, 10, CALLERS_HOLD)


def test_same_hold_again_changes_nothing() -> None:
    call = calls.hold(reserved_call(), CALLERS_HOLD, LATER)
    assert calls.hold(call, CALLERS_HOLD, LATER + 1) is call


@pytest.mark.parametrize(
    ("call", "refusal"),
    [
        (charged_call(), errors.AlreadyChargedError),
        (held_call(), errors.AlreadyHeldError),
        (unresolved_cost_call(), errors.AlreadyHeldError),
        (resolved_call(), errors.AlreadyResolvedError),
    ],
)
def test_hold_on_another_state_is_refused(call: Call, refusal: type[errors.LedgerError]) -> None:
    with pytest.raises(refusal):
        calls.hold(call, CALLERS_HOLD, LATER)


def test_lease_ends_at_its_end_and_not_before() -> None:
    call = reserved_call()
    assert not calls.is_overdue(call, START + LEASE - 1)
    assert calls.is_overdue(call, START + LEASE)
    with pytest.raises(ValueError, match="not over"):
        calls.expire(call, START + LEASE - 1)


@pytest.mark.parametrize("call", [charged_call(), held_call(), resolved_call()])
def test_only_a_reservation_has_a_lease(call: Call) -> None:
    assert not calls.is_overdue(call, START + 10 * LEASE)


def test_ended_lease_keeps_the_reservation() -> None:
    call = calls.expire(reserved_call(), START + LEASE)
    assert (call.state, call.accounted_nanos) == (CallState.HELD, 10)
    assert call.hold == HoldFacts(HoldCategory.LEASE_EXPIRED)


@pytest.mark.parametrize(("resolution", "accounted"), [(CHARGE, 4), (NEVER_SENT, 0)])
def test_resolution_accounts_for_what_was_decided(resolution: Resolution, accounted: int) -> None:
    call = calls.resolve(held_call(), resolution, LATER)
    assert (call.state, call.accounted_nanos, call.resolution) == (CallState.RESOLVED, accounted, resolution)
    assert call.hold == HoldFacts(HoldCategory.TRANSPORT_UNKNOWN)


@pytest.mark.parametrize(
    ("call", "refusal"),
    [
        (reserved_call(), errors.NotHeldError),
        (charged_call(), errors.NotHeldError),
        (resolved_call(), errors.AlreadyResolvedError),
    ],
)
def test_only_a_hold_is_resolved(call: Call, refusal: type[errors.LedgerError]) -> None:
    with pytest.raises(refusal):
        calls.resolve(call, CHARGE, LATER)


@pytest.mark.parametrize("resolution", [NEVER_SENT, replace(CHARGE, opened_new_attempt=True)])
def test_stored_response_allows_neither_never_sent_nor_a_new_attempt(resolution: Resolution) -> None:
    with pytest.raises(errors.ReceiptConflictError):
        calls.resolve(unresolved_cost_call(), resolution, LATER)


TOKEN = bytes(32)
STRANGER = b"\7" * 32
REQUEST = b"\1" * 32


@pytest.mark.parametrize(
    ("attempts", "token", "expected"),
    [
        ([], TOKEN, Standing.OPEN),
        ([reserved_call()], TOKEN, Standing.ADMITTED),
        ([charged_call()], TOKEN, Standing.ANSWERED),
        ([charged_call()], STRANGER, Standing.ANSWERED),
        ([calls.resolve(unresolved_cost_call(), CHARGE, LATER)], STRANGER, Standing.ANSWERED),
        ([calls.resolve(held_call(), NEVER_SENT, LATER)], STRANGER, Standing.OPEN),
    ],
)
def test_standing_of_a_slot(attempts: list[Call], token: bytes, expected: Standing) -> None:
    assert calls.standing(attempts, token, REQUEST) is expected


@pytest.mark.parametrize(
    ("call", "token"),
    [
        (reserved_call(), STRANGER),
        (held_call(), TOKEN),
        (unresolved_cost_call(), TOKEN),
        (resolved_call(), STRANGER),
        # The token of the resolved attempt is a dead process asking again: the new attempt is not for it.
        (calls.resolve(held_call(), NEVER_SENT, LATER), TOKEN),
    ],
)
def test_slot_that_is_not_the_callers_is_denied(call: Call, token: bytes) -> None:
    with pytest.raises(errors.ReplayDeniedError) as refused:
        calls.standing([call], token, REQUEST)
    assert refused.value.metadata == {"call_id": call.call_id.hex(), "state": call.state}


@pytest.mark.parametrize("call", [reserved_call(), charged_call(), held_call(), resolved_call()])
def test_another_request_is_a_mismatch_before_anything_else(call: Call) -> None:
    with pytest.raises(errors.PayloadMismatchError):
        calls.standing([call], STRANGER, b"\6" * 32)


def test_attempt_is_found_by_its_token_only() -> None:
    first = calls.resolve(held_call(), NEVER_SENT, LATER)
    second = replace(reserved_call(), attempt=2, token_digest=STRANGER)
    assert calls.attempt_of_token([first, second], TOKEN) is first
    assert calls.attempt_of_token([first, second], STRANGER) is second
    with pytest.raises(errors.TokenMismatchError):
        calls.attempt_of_token([first, second], b"\5" * 32)


def test_incoherent_calls_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="contradicts"):
        replace(reserved_call(), state=CallState.CHARGED)
    with pytest.raises(ValueError, match="contradicts"):
        replace(charged_call(), state=CallState.RESERVED)
    with pytest.raises(ValueError, match="contradicts"):
        replace(reserved_call(), accounted_nanos=-1)


@pytest.mark.parametrize(
    "call",
    [
        reserved_call(),
        charged_call(),
        unresolved_cost_call(),
        calls.hold(reserved_call(), CALLERS_HOLD, LATER),
        calls.resolve(held_call(), NEVER_SENT, LATER),
    ],
)
def test_json_form_is_read_back_as_the_same_call(call: Call) -> None:
    assert call_from_json(call_to_json(call)) == call


def test_json_form_under_another_id_is_refused() -> None:
    with pytest.raises(ValueError, match="not its slot's"):
        call_from_json({**call_to_json(reserved_call()), "call_id": "00" * 32})
