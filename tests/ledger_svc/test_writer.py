"""The pipeline: what is queued is carried out, together, in order, and answered when durable."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from ledger_svc import errors, limits
from ledger_svc.commands.reservations import Admitted
from ledger_svc.ledger import Ledger
from ledger_svc.storage.sqlite import SqliteStore
from ledger_svc.workspace import Wanted, Workspace
from ledger_svc.writer import Writer
from tests.ledger_svc import support
from tests.ledger_svc.support import Clock

T = TypeVar("T")


class GatedStore(SqliteStore):
    """A store whose next transaction waits until it is let through, and that counts them."""

    def hold_back(self) -> None:
        self.gate = asyncio.Event()
        self.entered = asyncio.Event()
        self.transactions_count = 0

    async def transact(self, wanted: Wanted, now: int, work: Callable[[Workspace], T]) -> T:
        self.transactions_count += 1
        self.entered.set()
        await self.gate.wait()
        return await super().transact(wanted, now, work)


class Puzzled(Exception):
    """What no store should raise."""


@pytest.fixture
def gated(ledger: Ledger) -> GatedStore:
    """The furnished ledger's own store, holding back what comes next."""
    store = ledger._store
    assert isinstance(store, SqliteStore)
    store.__class__ = GatedStore
    assert isinstance(store, GatedStore)
    store.hold_back()
    return store


async def test_cancelled_caller_does_not_undo_what_was_queued(ledger: Ledger, gated: GatedStore) -> None:
    asking = asyncio.create_task(ledger.reserve(support.reserve(10)))
    await gated.entered.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    gated.gate.set()
    again = await ledger.reserve(support.reserve(10))
    assert isinstance(again, Admitted)
    assert again.replayed


async def test_cancelled_caller_of_a_refused_command_leaves_nothing_behind(ledger: Ledger, gated: GatedStore) -> None:
    asking = asyncio.create_task(ledger.reserve(support.reserve(101)))
    await gated.entered.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    gated.gate.set()
    with pytest.raises(errors.StudyCapExceededError):
        await ledger.reserve(support.reserve(101))


async def test_what_waits_is_committed_together_and_each_is_decided_by_itself(
    ledger: Ledger, gated: GatedStore
) -> None:
    first = asyncio.create_task(ledger.submit(support.grant(1, request_id="first")))
    await gated.entered.wait()
    waiting = [
        asyncio.create_task(ledger.submit(command))
        for command in (
            support.open_account("second"),
            support.open_account("second", request_id="euros", currency="EUR"),
            support.grant(5, request_id="grant-second", account_id="second"),
            support.open_study(5, study_id="late", account_id="second"),
            support.reserve(6, at=support.slot(study_id="late")),
            support.reserve(5, at=support.slot(study_id="late")),
        )
    ]
    gated.gate.set()
    await first
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert gated.transactions_count == 2
    assert isinstance(outcomes[1], errors.AlreadyExistsError)
    assert isinstance(outcomes[4], errors.StudyCapExceededError)
    assert isinstance(outcomes[5], Admitted)
    found = await ledger.verify("second")
    assert (found.entries_count, found.differences) == (4, [])


async def test_crowd_is_committed_in_halves_and_answered_as_each_is_durable(
    ledger: Ledger, gated: GatedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MIN_SHARE", 2)
    gated.gate.set()
    commands = [support.open_account(f"account-{number}") for number in range(8)]
    sizes: list[int] = []
    async for outcomes in ledger.submit_parts(commands):
        sizes.append(len(outcomes))
        journals = [ledger.journal(f"account-{number}", 1) for number in range(sum(sizes))]
        assert [len(await anext(journal)) for journal in journals] == [1] * len(journals)
        assert [outcome.replayed for outcome in outcomes] == [False] * len(outcomes)
    # Half of the eight who wait and of the one whom the commit before has released; then the rest.
    assert sizes == [5, 3]
    assert gated.transactions_count == len(sizes)


async def test_parts_are_decided_in_order(ledger: Ledger, gated: GatedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MIN_SHARE", 1)
    monkeypatch.setattr(limits, "MAX_BATCH", 2)
    gated.gate.set()
    commands = [
        support.grant(1, request_id="more", account_id="second"),
        support.open_account("second"),
        support.grant(1, request_id="more", account_id="second"),
        support.open_study(2, study_id="late", account_id="second"),
        support.open_study(2, study_id="late", account_id="second"),
    ]
    outcomes = [outcome async for part in ledger.submit_parts(commands) for outcome in part]
    assert gated.transactions_count == 3
    assert isinstance(outcomes[0], errors.UnknownAccountError)
    assert [outcome.replayed for outcome in outcomes[1:]] == [False, False, False, True]


async def test_failed_part_leaves_the_others_as_they_are(
    ledger: Ledger, gated: GatedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MIN_SHARE", 1)
    monkeypatch.setattr(limits, "MAX_BATCH", 2)
    transact = gated.transact

    async def fail_once(wanted: Wanted, now: int, work: Callable[[Workspace], T]) -> T:
        if "b" in wanted.account_ids:
            raise errors.StoreUnavailableError("the disk is full", problem="disk_full")
        return await transact(wanted, now, work)

    gated.gate.set()
    monkeypatch.setattr(gated, "transact", fail_once)
    commands = [support.open_account(name) for name in ("a", "x", "b", "c", "d")]
    outcomes = [outcome async for part in ledger.submit_parts(commands) for outcome in part]
    failed = [isinstance(outcome, errors.StoreUnavailableError) for outcome in outcomes]
    assert failed == [False, False, True, True, False]
    assert not support.is_healthy(ledger)
    replayed = [(await ledger.submit(support.open_account(name))).replayed for name in ("a", "x", "c", "d")]
    assert replayed == [True, True, False, True]


async def test_more_than_may_wait_is_turned_away(
    ledger: Ledger, gated: GatedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_QUEUED", 2)
    first = asyncio.create_task(ledger.submit(support.open_account("a")))
    await gated.entered.wait()
    queued = [asyncio.create_task(ledger.submit(support.open_account(name))) for name in ("b", "c", "d")]
    gated.gate.set()
    outcomes = await asyncio.gather(first, *queued, return_exceptions=True)
    assert [isinstance(outcome, errors.StoreUnavailableError) for outcome in outcomes] == [False, False, False, True]
    assert support.is_healthy(ledger)


async def test_every_caller_hears_of_a_failed_batch_and_the_pipeline_goes_on(
    ledger: Ledger, gated: GatedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(wanted: Wanted, now: int, work: object) -> object:
        raise Puzzled

    gated.gate.set()
    with monkeypatch.context() as patch:
        patch.setattr(gated, "transact", fail)
        outcomes = await asyncio.gather(
            *(ledger.submit(support.open_account(name)) for name in ("a", "b")), return_exceptions=True
        )
    assert [type(outcome) for outcome in outcomes] == [Puzzled, Puzzled]
    assert not (await ledger.submit(support.open_account("a"))).replayed


async def test_closing_carries_out_what_is_queued_and_refuses_the_rest(database: Path, clock: Clock) -> None:
    store = SqliteStore.open(database)
    writer = Writer(store, clock)
    writer.start()
    queued = [asyncio.create_task(writer.submit(support.open_account(name))) for name in ("a", "b")]
    # Tasks begin in the order in which they were made: both are queued before the end is.
    await asyncio.create_task(writer.close())
    await writer.close()
    assert [answer.replayed for answer in await asyncio.gather(*queued)] == [False, False]
    with pytest.raises(errors.StoreUnavailableError):
        await writer.submit(support.open_account("c"))
    await store.close()
