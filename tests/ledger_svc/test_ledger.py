"""What a ledger answers and refuses, end to end over a real store."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from countersign.kit.canonical import sha256
from countersign.kit.money import MAX_NANOS, Money
from ledger_svc import errors
from ledger_svc.budgets import Tally, Totals
from ledger_svc.calls import AmountBasis, CallState, Cost, CostBasis, HoldCategory, HoldFacts, RequestProgress
from ledger_svc.commands.accounts import Recorded, RecordPriorSpend
from ledger_svc.commands.outcomes import Hold
from ledger_svc.commands.reservations import Admitted
from ledger_svc.ledger import Ledger, StoredReceipt
from ledger_svc.storage.sqlite import SqliteStore
from tests.ledger_svc import support
from tests.ledger_svc.support import LEASE, OTHER_TOKEN, START, TOKEN, Clock, usd


async def totals(ledger: Ledger) -> Totals:
    """The account's totals; the journal must say the same."""
    assert (await ledger.verify(None)).differences == []
    return (await ledger.summarize("lab", None, 0, 10)).balances.account.totals


async def test_admission_states_the_call_and_the_leases_end(ledger: Ledger) -> None:
    answer = await ledger.reserve(support.reserve(10))
    assert isinstance(answer, Admitted)
    assert not answer.replayed
    assert answer.call.call_id == support.slot().call_id()
    assert (answer.call.attempt, answer.call.lease_expires_at) == (1, START + LEASE)
    assert answer.call.request_digest == sha256(b"request")
    assert await totals(ledger) == Totals(reserved=Tally(10, 1))


async def test_token_itself_is_not_kept(ledger: Ledger) -> None:
    answer = await ledger.reserve(support.reserve())
    assert isinstance(answer, Admitted)
    assert answer.call.token_digest == sha256(TOKEN)


async def test_lost_admission_is_given_again_with_the_same_lease(ledger: Ledger, clock: Clock) -> None:
    first = await ledger.reserve(support.reserve(10))
    clock.advance(5)
    again = await ledger.reserve(support.reserve(10))
    assert isinstance(first, Admitted)
    assert isinstance(again, Admitted)
    assert (again.call, again.replayed) == (first.call, True)
    assert await totals(ledger) == Totals(reserved=Tally(10, 1))


async def test_token_asked_again_with_another_amount_is_refused(ledger: Ledger) -> None:
    await ledger.reserve(support.reserve(10))
    with pytest.raises(errors.RequestIdConflictError):
        await ledger.reserve(support.reserve(11))


async def test_slot_of_another_token_is_denied(ledger: Ledger) -> None:
    await ledger.reserve(support.reserve())
    with pytest.raises(errors.ReplayDeniedError) as refused:
        await ledger.reserve(support.reserve(token=OTHER_TOKEN))
    assert refused.value.metadata["state"] == "RESERVED"


async def test_charged_slot_answers_with_its_receipt(ledger: Ledger) -> None:
    await ledger.reserve(support.reserve(10))
    changed = await ledger.submit(support.receipt("0.0000000061"))
    assert (changed.replayed, changed.call.state, changed.call.accounted_nanos) == (False, CallState.CHARGED, 7)
    answer = await ledger.reserve(support.reserve(10, token=OTHER_TOKEN))
    assert isinstance(answer, StoredReceipt)
    assert (answer.request, answer.response) == (b"request", b"response")
    assert answer.facts.cost == Cost(CostBasis.PROVIDER_REPORTED, "0.0000000061")
    assert await totals(ledger) == Totals(charged=Tally(7, 1))


async def test_changed_request_in_a_charged_slot_is_a_mismatch(ledger: Ledger) -> None:
    await ledger.reserve(support.reserve())
    await ledger.submit(support.receipt())
    with pytest.raises(errors.PayloadMismatchError):
        await ledger.reserve(support.reserve(request=b"changed"))


async def test_same_request_in_another_slot_is_a_twin(ledger: Ledger) -> None:
    await ledger.reserve(support.reserve())
    await ledger.submit(support.receipt())
    twin = await ledger.reserve(support.reserve(at=support.slot("twin")))
    assert isinstance(twin, Admitted)
    assert twin.call.request_digest == sha256(b"request")


