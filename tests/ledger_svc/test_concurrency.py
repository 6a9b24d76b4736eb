"""No concurrency exceeds a cap (design/field-reports.md, Budgets under concurrency)."""

import asyncio

from ledger_svc import errors
from ledger_svc.budgets import Tally, Totals
from ledger_svc.commands.reservations import Admitted
from ledger_svc.ledger import Ledger
from tests.ledger_svc import support


async def attempt(ledger: Ledger, number: int, study_id: str = "study") -> str:
    """Reserve 10 in a slot of its own; returns `admitted` or the refusal's reason."""
    try:
        answer = await ledger.reserve(support.reserve(10, at=support.slot(turn=number, study_id=study_id)))
    except errors.LedgerError as refusal:
        return refusal.reason
    assert isinstance(answer, Admitted)
    return "admitted"


async def test_64_reservations_on_a_new_account_stop_at_its_budget(empty_ledger: Ledger) -> None:
    furnishing = asyncio.create_task(support.furnish(empty_ledger, 100, 1_000, max_in_flight=100))
    await furnishing
    outcomes = await asyncio.gather(*(attempt(empty_ledger, number) for number in range(1, 65)))
    assert (outcomes.count("admitted"), outcomes.count("BUDGET_EXHAUSTED")) == (10, 54)
    account = (await empty_ledger.summarize("lab", None, 0, 10)).balances.account
    assert (account.totals, account.available_nanos) == (Totals(reserved=Tally(100, 10)), 0)
    assert (await empty_ledger.verify(None)).differences == []


async def test_64_reservations_over_four_studies_share_one_budget(empty_ledger: Ledger) -> None:
    await empty_ledger.submit(support.open_account())
    await empty_ledger.submit(support.grant(100))
    names = ["a", "b", "c", "d"]
    for name in names:
        await empty_ledger.submit(support.open_study(40, study_id=name, max_in_flight=100))
    outcomes = await asyncio.gather(*(attempt(empty_ledger, number, names[number % 4]) for number in range(1, 65)))
    assert outcomes.count("admitted") == 10
    page = await empty_ledger.summarize("lab", None, 0, 10)
    assert page.balances.account.available_nanos == 0
    assert all(study.totals.accounted_nanos <= 40 for study in page.balances.studies)
    assert (await empty_ledger.verify(None)).differences == []


async def test_64_reservations_in_a_serial_study_admit_one(empty_ledger: Ledger) -> None:
    await support.furnish(empty_ledger, 1_000, 1_000, max_in_flight=1)
    outcomes = await asyncio.gather(*(attempt(empty_ledger, number) for number in range(1, 65)))
    assert (outcomes.count("admitted"), outcomes.count("TOO_MANY_IN_FLIGHT")) == (1, 63)


async def test_64_tokens_for_one_slot_admit_one(ledger: Ledger) -> None:
    tokens = [b"%016d" % number for number in range(64)]
    outcomes = await asyncio.gather(
        *(ledger.reserve(support.reserve(1, token=token)) for token in tokens), return_exceptions=True
    )
    assert sum(isinstance(outcome, Admitted) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, errors.ReplayDeniedError) for outcome in outcomes) == 63


async def test_64_copies_of_one_receipt_charge_once(ledger: Ledger) -> None:
    await ledger.reserve(support.reserve(10))
    outcomes = await asyncio.gather(*(ledger.submit(support.receipt()) for _ in range(64)))
    assert sum(not outcome.replayed for outcome in outcomes) == 1
    account = (await ledger.summarize("lab", None, 0, 10)).balances.account
    assert account.totals == Totals(charged=Tally(7, 1))
