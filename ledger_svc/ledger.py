"""The ledger as its service sees it: mutations through one writer, reads that see no lease beyond its end."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from countersign.kit.canonical import sha256
from ledger_svc import errors, limits, metrics
from ledger_svc.audit import Auditor, Difference, Head
from ledger_svc.budgets import Account, Study
from ledger_svc.calls import Call, CallState, ReceiptFacts, Slot
from ledger_svc.commands.base import Command
from ledger_svc.commands.leases import ExpireOverdue
from ledger_svc.commands.reservations import Admitted, Answered, Reserve
from ledger_svc.journal import Entry
from ledger_svc.storage.base import Balances, Store, StoredAttempt
from ledger_svc.writer import Writer

T = TypeVar("T")


def store_time() -> int | None:
    """The clock of a ledger that is served: the store's own, which all ledgers on one database share."""
    return None


@dataclass(frozen=True, slots=True)
class StoredReceipt:
    """One attempt's request and raw response, their digests checked."""

    call: Call
    facts: ReceiptFacts | None
    request: bytes
    response: bytes


@dataclass(frozen=True, slots=True)
class CallPage:
    """A page of calls; `next_sequence` is where the next page begins, None at the end."""

    calls: Sequence[Call]
    next_sequence: int | None


@dataclass(frozen=True, slots=True)
class BalancePage:
    """An account's balances and a page of its studies; `next_sequence` as in `CallPage`."""

    balances: Balances
    next_sequence: int | None


@dataclass(frozen=True, slots=True)
class AccountPage:
    """A page of accounts; `next_id` is after which id the next page begins, empty at the end."""

    accounts: Sequence[Account]
    next_id: str


@dataclass(frozen=True, slots=True)
class Verification:
    """What verifying journals found: the first difference of each account that has one, and every chain's head."""

    accounts_count: int
    entries_count: int
    differences: Sequence[Difference]
    heads: Sequence[Head] = ()