async def test_receipt_handed_in_twice_is_charged_once(ledger: Ledger, clock: Clock) -> None:
    await ledger.reserve(support.reserve())
    first = await ledger.submit(support.receipt())
    clock.advance(LEASE)
    again = await ledger.submit(support.receipt())
    assert (again.replayed, again.call) == (True, first.call)
    assert await totals(ledger) == Totals(charged=Tally(7, 1))


async def test_second_charge_is_refused_and_changes_nothing(ledger: Ledger) -> None:
    await ledger.reserve(support.reserve())
    await ledger.submit(support.receipt())
    with pytest.raises(errors.AlreadyChargedError):
        await ledger.submit(support.receipt(response=b"another"))
    with pytest.raises(errors.AlreadyChargedError):
        await ledger.submit(support.receipt("0.000000008"))
    with pytest.raises(errors.AlreadyChargedError):
        await ledger.submit(support.hold())
    assert await totals(ledger) == Totals(charged=Tally(7, 1))


async def test_receipt_without_cost_is_kept_and_blocks_the_study(ledger: Ledger) -> None:
    await ledger.reserve(support.reserve(10))
    changed = await ledger.submit(support.receipt("", basis=CostBasis.UNSPECIFIED))
    assert changed.call.hold == HoldFacts(HoldCategory.COST_UNRESOLVED)
    assert (await ledger.receipt(support.slot().call_id(), 0)).response == b"response"
    with pytest.raises(errors.StudyBlockedError):
        await ledger.reserve(support.reserve(at=support.slot("next")))
    with pytest.raises(errors.ReplayDeniedError):
        await ledger.reserve(support.reserve())
    assert await totals(ledger) == Totals(held=Tally(10, 1))


async def test_resolved_slot_with_a_response_answers_with_it(ledger: Ledger) -> None:
    await ledger.reserve(support.reserve(10))
    await ledger.submit(support.receipt("", basis=CostBasis.UNSPECIFIED))
    await ledger.submit(support.resolve(4))
    answer = await ledger.reserve(support.reserve(10, token=OTHER_TOKEN))
    assert isinstance(answer, StoredReceipt)
    assert answer.response == b"response"
    assert await totals(ledger) == Totals(resolved=Tally(4, 1))


async def test_bill_above_the_reservation_is_recorded_in_full_and_freezes_the_study(ledger: Ledger) -> None:
    await ledger.reserve(support.reserve(10))
    changed = await ledger.submit(support.receipt("0.0000005"))
    assert changed.call.hold == HoldFacts(HoldCategory.COST_ABOVE_RESERVATION)
    page = await ledger.summarize("lab", None, 0, 10)
    assert page.balances.account.available_nanos == -400
    assert page.balances.studies[0].blocked
    assert await totals(ledger) == Totals(held=Tally(500, 1))


async def test_bill_that_no_balance_could_hold_is_an_unknown_cost(ledger: Ledger) -> None:
    await ledger.submit(RecordPriorSpend("prior", "lab", usd(10), "Ann", "the pilot"))
    await ledger.reserve(support.reserve(10))
    changed = await ledger.submit(support.receipt("9223372036.854775807"))
    assert changed.call.hold == HoldFacts(HoldCategory.COST_UNRESOLVED)
    assert await totals(ledger) == Totals(held=Tally(10, 1))


async def test_free_route_reserves_and_costs_nothing(empty_ledger: Ledger) -> None:
    await support.furnish(empty_ledger, granted_nanos=1, cap_nanos=0)
    free = replace(support.reserve(), amount=usd(0), basis=AmountBasis.FREE_ROUTE)
    assert isinstance(await empty_ledger.reserve(free), Admitted)
    changed = await empty_ledger.submit(support.receipt("", basis=CostBasis.FREE_ROUTE))
    assert (changed.call.state, changed.call.accounted_nanos) == (CallState.CHARGED, 0)
    assert await totals(empty_ledger) == Totals(charged=Tally(0, 1))


async def test_priced_route_does_not_become_free_by_its_receipt(ledger: Ledger) -> None:
    await ledger.reserve(support.reserve(10))
    changed = await ledger.submit(support.receipt("0", basis=CostBasis.FREE_ROUTE))
    assert changed.call.hold == HoldFacts(HoldCategory.COST_UNRESOLVED)


