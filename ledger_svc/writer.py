"""The one pipeline that every mutation passes (design/ledger.md, Storage).

Concurrent commands are gathered and committed together: each is decided by itself, in the order of arrival, inside the
batch's transaction, and no answer leaves before the commit is durable. What has been queued is carried out even where
its caller has gone; the caller finds the result by asking again with the same id.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from countersign.kit.errors import CountersignError
from ledger_svc import errors, limits, metrics
from ledger_svc.commands.base import Command
from ledger_svc.storage.base import Store
from ledger_svc.workspace import Wanted, Workspace

T = TypeVar("T")


@dataclass(slots=True)
class _Ticket:
    """One caller's queued commands, how many of them are in a transaction already, and where their outcomes go.

    An outcome is an answer, a refusal or what the transaction failed with. They come in order, in parts.
    """

    commands: Sequence[Command[Any]]
    deliver: Callable[[Sequence[Any]], None]
    taken_count: int = 0

    def take(self, most: int) -> Sequence[Command[Any]]:
        """The next commands, at most so many."""
        commands = self.commands[self.taken_count : self.taken_count + most]
        self.taken_count += len(commands)
        return commands


Batch = Sequence[tuple[_Ticket, Sequence[Command[Any]]]]


class Writer:
    """Feeds commands to the store. `clock` gives microseconds since the Unix epoch, or None: the store's own time."""

    def __init__(self, store: Store, clock: Callable[[], int | None]) -> None:
        self._store = store
        self._clock = clock
        self._waiting: deque[_Ticket] = deque()
        self._waiting_count = 0
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closing = False
        self._released_count = 0
        self._commit_seconds = 0.0

    def start(self) -> None:
        """Begin to carry out what is queued; needs a running event loop."""
        metrics.QUEUE_DEPTH.follow(lambda: self._waiting_count)
        self._task = asyncio.create_task(self._run(), name="ledger-writer")

    async def submit(self, command: Command[T]) -> T:
        """Carry out one command and give its answer once it is durable.

        Raises its refusal, what its transaction failed with, and as `submit_parts`. A cancelled caller leaves what is
        queued in place.
        """
        outcome: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def deliver(outcomes: Sequence[Any]) -> None:
            if outcome.done():
                return
            if isinstance(outcomes[0], Exception):
                outcome.set_exception(outcomes[0])
            else:
                outcome.set_result(outcomes[0])

        self._queue(_Ticket((command,), deliver))
        return await outcome

    async def submit_parts(self, commands: Sequence[Command[Any]]) -> AsyncIterator[Sequence[Any]]:
        """Carry out commands in order, each decided by itself; gives their outcomes, part by part, once durable.

        An outcome is an answer, a refusal (CountersignError) or the exception that the part's transaction failed with.
        Raises StoreUnavailableError where nothing more is taken. Who goes away leaves what is queued in place.
        """
        parts: asyncio.Queue[Sequence[Any]] = asyncio.Queue()
        if commands:
            self._queue(_Ticket(commands, parts.put_nowait))
        left = len(commands)
        while left:
            outcomes = await parts.get()
            left -= len(outcomes)
            yield outcomes

    def _queue(self, ticket: _Ticket) -> None:
        if self._closing:
            raise errors.StoreUnavailableError("the ledger is closing; nothing was done", problem="closed")
        if self._waiting_count + len(ticket.commands) > limits.MAX_QUEUED:
            raise errors.StoreUnavailableError("too many mutations wait; nothing was done", problem="overloaded")
        self._waiting.append(ticket)
        self._waiting_count += len(ticket.commands)
        self._changed.set()

    async def close(self) -> None:
        """Carry out what is queued and stop; doing so twice is harmless."""
        self._closing = True
        self._changed.set()
        if self._task is not None:
            await self._task
            self._task = None

    async def _run(self) -> None:
        """Until `close`, and until nothing waits any more."""
        while self._waiting or not self._closing:
            if self._waiting:
                await self._linger()
                await self._commit(list(self._taken()))
            else:
                self._changed.clear()
                await self._changed.wait()

    async def _linger(self) -> None:
        """Give the callers that the last commit released a share of its time to come back.

        They then go into one commit rather than two. Whoever is alone waits for nobody: one released, one back.
        """
        if self._waiting_count >= self._released_count:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(self._commit_seconds * limits.LINGER_SHARE):
                while self._waiting_count < self._released_count and not self._closing:
                    self._changed.clear()
                    await self._changed.wait()

    def _taken(self) -> Iterator[tuple[_Ticket, Sequence[Command[Any]]]]:
        """What goes into the next transaction: no more than half of a crowd, whoever is about to come back included.

        Those whom it releases then come back while the other half is committed, and the disk and the callers both have
        something to do.
        """
        share = (self._waiting_count + self._released_count + 1) // 2
        room = min(max(limits.MIN_SHARE, share), limits.MAX_BATCH)
        while self._waiting and room:
            ticket = self._waiting[0]
            commands = ticket.take(room)
            room -= len(commands)
            self._waiting_count -= len(commands)
            if ticket.taken_count == len(ticket.commands):
                self._waiting.popleft()
            yield ticket, commands

    async def _commit(self, batch: Batch) -> None:
        """Carry out a batch; where its transaction fails, all of it fails."""
        start = asyncio.get_running_loop().time()
        wanted = Wanted.union(command.wanted() for _, commands in batch for command in commands)
        decided: Workspace | None = None

        def decide(book: Workspace) -> list[list[Any]]:
            nonlocal decided
            decided = book
            return [_outcomes(commands, book) for _, commands in batch]

        try:
            outcomes = await self._store.transact(wanted, self._clock(), decide)
        except Exception as error:  # noqa: BLE001 - the pipeline outlives a batch, and each of its callers must hear
            decided, outcomes = None, [[error] * len(commands) for _, commands in batch]
        for (ticket, _), found in zip(batch, outcomes, strict=True):
            ticket.deliver(found)
        self._released_count = sum(len(commands) for _, commands in batch)
        self._commit_seconds = asyncio.get_running_loop().time() - start
        if metrics.COMMIT_SECONDS.is_on:
            metrics.committed(decided, [each for _, each in batch], outcomes, self._commit_seconds)


def _outcomes(commands: Sequence[Command[Any]], book: Workspace) -> list[Any]:
    """Each command's answer, or its refusal as a value: a refusal undoes nothing of the batch."""
    outcomes: list[Any] = []
    for command in commands:
        try:
            outcomes.append(command.decide(book))
        except CountersignError as refusal:
            outcomes.append(refusal)
    return outcomes
