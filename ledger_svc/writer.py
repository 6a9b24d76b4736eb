"""The one pipeline that every mutation passes (design/ledger.md, Storage).

Concurrent commands are gathered and committed together: each is decided by itself, in the order of arrival, inside the
batch's transaction, and no answer leaves before the commit is durable. What has been queued is carried out even where
its caller has gone; the caller finds the result by asking again with the same id.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
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
    """One caller's queued commands and where their outcomes go."""

    commands: Sequence[Command[Any]]
    outcomes: asyncio.Future[Sequence[Any]] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


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
        self._task = asyncio.create_task(self._run(), name="ledger-writer")

    async def submit(self, command: Command[T]) -> T:
        """Carry out one command and give its answer once it is durable; raises its refusal, and as `submit_all`."""
        (outcome,) = await self.submit_all((command,))
        if isinstance(outcome, CountersignError):
            raise outcome
        return cast(T, outcome)

    async def submit_all(self, commands: Sequence[Command[Any]]) -> Sequence[Any]:
        """Carry out commands in one transaction, each decided by itself, in order, once all of it is durable.

        Gives each one's answer, or its refusal as a CountersignError. Raises StoreUnavailableError or
        StoreCorruptError where the transaction as a whole failed. A cancelled caller leaves what is queued in place.
        """
        if self._closing:
            raise errors.StoreUnavailableError("the ledger is closing; nothing was done", problem="closed")
        if self._waiting_count + len(commands) > limits.MAX_QUEUED:
            raise errors.StoreUnavailableError("too many mutations wait; nothing was done", problem="overloaded")
        ticket = _Ticket(commands)
        self._waiting.append(ticket)
        self._waiting_count += len(commands)
        self._changed.set()
        return await asyncio.shield(ticket.outcomes)

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
        with suppress(TimeoutError):
            async with asyncio.timeout(self._commit_seconds * limits.LINGER_SHARE):
                while len(self._waiting) < self._released_count and not self._closing:
                    self._changed.clear()
                    await self._changed.wait()

    def _taken(self) -> Iterator[_Ticket]:
        """What goes into the next transaction: at least one ticket, and no more than half of a crowd.

        Those whom it releases then come back while the other half is committed, and the disk and the callers both have
        something to do.
        """
        most = min(max(limits.MIN_SHARE, (self._waiting_count + 1) // 2), limits.MAX_BATCH)
        count = 0
        while self._waiting and (count == 0 or count + len(self._waiting[0].commands) <= most):
            ticket = self._waiting.popleft()
            count += len(ticket.commands)
            self._waiting_count -= len(ticket.commands)
            yield ticket

    async def _commit(self, batch: Sequence[_Ticket]) -> None:
        """Carry out a batch; where its transaction fails, all of it fails."""
        start = asyncio.get_running_loop().time()
        wanted = Wanted.union(command.wanted() for ticket in batch for command in ticket.commands)
        try:
            outcomes = await self._store.transact(
                wanted, self._clock(), lambda book: [_outcomes(ticket.commands, book) for ticket in batch]
            )
        except Exception as error:  # noqa: BLE001 - the pipeline outlives a batch, and each of its callers must hear
            for ticket in batch:
                ticket.outcomes.set_exception(error)
        else:
            for ticket, found in zip(batch, outcomes, strict=True):
                ticket.outcomes.set_result(found)
        self._released_count = len(batch)
        self._commit_seconds = asyncio.get_running_loop().time() - start


def _outcomes(commands: Sequence[Command[Any]], book: Workspace) -> list[Any]:
    """Each command's answer, or its refusal as a value: a refusal undoes nothing of the batch."""
    outcomes: list[Any] = []
    for command in commands:
        try:
            outcomes.append(command.decide(book))
        except CountersignError as refusal:
            outcomes.append(refusal)
    return outcomes