async def test_hold_blocks_its_own_study_and_counts_for_the_account(ledger: Ledger) -> None:
    await ledger.submit(support.open_study(100, study_id="other"))
    await ledger.reserve(support.reserve(60))
    changed = await ledger.submit(support.hold(HoldCategory.ADAPTER_STOPPED))
    assert changed.call.hold == HoldFacts(HoldCategory.ADAPTER_STOPPED, RequestProgress.SENT)
    with pytest.raises(errors.StudyBlockedError):
        await ledger.reserve(support.reserve(1, at=support.slot("next")))
    with pytest.raises(errors.BudgetExhaustedError) as refused:
        await ledger.reserve(support.reserve(41, at=support.slot(study_id="other")))
    assert refused.value.metadata == {"available_nanos": "40", "requested_nanos": "41"}
    assert isinstance(await ledger.reserve(support.reserve(40, at=support.slot(study_id="other"))), Admitted)
    assert await totals(ledger) == Totals(held=Tally(60, 1), reserved=Tally(40, 1))


async def test_hold_told_twice_is_one_hold(ledger: Ledger) -> None:
    await ledger.reserve(support.reserve())
    await ledger.submit(support.hold())
    assert (await ledger.submit(support.hold())).replayed
    with pytest.raises(errors.AlreadyHeldError):
        await ledger.submit(support.hold(HoldCategory.ADAPTER_STOPPED))
    with pytest.raises(errors.AlreadyHeldError):
        await ledger.submit(support.receipt())


async def test_strangers_token_neither_charges_nor_holds(ledger: Ledger) -> None:
    await ledger.reserve(support.reserve())
    with pytest.raises(errors.TokenMismatchError):
        await ledger.submit(support.receipt(token=OTHER_TOKEN))
    with pytest.raises(errors.TokenMismatchError):
        await ledger.submit(support.hold(token=OTHER_TOKEN))
    assert await totals(ledger) == Totals(reserved=Tally(10, 1))


async def test_unknown_names_are_refused_by_their_kind(ledger: Ledger) -> None:
    call_id = support.slot("nowhere").call_id()
    with pytest.raises(errors.UnknownStudyError):
        await ledger.reserve(support.reserve(at=support.slot(study_id="nowhere")))
    with pytest.raises(errors.UnknownAccountError):
        await ledger.submit(support.grant(account_id="nowhere", request_id="grant-x"))
    with pytest.raises(errors.UnknownAccountError):
        await ledger.submit(support.open_study(account_id="nowhere", study_id="x"))
    with pytest.raises(errors.UnknownCallError):
        await ledger.submit(support.receipt(at=support.slot("nowhere")))
    with pytest.raises(errors.UnknownCallError):
        await ledger.submit(support.resolve(1, at=support.slot("nowhere")))
    with pytest.raises(errors.UnknownCallError):
        await ledger.attempts(call_id)
    with pytest.raises(errors.UnknownStudyError):
        await ledger.calls("nowhere", set(CallState), 0, 10)
    with pytest.raises(errors.UnknownAccountError):
        await ledger.summarize("nowhere", None, 0, 10)
    with pytest.raises(errors.UnknownStudyError):
        await ledger.summarize("lab", "nowhere", 0, 10)
    with pytest.raises(errors.UnknownAccountError):
        await ledger.verify("nowhere")


async def test_ended_lease_is_a_hold_at_every_read(ledger: Ledger, clock: Clock) -> None:
    await ledger.reserve(support.reserve(10))
    clock.advance(LEASE - 1)
    assert (await ledger.attempts(support.slot().call_id()))[0].state is CallState.RESERVED
    clock.advance(1)
    call = (await ledger.attempts(support.slot().call_id()))[0]
    assert (call.state, call.hold) == (CallState.HELD, HoldFacts(HoldCategory.LEASE_EXPIRED))
    assert await totals(ledger) == Totals(held=Tally(10, 1))