class Ledger:
    """Everything that can be asked of a ledger.

    `clock` gives microseconds since the Unix epoch, or None where the store's own time decides (`store_time`).

    Every method raises StoreUnavailableError or StoreCorruptError where the store fails; `healthy` then is False until
    `tend` finds that the store can be written again, and `health_changed` is set at each change.
    """

    def __init__(self, store: Store, clock: Callable[[], int | None]) -> None:
        self._store = store
        self._clock = clock
        self._writer = Writer(store, clock)
        self._currencies: dict[str, str] = {}
        self.healthy = True
        self.health_changed = asyncio.Event()

    def start(self) -> None:
        """Begin to carry out mutations; needs a running event loop."""
        metrics.STORE_HEALTHY.follow(lambda: self.healthy)
        self._writer.start()

    async def close(self) -> None:
        """Carry out what is queued, then let go of the store."""
        await self._writer.close()
        await self._store.close()

    async def submit(self, command: Command[T]) -> T:
        """Carry out one mutation (`ledger_svc.commands`) and give its answer once it is durable."""
        return await self._watched(self._writer.submit(command))

    async def submit_parts(self, commands: Sequence[Command[Any]]) -> AsyncIterator[Sequence[Any]]:
        """Carry out mutations in order; an answer or an exception for each, part by part, as they become durable."""
        parts = aiter(self._writer.submit_parts(commands))
        while (outcomes := await self._watched(anext(parts, None))) is not None:
            for outcome in outcomes:
                if isinstance(outcome, Exception):
                    self._note(outcome)
            yield outcomes

    async def complete(self, answer: Any) -> Any:
        """The answer as it is given out: a slot that was answered before gives its stored receipt."""
        return await self._stored_receipt(answer.call) if isinstance(answer, Answered) else answer

    async def reserve(self, command: Reserve) -> Admitted | StoredReceipt:
        """Carry out a reservation; a slot that was answered before gives its stored receipt."""
        answer: Admitted | StoredReceipt = await self.complete(await self.submit(command))
        return answer

    async def currency_of(self, account_id: str) -> str:
        """The currency of an account, which never changes; raises UnknownAccountError."""
        if account_id not in self._currencies:
            currency = await self._watched(self._store.currency_of_account(account_id))
            if currency is None:
                raise errors.UnknownAccountError("no account of that id", account_id=account_id)
            self._currencies[account_id] = currency
        return self._currencies[account_id]

    async def attempts(self, call_id: bytes) -> Sequence[Call]:
        """All attempts of a slot, oldest first, never none; raises UnknownCallError."""
        await self._expire_overdue()
        attempts = await self._watched(self._store.attempts(call_id))
        if not attempts:
            raise errors.UnknownCallError("no call of that id", call_id=call_id)
        return attempts

    async def calls(
        self, study_id: str, states: Collection[CallState], after_sequence: int, page_size: int
    ) -> CallPage:
        """A page of a study's calls in these states, in the order of reservation; raises UnknownStudyError."""
        await self._expire_overdue()
        await self.study(study_id)
        found = await self._watched(self._store.calls(study_id, states, after_sequence, page_size + 1))
        return _call_page(found, page_size)

    async def study(self, study_id: str) -> Study:
        """The study; raises UnknownStudyError."""
        study = await self._watched(self._store.study(study_id))
        if study is None:
            raise errors.UnknownStudyError("no study of that id", study_id=study_id)
        return study

    async def receipt(self, call_id: bytes, attempt: int) -> StoredReceipt:
        """One attempt's stored bytes: its request, and its response where it has one.

        Attempt 0 is the latest that has a receipt. Raises UnknownCallError, or UnknownReceiptError where none has.
        """
        attempts = await self.attempts(call_id)
        chosen = [call for call in attempts if attempt in (0, call.attempt)]
        if not chosen:
            raise errors.UnknownCallError("no such attempt", call_id=call_id, attempt=attempt)
        for call in reversed(chosen):
            if attempt != 0 or call.receipt is not None:
                return await self._stored_receipt(call)
        raise errors.UnknownReceiptError("the call has no stored receipt", call_id=call_id, attempt=attempt)

    async def receipts(self, study_id: str, episode_id: str) -> AsyncIterator[Sequence[StoredReceipt]]:
        """What is stored of an episode's attempts, turn by turn, oldest first, up to the first turn that has none.

        In parts, so that never much more than `limits.MAX_PAGE_BYTES` of payloads is in memory.
        """
        await self._expire_overdue()
        turn, attempt = 1, 0
        while True:
            slots = (Slot(study_id, episode_id, turn + number) for number in range(limits.MAX_PAGE_SLOTS))
            call_ids = [slot.call_id() for slot in slots]
            page = await self._watched(self._store.stored_attempts(call_ids, attempt, limits.MAX_PAGE_BYTES))
            yield [_checked(one) for one in page.attempts]
            if page.ended:
                return
            last = page.attempts[-1].call
            turn, attempt = last.slot.turn, last.attempt

    async def summarize(
        self, account_id: str, study_id: str | None, after_sequence: int, page_size: int
    ) -> BalancePage:
        """An account's balances with one study or a page of its studies.

        Raises UnknownAccountError, or UnknownStudyError where the account has no such study.
        """
        await self._expire_overdue()
        found = await self._watched(self._store.balances(account_id, study_id, after_sequence, page_size + 1))
        if found is None:
            raise errors.UnknownAccountError("no account of that id", account_id=account_id)
        if study_id is not None and not found.studies:
            raise errors.UnknownStudyError("the account has no study of that id", study_id=study_id)
        page = found.studies[:page_size]
        following = page[-1].opened_sequence if len(found.studies) > page_size else None
        return BalancePage(Balances(found.account, page), following)

    async def accounts(self, after_id: str, page_size: int) -> AccountPage:
        """A page of all accounts, in the order of their ids, of those after one; empty stands before all."""
        await self._expire_overdue()
        found = await self._watched(self._store.accounts(after_id, page_size + 1))
        page = found[:page_size]
        return AccountPage(page, page[-1].account_id if len(found) > page_size else "")

    async def verify(self, account_id: str | None, expected: Iterable[Head] = ()) -> Verification:
        """Verify one account's journal and balances, or those of all (None).

        Each chain must still pass through its heads among `expected`; an account that is gone and has one there is a
        difference. Raises UnknownAccountError for an `account_id` that is neither known nor expected, and
        StoreCorruptError where the store's own structures are damaged: what is read then proves nothing.
        """
        await self._expire_overdue()
        await self._watched(self._store.examine())
        expected = list(expected)
        account_ids = {*await self._watched(self._store.account_ids()), *(head.account_id for head in expected)}
        if account_id is not None:
            if account_id not in account_ids:
                raise errors.UnknownAccountError("no account of that id", account_id=account_id)
            account_ids = {account_id}
        auditors = [
            Auditor(each, (head for head in expected if head.account_id == each)) for each in sorted(account_ids)
        ]
        await self._watched(self._store.audit(*auditors))
        return Verification(
            accounts_count=len(auditors),
            entries_count=sum(auditor.entries_count for auditor in auditors),
            differences=[auditor.difference for auditor in auditors if auditor.difference is not None],
            heads=[auditor.head for auditor in auditors],
        )

    async def tend(self) -> None:
        """Sweep overdue leases and, where the store has failed, see whether it works again. Raises nothing for it."""
        try:
            if not self.healthy:
                await self._store.check()
                self._set_healthy(True)
            await self._expire_overdue()
        except (errors.StoreUnavailableError, errors.StoreCorruptError):
            return

    async def _expire_overdue(self) -> None:
        """Turn every lease that has ended by now into a hold before anything is read."""
        now = self._clock()
        while await self._watched(self._store.has_overdue(now)):
            # A clock that was set back meanwhile finds nothing to expire; going on would spin until it has caught up.
            if await self.submit(ExpireOverdue()) == 0:
                return

    async def _stored_receipt(self, call: Call) -> StoredReceipt:
        request = await self._watched(self._store.payload(call.call_id, call.request_digest))
        response = None
        if call.receipt is not None:
            response = await self._watched(self._store.payload(call.call_id, call.receipt.response_digest))
        return _checked(StoredAttempt(call, request, response))

    async def _watched(self, work: Awaitable[T]) -> T:
        """Await the store's work and note where it fails; that it works again only a write proves."""
        try:
            return await work
        except Exception as error:
            self._note(error)
            raise

    def _note(self, error: Exception) -> None:
        """Where the store has failed, say so; a full queue says that callers are fast, not that it has."""
        if not isinstance(error, errors.StoreUnavailableError | errors.StoreCorruptError):
            return
        if error.metadata.get("problem") != "overloaded":
            self._set_healthy(False)

    def _set_healthy(self, healthy: bool) -> None:
        if healthy != self.healthy:
            self.healthy = healthy
            self.health_changed.set()

    async def calls_of_account(
        self, account_id: str, states: Collection[CallState], after_sequence: int, page_size: int
    ) -> CallPage:
        """As `calls`, over all studies of an account; raises UnknownAccountError."""
        await self._expire_overdue()
        await self.currency_of(account_id)
        found = await self._watched(self._store.calls_of_account(account_id, states, after_sequence, page_size + 1))
        return _call_page(found, page_size)

    async def journal(self, account_id: str, from_sequence: int) -> AsyncIterator[Sequence[Entry]]:
        """An account's entries from a sequence on, as stored, in pages of at most `limits.MAX_PAGE_SIZE`.

        Raises UnknownAccountError where the account has neither entries nor a row.
        """
        await self._expire_overdue()
        after = max(from_sequence - 1, 0)
        page = await self._watched(self._store.entries(account_id, after, limits.MAX_PAGE_SIZE))
        if not page:
            await self.currency_of(account_id)
        while page:
            yield page
            if len(page) < limits.MAX_PAGE_SIZE:
                return
            page = await self._watched(self._store.entries(account_id, page[-1].sequence, limits.MAX_PAGE_SIZE))


def _checked(stored: StoredAttempt) -> StoredReceipt:
    """The attempt's payloads, which have the digests that it names; raises StoreCorruptError."""
    call = stored.call
    request = _payload(stored.request, call.request_digest)
    response = b"" if call.receipt is None else _payload(stored.response, call.receipt.response_digest)
    return StoredReceipt(call, call.receipt, request, response)


def _payload(payload: bytes | None, digest: bytes) -> bytes:
    if payload is None or sha256(payload) != digest:
        raise errors.StoreCorruptError("a stored payload is missing or changed", problem="payload")
    return payload


def _call_page(found: Sequence[Call], page_size: int) -> CallPage:
    """The page of what was found when one more than the page holds was asked for."""
    page = found[:page_size]
    return CallPage(page, page[-1].reserved_sequence if len(found) > page_size else None)
