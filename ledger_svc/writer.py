"""The one pipeline that every mutation passes (design/ledger.md, Storage).

Concurrent commands are gathered and committed together: each is decided by itself, in the order of arrival, inside the
batch's transaction, and no answer leaves before the commit is durable. What has been queued is carried out even where
its caller has gone; the caller finds the result by asking again with the same id.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from countersign.kit.errors import CountersignError
from ledger_svc import errors, limits
from ledger_svc.commands.base import Command
from ledger_svc.storage.base import Store
from ledger_svc.workspace import Wanted, Workspace

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Ticket:
    """A queued command and where its answer goes."""

    command: Command[Any]
    answer: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Writer:
    """Feeds commands to the store. `clock` gives microseconds since the Unix epoch, or None: the store's own time."""

    def __init__(self, store: Store, clock: Callable[[], int | None]) -> None:
        self._store = store
        self._clock = clock
        self._queue: asyncio.Queue[_Ticket | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._closing = False

    def start(self) -> None:
        """Begin to carry out what is queued; needs a running event loop."""
        self._task = asyncio.create_task(self._run(), name="ledger-writer")

    async def submit(self, command: Command[T]) -> T:
        """Carry out one command and give its answer once it is durable.

        Raises the command's refusal, StoreUnavailableError or StoreCorruptError. A cancelled caller leaves a queued
        command in place.
        """
        if self._closing:
            raise errors.StoreUnavailableError("the ledger is closing; nothing was done", problem="closed")
        if self._queue.qsize() >= limits.MAX_QUEUED:
            raise errors.StoreUnavailableError("too many mutations wait; nothing was done", problem="overloaded")
        ticket = _Ticket(command)
        self._queue.put_nowait(ticket)
        return cast(T, await asyncio.shield(ticket.answer))

    async def close(self) -> None:
        """Carry out what is queued and stop; doing so twice is harmless."""
        self._closing = True
        if self._task is not None:
            self._queue.put_nowait(None)
            await self._task
            self._task = None

    async def _run(self) -> None:
        """Until the None that `close` queues last."""
        is_last = False
        while not is_last:
            batch, is_last = await self._gather()
            if batch:
                await self._commit(batch)

    async def _gather(self) -> tuple[list[_Ticket], bool]:
        """Wait for one command and take what else waits, up to a batch; also whether the end was met."""
        batch: list[_Ticket] = []
        ticket = await self._queue.get()
        while ticket is not None:
            batch.append(ticket)
            if len(batch) == limits.MAX_BATCH or self._queue.empty():
                return batch, False
            ticket = self._queue.get_nowait()
        return batch, True

    async def _commit(self, batch: Sequence[_Ticket]) -> None:
        wanted = Wanted.union(ticket.command.wanted() for ticket in batch)
        try:
            outcomes = await self._store.transact(
                wanted, self._clock(), lambda book: [_outcome(ticket.command, book) for ticket in batch]
            )
        except Exception as error:  # noqa: BLE001 - the pipeline outlives a batch, and each of its callers must hear
            for ticket in batch:
                ticket.answer.set_exception(error)
            return
        for ticket, outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, CountersignError):
                ticket.answer.set_exception(outcome)
            else:
                ticket.answer.set_result(outcome)


def _outcome(command: Command[Any], book: Workspace) -> Any:
    """The command's answer, or its refusal as a value: a refusal undoes nothing of the batch."""
    try:
        return command.decide(book)
    except CountersignError as refusal:
        return refusal