async def test_summary_alone_ends_an_overdue_lease(ledger: Ledger, clock: Clock) -> None:
    await ledger.reserve(support.reserve(10))
    clock.advance(LEASE)
    page = await ledger.summarize("lab", "study", 0, 10)
    assert page.balances.account.totals == Totals(held=Tally(10, 1))
    assert page.balances.studies[0].totals == Totals(held=Tally(10, 1))


async def test_dead_reservation_blocks_the_next_reserve_as_a_hold(ledger: Ledger, clock: Clock) -> None:
    await ledger.reserve(support.reserve(10))
    clock.advance(LEASE)
    with pytest.raises(errors.StudyBlockedError):
        await ledger.reserve(support.reserve(at=support.slot("next")))
    with pytest.raises(errors.ReplayDeniedError) as refused:
        await ledger.reserve(support.reserve(10))
    assert refused.value.metadata["state"] == "HELD"


async def test_sweep_ends_leases_without_any_read(ledger: Ledger, clock: Clock) -> None:
    await ledger.reserve(support.reserve(10))
    clock.advance(LEASE)
    await ledger.tend()
    clock.now = START
    assert (await ledger.attempts(support.slot().call_id()))[0].state is CallState.HELD


async def test_clock_that_is_set_back_between_looking_and_sweeping_does_not_hang(database: Path) -> None:
    times = iter([START, START, START, START, START + LEASE, START])
    ledger = Ledger(SqliteStore.open(database), lambda: next(times))
    ledger.start()
    await support.furnish(ledger)
    await ledger.reserve(support.reserve(10))
    assert (await ledger.attempts(support.slot().call_id()))[0].state is CallState.RESERVED
    await ledger.close()


async def test_late_receipt_with_the_right_token_charges(ledger: Ledger, clock: Clock) -> None:
    await ledger.reserve(support.reserve(10))
    clock.advance(LEASE)
    with pytest.raises(errors.TokenMismatchError):
        await ledger.submit(support.receipt(token=OTHER_TOKEN))
    changed = await ledger.submit(support.receipt())
    assert (changed.call.state, changed.call.accounted_nanos) == (CallState.CHARGED, 7)
    assert (await ledger.receipt(changed.call.call_id, 1)).facts.late
    assert await totals(ledger) == Totals(charged=Tally(7, 1))


async def test_late_hold_does_not_change_an_ended_lease(ledger: Ledger, clock: Clock) -> None:
    await ledger.reserve(support.reserve(10))
    clock.advance(LEASE)
    with pytest.raises(errors.AlreadyHeldError) as refused:
        await ledger.submit(support.hold())
    assert refused.value.metadata["category"] == "LEASE_EXPIRED"


async def test_resolution_opens_a_new_attempt_and_both_stay_visible(ledger: Ledger) -> None:
    await ledger.reserve(support.reserve(10))
    await ledger.submit(support.hold())
    await ledger.submit(support.resolve(None, again=True))
    with pytest.raises(errors.ReplayDeniedError):
        await ledger.reserve(support.reserve(10))
    with pytest.raises(errors.PayloadMismatchError):
        await ledger.reserve(support.reserve(10, token=OTHER_TOKEN, request=b"changed"))
    answer = await ledger.reserve(support.reserve(10, token=OTHER_TOKEN))
    assert isinstance(answer, Admitted)
    assert answer.call.attempt == 2
    with pytest.raises(errors.AlreadyResolvedError):
        await ledger.submit(support.receipt())
    await ledger.submit(support.receipt(token=OTHER_TOKEN))
    states = [call.state for call in await ledger.attempts(support.slot().call_id())]
    assert states == [CallState.RESOLVED, CallState.CHARGED]
    assert await totals(ledger) == Totals(charged=Tally(7, 1), resolved=Tally(0, 1))


async def test_new_attempt_is_under_the_same_caps(ledger: Ledger) -> None:
    await ledger.reserve(support.reserve(60))
    await ledger.submit(support.hold())
    await ledger.submit(support.resolve(60, again=True))
    with pytest.raises(errors.StudyCapExceededError):
        await ledger.reserve(support.reserve(60, token=OTHER_TOKEN))


