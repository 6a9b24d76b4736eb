"""Clocks that jump, and leases that end while a receipt is on its way: no money is lost, none is counted twice."""

import asyncio
import itertools
import random
from pathlib import Path

import pytest

from ledger_svc import errors
from ledger_svc.budgets import Tally, Totals
from ledger_svc.calls import Call, CallState, HoldCategory
from ledger_svc.commands.leases import ExpireOverdue
from ledger_svc.commands.reservations import Admitted
from ledger_svc.ledger import Ledger
from tests.ledger_svc import support
from tests.ledger_svc.attack.rounds import seeds
from tests.ledger_svc.support import LEASE, START, Clock

CALL_ID = support.slot().call_id()


async def only_call(ledger: Ledger) -> Call:
    (call,) = await ledger.attempts(CALL_ID)
    return call


async def test_clock_set_back_does_not_revive_an_ended_lease(ledger: Ledger, clock: Clock) -> None:
    await ledger.reserve(support.reserve(10))
    clock.advance(LEASE)
    assert (await only_call(ledger)).state is CallState.HELD
    clock.now = START
    assert (await only_call(ledger)).state is CallState.HELD
    for command in (support.reserve(10), support.reserve(10, at=support.slot(turn=2))):
        with pytest.raises((errors.ReplayDeniedError, errors.StudyBlockedError)):
            await ledger.reserve(command)
    charged = (await ledger.submit(support.receipt())).call
    assert charged.receipt is not None
    assert (charged.state, charged.receipt.late, charged.accounted_nanos) == (CallState.CHARGED, True, 7)
    assert (await ledger.verify(None)).differences == []


async def test_clock_far_ahead_for_a_moment_blocks_but_loses_nothing(ledger: Ledger, clock: Clock) -> None:
    """A wrong clock costs an operator's time, and never money: the receipt on its way still charges."""
    await ledger.reserve(support.reserve(10))
    clock.now = START + 100 * 365 * 86_400 * 1_000_000
    await ledger.tend()
    clock.now = START + 1
    account = (await ledger.summarize("lab", None, 0, 10)).balances.account
    assert account.totals == Totals(held=Tally(10, 1))
    await ledger.submit(support.receipt())
    assert isinstance(await ledger.reserve(support.reserve(10, at=support.slot(turn=2))), Admitted)


@pytest.mark.parametrize("now", [0, -LEASE, START - 10 * LEASE])
async def test_clock_before_the_reservation_answers_the_same_attempt_as_before(
    ledger: Ledger, clock: Clock, now: int
) -> None:
    first = await ledger.reserve(support.reserve(10))
    clock.now = now
    again = await ledger.reserve(support.reserve(10))
    assert isinstance(first, Admitted)
    assert isinstance(again, Admitted)
    assert (again.replayed, again.call) == (True, first.call)
    await ledger.submit(support.receipt())
    second = await ledger.reserve(support.reserve(10, at=support.slot(turn=2)))
    assert isinstance(second, Admitted)
    assert second.call.lease_expires_at == now + LEASE
    assert (await ledger.verify(None)).differences == []


@pytest.mark.parametrize(("early_micros", "category"), [(1, "TRANSPORT_UNKNOWN"), (0, "LEASE_EXPIRED")])
async def test_hold_at_the_leases_end(ledger: Ledger, clock: Clock, early_micros: int, category: str) -> None:
    await ledger.reserve(support.reserve(10))
    clock.advance(LEASE - early_micros)
    try:
        await ledger.submit(support.hold())
    except errors.AlreadyHeldError as refusal:
        assert refusal.metadata["category"] == "LEASE_EXPIRED"  # noqa: PT017 - only one of the two cases refuses
    call = await only_call(ledger)
    assert call.hold is not None
    assert (call.state, call.hold.category) == (CallState.HELD, HoldCategory(category))


@pytest.mark.parametrize("order", list(itertools.permutations(["sweep", "receipt", "receipt again", "read"])))
async def test_receipt_races_with_the_end_of_its_lease(ledger: Ledger, clock: Clock, order: tuple[str, ...]) -> None:
    """Whichever comes first, in one transaction or in several, the call is charged once, for its cost."""
    await ledger.reserve(support.reserve(10))
    clock.advance(LEASE)
    work = {
        "sweep": lambda: ledger.submit(ExpireOverdue()),
        "receipt": lambda: ledger.submit(support.receipt()),
        "receipt again": lambda: ledger.submit(support.receipt()),
        "read": lambda: ledger.summarize("lab", None, 0, 10),
    }
    answers = dict(zip(order, await asyncio.gather(*(work[name]() for name in order)), strict=True))
    assert {answers["receipt"].replayed, answers["receipt again"].replayed} == {True, False}
    assert answers["read"].balances.account.totals in (Totals(held=Tally(10, 1)), Totals(charged=Tally(7, 1)))
    account = (await ledger.summarize("lab", None, 0, 10)).balances.account
    assert account.totals == Totals(charged=Tally(7, 1))
    found = await ledger.verify(None)
    # The account, its budget, its study, the reservation, its end, its charge.
    assert (found.entries_count, found.differences) == (6, [])


async def test_wandering_clock_loses_no_nano(tmp_path: Path) -> None:
    """Reservations under a clock that jumps both ways between any two steps: each is accounted for, once, for ever."""
    for seed in seeds(10):
        source, clock = random.Random(f"clock {seed}"), Clock()
        ledger = support.make_ledger(tmp_path / f"{seed}.db", clock)
        await support.furnish(ledger, 10_000, 10_000, max_in_flight=100)
        reserved, charged = {}, {}
        for turn in range(1, 31):
            at, amount = support.slot(turn=turn), source.randrange(8, 50)
            try:
                await ledger.reserve(support.reserve(amount, at=at, lease=source.randrange(1, 4) * LEASE))
                reserved[at] = amount
            except errors.StudyBlockedError:
                pass
            clock.advance(source.randrange(-2, 3) * LEASE)
            for late in [each for each in reserved if source.random() < 0.3 and each not in charged]:
                await ledger.submit(support.receipt(at=late))
                charged[late] = 7
            account = (await ledger.summarize("lab", None, 0, 10)).balances.account
            totals = account.totals
            assert totals.charged == Tally(7 * len(charged), len(charged)), f"seed {seed}"
            open_nanos = sum(amount for at, amount in reserved.items() if at not in charged)
            assert totals.reserved.nanos + totals.held.nanos == open_nanos, f"seed {seed}"
            assert totals.reserved.count + totals.held.count == len(reserved) - len(charged)
        assert len(charged) > 3
        assert (await ledger.verify(None)).differences == []
        await ledger.close()
