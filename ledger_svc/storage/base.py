"""The narrow interface of a store (design/ledger.md, Storage).

Each method raises StoreUnavailableError where the store cannot be read or written now, and StoreCorruptError where its
content is damaged; no other exception of the storage engine gets out.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from ledger_svc.audit import Auditor
from ledger_svc.budgets import Account, Study
from ledger_svc.calls import Call, CallState
from ledger_svc.journal import Entry
from ledger_svc.workspace import Wanted, Workspace

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Balances:
    """An account and some of its studies, as they stood at one moment."""

    account: Account
    studies: Sequence[Study]


@dataclass(frozen=True, slots=True)
class StoredAttempt:
    """An attempt with its payloads as stored, unchecked; None where none is."""

    call: Call
    request: bytes | None
    response: bytes | None

    @property
    def size_bytes(self) -> int:
        """Of both payloads."""
        return len(self.request or b"") + len(self.response or b"")


@dataclass(slots=True)
class AttemptPage:
    """Some slots' attempts, slot by slot, oldest first; `ended` where a slot that has none was met."""

    left_bytes: int
    attempts: list[StoredAttempt] = field(default_factory=list)
    ended: bool = False

    def take(self, attempt: StoredAttempt) -> bool:
        """Take one more where it fits, the first in any case; say whether it did."""
        if self.attempts and attempt.size_bytes > self.left_bytes:
            return False
        self.left_bytes -= attempt.size_bytes
        self.attempts.append(attempt)
        return True


class Store(Protocol):
    """Keeps accounts, studies, calls, payloads, request ids and journals."""

    async def transact(self, wanted: Wanted, now: int | None, work: Callable[[Workspace], T]) -> T:
        """Load what is wanted, run `work` on it, save what it changed, and return its result once that is durable.

        All in one transaction that no other writer interleaves with; where `work` raises, nothing is saved. `now` is in
        microseconds and decides which reservations are overdue; None is the store's own time, taken once no other
        writer can interleave. A StoreUnavailableError leaves open whether the transaction landed, but never lets half
        of it land. `work` must have no effect but on its workspace: where a transaction has certainly left nothing, a
        store may begin anew, with another workspace.
        """
        ...

    async def account_ids(self) -> list[str]:
        """Every account that has a row or a journal, sorted."""
        ...

    async def balances(self, account_id: str, study_id: str | None, after_sequence: int, limit: int) -> Balances | None:
        """The account with one study, or with at most `limit` studies opened after a sequence; None: no account."""
        ...

    async def accounts(self, after_id: str, limit: int) -> list[Account]:
        """At most `limit` accounts whose ids come after `after_id`, in the order of their ids' UTF-8 bytes."""
        ...

    async def study(self, study_id: str) -> Study | None:
        """The study, or None."""
        ...

    async def currency_of_account(self, account_id: str) -> str | None:
        """The account's currency code, or None where there is no account."""
        ...

    async def attempts(self, call_id: bytes) -> tuple[Call, ...]:
        """All attempts of a slot, oldest first."""
        ...

    async def calls(self, study_id: str, states: Collection[CallState], after_sequence: int, limit: int) -> list[Call]:
        """At most `limit` calls of a study in these states, reserved after a sequence, in the order of reservation."""
        ...

    async def payload(self, call_id: bytes, digest: bytes) -> bytes | None:
        """The stored request or response of that SHA-256 that one of the slot's attempts has, or None."""
        ...

    async def stored_attempts(self, call_ids: Sequence[bytes], after_attempt: int, max_bytes: int) -> AttemptPage:
        """The slots' attempts with their payloads at one moment, up to the first slot that has none.

        Of the first slot those after an attempt only; of all as many as fit into so many bytes, at least one.
        """
        ...

    async def has_overdue(self, now: int | None) -> bool:
        """Whether any reservation's lease is over at `now` (microseconds; None: the store's own time)."""
        ...

    async def audit(self, *auditors: Auditor) -> None:
        """Feed each auditor everything of its account as it stood at one moment, up to and including `finish`."""
        ...

    async def examine(self) -> None:
        """Look for damage in the engine's own structures, at a cost that grows with the store; raises where it is."""
        ...

    async def check(self) -> None:
        """Write something that means nothing, durably; raises where the store cannot."""
        ...

    async def close(self) -> None:
        """Finish what has begun and let go of the store."""
        ...

    async def entries(self, account_id: str, after_sequence: int, limit: int) -> list[Entry]:
        """At most `limit` entries of an account's journal after a sequence, in order, as stored and unchecked."""
        ...

    async def calls_of_account(
        self, account_id: str, states: Collection[CallState], after_sequence: int, limit: int
    ) -> list[Call]:
        """As `calls`, over all studies of an account."""
        ...