async def test_resolution_without_a_new_attempt_closes_the_slot_and_frees_the_study(ledger: Ledger) -> None:
    await ledger.reserve(support.reserve(10))
    await ledger.submit(support.hold())
    changed = await ledger.submit(support.resolve(0))
    assert (changed.replayed, changed.call.accounted_nanos) == (False, 0)
    with pytest.raises(errors.ReplayDeniedError):
        await ledger.reserve(support.reserve(10, token=OTHER_TOKEN))
    assert isinstance(await ledger.reserve(support.reserve(at=support.slot("next"))), Admitted)


async def test_resolution_asked_twice_is_one_resolution(ledger: Ledger) -> None:
    await ledger.reserve(support.reserve(10))
    await ledger.submit(support.hold())
    first = await ledger.submit(support.resolve(3))
    again = await ledger.submit(support.resolve(3))
    assert (again.replayed, again.call) == (True, first.call)
    with pytest.raises(errors.RequestIdConflictError):
        await ledger.submit(support.resolve(4))
    with pytest.raises(errors.AlreadyResolvedError):
        await ledger.submit(support.resolve(3, request_id="resolve-2"))
    with pytest.raises(errors.UnknownCallError):
        await ledger.submit(support.resolve(3, request_id="resolve-3", attempt=2))


async def test_only_a_hold_is_resolved(ledger: Ledger) -> None:
    await ledger.reserve(support.reserve(10))
    with pytest.raises(errors.NotHeldError):
        await ledger.submit(support.resolve(3))
    await ledger.submit(support.receipt())
    with pytest.raises(errors.NotHeldError):
        await ledger.submit(support.resolve(3))


async def test_resolution_in_another_currency_is_refused(ledger: Ledger) -> None:
    await ledger.reserve(support.reserve(10))
    await ledger.submit(support.hold())
    with pytest.raises(errors.CurrencyMismatchError):
        await ledger.submit(replace(support.resolve(3), charged=Money("EUR", 3)))
    await ledger.submit(RecordPriorSpend("prior", "lab", usd(1), "Ann", "the pilot"))
    with pytest.raises(errors.InvalidAmountError):
        await ledger.submit(support.resolve(MAX_NANOS))
    assert await totals(ledger) == Totals(held=Tally(10, 1))


async def test_reservation_in_another_currency_is_refused(ledger: Ledger) -> None:
    with pytest.raises(errors.CurrencyMismatchError):
        await ledger.reserve(replace(support.reserve(), amount=Money("EUR", 10)))


async def test_grants_add_up_and_answer_as_before(empty_ledger: Ledger) -> None:
    await empty_ledger.submit(support.open_account())
    first = await empty_ledger.submit(support.grant(5))
    second = await empty_ledger.submit(support.grant(6, request_id="grant-2"))
    again = await empty_ledger.submit(support.grant(5))
    assert (first, second) == (Recorded(False, usd(5)), Recorded(False, usd(11)))
    assert again == Recorded(True, usd(5))
    account = (await empty_ledger.summarize("lab", None, 0, 10)).balances.account
    assert (account.granted_nanos, account.available_nanos) == (11, 11)


async def test_request_id_used_for_something_else_is_refused(ledger: Ledger) -> None:
    with pytest.raises(errors.RequestIdConflictError):
        await ledger.submit(support.grant(99))
    with pytest.raises(errors.RequestIdConflictError):
        await ledger.submit(RecordPriorSpend("grant-1", "lab", usd(100), "Ann", "the pilot"))
    with pytest.raises(errors.RequestIdConflictError):
        await ledger.submit(support.open_account(request_id="grant-1"))


async def test_prior_spend_lessens_what_is_available_even_below_zero(ledger: Ledger) -> None:
    recorded = await ledger.submit(RecordPriorSpend("prior", "lab", usd(101), "Ann", "the pilot"))
    assert recorded == Recorded(False, usd(101))
    assert (await ledger.summarize("lab", None, 0, 10)).balances.account.available_nanos == -1
    with pytest.raises(errors.BudgetExhaustedError):
        await ledger.reserve(support.reserve(1))


