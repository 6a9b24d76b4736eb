"""Running totals and admission."""

import pytest
from msgspec.structs import replace

from countersign.kit.money import MAX_NANOS, Money
from ledger_svc import errors
from ledger_svc.budgets import Account, Study, Tally, Totals, admit
from ledger_svc.calls import CallState
from tests.ledger_svc.support import held_call, reserved_call

ACCOUNT = Account("lab", "USD", granted_nanos=100, prior_spend_nanos=30, totals=Totals(charged=Tally(50, 2)))
STUDY = Study("study", "lab", 100, 40, 2, bytes(32), 2, Totals(charged=Tally(85, 2), reserved=Tally(5, 1)))


def test_account_has_available_what_is_granted_and_neither_spent_nor_accounted_for() -> None:
    totals = Totals(Tally(1, 1), Tally(2, 1), Tally(3, 1), Tally(4, 1))
    assert Account("lab", "USD", 100, 30, totals).available_nanos == 60
    assert replace(ACCOUNT, prior_spend_nanos=60).available_nanos == -10


@pytest.mark.parametrize("requested", [0, 1, 10])
def test_reservation_up_to_all_that_is_left_is_admitted(requested: int) -> None:
    admit(replace(ACCOUNT, granted_nanos=90), STUDY, requested)


def test_reservation_above_the_studys_cap_is_refused_with_what_is_left() -> None:
    with pytest.raises(errors.StudyCapExceededError) as refused:
        admit(ACCOUNT, STUDY, 11)
    assert refused.value.metadata == {"available_nanos": "10", "requested_nanos": "11"}


def test_reservation_above_the_accounts_budget_is_refused_with_what_is_left() -> None:
    with pytest.raises(errors.BudgetExhaustedError) as refused:
        admit(replace(ACCOUNT, granted_nanos=85), STUDY, 6)
    assert refused.value.metadata == {"available_nanos": "5", "requested_nanos": "6"}


def test_overdrawn_account_admits_not_even_zero() -> None:
    with pytest.raises(errors.BudgetExhaustedError):
        admit(replace(ACCOUNT, granted_nanos=79), STUDY, 0)


def test_reservation_above_the_ceiling_of_one_call_is_refused() -> None:
    with pytest.raises(errors.CallCeilingExceededError) as refused:
        admit(ACCOUNT, replace(STUDY, call_ceiling_nanos=4), 5)
    assert refused.value.metadata == {"ceiling_nanos": "4", "requested_nanos": "5"}


def test_blocked_study_admits_nothing() -> None:
    blocked = replace(STUDY, totals=Totals(held=Tally(0, 1)))
    with pytest.raises(errors.StudyBlockedError) as refused:
        admit(ACCOUNT, blocked, 1)
    assert refused.value.metadata == {"study_id": "study", "holds_count": "1"}


def test_study_admits_as_many_calls_at_once_as_it_may() -> None:
    with pytest.raises(errors.TooManyInFlightError) as refused:
        admit(ACCOUNT, replace(STUDY, max_in_flight=1), 1)
    assert refused.value.metadata == {"max_in_flight_count": "1"}


def test_call_moves_between_tallies() -> None:
    totals = Totals().moved(None, reserved_call())
    assert totals == Totals(reserved=Tally(10, 1))
    assert totals.moved(reserved_call(), held_call()) == Totals(held=Tally(10, 1))


def test_total_below_zero_is_damage_and_is_not_clamped() -> None:
    with pytest.raises(errors.StoreCorruptError):
        Totals(reserved=Tally(9, 1)).moved(reserved_call(), held_call())
    with pytest.raises(errors.StoreCorruptError):
        Totals(reserved=Tally(10, 0)).moved(reserved_call(), held_call())


def test_every_state_has_its_own_tally() -> None:
    fields = {state: getattr(Totals()._with(state, 3, 1), state.lower()) for state in CallState}
    assert fields == dict.fromkeys(CallState, Tally(3, 1))


def test_amount_in_another_currency_is_refused() -> None:
    assert ACCOUNT.nanos_of(Money("USD", 5)) == 5
    with pytest.raises(errors.CurrencyMismatchError) as refused:
        ACCOUNT.nanos_of(Money("EUR", 5))
    assert refused.value.metadata == {"expected": "USD", "got": "EUR"}


def test_balances_can_be_recorded_up_to_what_a_column_holds() -> None:
    assert ACCOUNT.can_record(MAX_NANOS - 80)
    assert not ACCOUNT.can_record(MAX_NANOS - 79)


def test_properties_are_compared_without_balances() -> None:
    assert STUDY.same_properties(replace(STUDY, totals=Totals(), opened_sequence=9))
    for changed in (
        replace(STUDY, account_id="other"),
        replace(STUDY, cap_nanos=99),
        replace(STUDY, call_ceiling_nanos=1),
        replace(STUDY, max_in_flight=3),
        replace(STUDY, manifest_digest=b"\1" * 32),
    ):
        assert not STUDY.same_properties(changed)