async def test_sums_beyond_a_column_are_refused(ledger: Ledger) -> None:
    with pytest.raises(errors.InvalidAmountError):
        await ledger.submit(support.grant(MAX_NANOS, request_id="grant-2"))
    await ledger.reserve(support.reserve(10))
    with pytest.raises(errors.InvalidAmountError):
        await ledger.submit(RecordPriorSpend("prior", "lab", usd(MAX_NANOS - 9), "Ann", "the pilot"))
    await ledger.submit(RecordPriorSpend("prior", "lab", usd(MAX_NANOS - 10), "Ann", "the pilot"))
    assert (await ledger.verify("lab")).differences == []


async def test_account_opened_again_is_the_same_or_refused(ledger: Ledger) -> None:
    assert (await ledger.submit(support.open_account())).replayed
    assert (await ledger.submit(support.open_account(request_id="again"))).replayed
    with pytest.raises(errors.AlreadyExistsError):
        await ledger.submit(support.open_account(request_id="euros", currency="EUR"))


async def test_study_opened_again_is_the_same_or_refused(ledger: Ledger) -> None:
    await ledger.reserve(support.reserve(10))
    assert (await ledger.submit(support.open_study())).replayed
    assert (await ledger.submit(support.open_study(request_id="again"))).replayed
    with pytest.raises(errors.AlreadyExistsError):
        await ledger.submit(support.open_study(101, request_id="wider"))
    with pytest.raises(errors.RequestIdConflictError):
        await ledger.submit(support.open_study(101))


async def test_ceiling_is_the_cap_unless_it_is_given(empty_ledger: Ledger) -> None:
    await empty_ledger.submit(support.open_account())
    await empty_ledger.submit(support.open_study(50, study_id="wide"))
    await empty_ledger.submit(support.open_study(50, study_id="narrow", ceiling_nanos=7))
    assert (await empty_ledger.study("wide")).call_ceiling_nanos == 50
    assert (await empty_ledger.study("narrow")).call_ceiling_nanos == 7


async def test_calls_are_listed_in_pages_by_state(empty_ledger: Ledger) -> None:
    await support.furnish(empty_ledger, max_in_flight=5)
    for number in range(1, 6):
        await empty_ledger.reserve(support.reserve(1, at=support.slot(turn=number)))
    await empty_ledger.submit(support.receipt("0", at=support.slot(turn=2)))
    first = await empty_ledger.calls("study", set(CallState), 0, 2)
    assert [call.slot.turn for call in first.calls] == [1, 2]
    assert first.next_sequence is not None
    second = await empty_ledger.calls("study", set(CallState), first.next_sequence, 3)
    assert ([call.slot.turn for call in second.calls], second.next_sequence) == ([3, 4, 5], None)
    reserved = await empty_ledger.calls("study", {CallState.RESERVED}, 0, 10)
    assert [call.slot.turn for call in reserved.calls] == [1, 3, 4, 5]


async def test_studies_are_summarized_in_pages(ledger: Ledger) -> None:
    await ledger.submit(support.open_study(study_id="b"))
    await ledger.submit(support.open_study(study_id="a"))
    first = await ledger.summarize("lab", None, 0, 2)
    assert [study.study_id for study in first.balances.studies] == ["study", "b"]
    assert first.next_sequence is not None
    second = await ledger.summarize("lab", None, first.next_sequence, 2)
    assert ([study.study_id for study in second.balances.studies], second.next_sequence) == (["a"], None)


async def test_receipt_is_found_by_attempt_or_the_latest(ledger: Ledger) -> None:
    call_id = support.slot().call_id()
    await ledger.reserve(support.reserve(10))
    with pytest.raises(errors.UnknownReceiptError):
        await ledger.receipt(call_id, 0)
    with pytest.raises(errors.UnknownCallError):
        await ledger.receipt(call_id, 2)
    await ledger.submit(support.receipt())
    assert (await ledger.receipt(call_id, 0)).response == b"response"
    assert (await ledger.receipt(call_id, 1)).request == b"request"


async def test_hold_with_a_status_keeps_it(ledger: Ledger) -> None:
    await ledger.reserve(support.reserve())
    facts = HoldFacts(HoldCategory.HTTP_STATUS, RequestProgress.RESPONSE_STARTED, 429)
    changed = await ledger.submit(Hold(support.slot().call_id(), TOKEN, facts))
    assert changed.call.hold == facts
