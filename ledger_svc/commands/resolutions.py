"""ResolveHold: the only way out of a hold (design/architecture.md, I3)."""

from typing import Any

from msgspec import Struct

from countersign.kit.money import Money
from ledger_svc import calls, errors, limits
from ledger_svc.calls import Call, Resolution
from ledger_svc.commands import checks
from ledger_svc.commands.base import earlier_answer, inputs_digest
from ledger_svc.commands.leases import expire_overdue
from ledger_svc.commands.outcomes import Changed, changed
from ledger_svc.journal import EntryKind
from ledger_svc.workspace import RequestRecord, Wanted, Workspace


class ResolveHold(Struct, frozen=True, gc=False):
    """An operator's decision: the held attempt cost `charged`, or nothing was sent (None).

    Raises UnknownCallError, CurrencyMismatchError, InvalidAmountError, and whatever `calls.resolve` refuses with.
    """

    request_id: str
    call_id: bytes
    attempt: int
    charged: Money | None
    evidence: str
    resolved_by: str
    open_new_attempt: bool

    def __post_init__(self) -> None:
        checks.check_id("request_id", self.request_id)
        checks.check_digest("call_id", self.call_id)
        checks.check_range("attempt", self.attempt, 1, limits.MAX_UINT32)
        if self.charged is not None:
            checks.check_amount("charged", self.charged, least_nanos=0)
        checks.check_text("evidence", self.evidence)
        checks.check_id("resolved_by", self.resolved_by)

    def wanted(self) -> Wanted:
        """The slot's attempts and the request id."""
        return Wanted(call_ids=frozenset({self.call_id}), request_ids=frozenset({self.request_id}))

    def decide(self, book: Workspace) -> Changed:
        """Resolve the hold, or answer as before."""
        digest = inputs_digest(EntryKind.CALL_RESOLVED, self._inputs())
        if earlier_answer(book, self.request_id, digest) is not None:
            return changed(book, self._attempt(book), replayed=True)
        expire_overdue(book, self._attempt(book).slot.study_id)
        before = self._attempt(book)
        after = calls.resolve(before, self._resolution(book, before), book.now)
        book.post_call(before, after, request_id=self.request_id)
        book.remember(RequestRecord(self.request_id, digest, 0))
        return changed(book, after, replayed=False)

    def _attempt(self, book: Workspace) -> Call:
        for call in book.known_attempts(self.call_id):
            if call.attempt == self.attempt:
                return call
        raise errors.UnknownCallError("no such attempt", call_id=self.call_id, attempt=self.attempt)

    def _resolution(self, book: Workspace, call: Call) -> Resolution:
        account = book.account(call.account_id)
        nanos = None if self.charged is None else account.nanos_of(self.charged)
        if nanos is not None and not account.can_record(nanos - call.accounted_nanos):
            raise errors.InvalidAmountError("the charge would be beyond 9.2 billion units", field="charged")
        return Resolution(nanos, self.evidence, self.resolved_by, self.open_new_attempt)

    def _inputs(self) -> dict[str, Any]:
        return {
            "attempt": self.attempt,
            "call_id": self.call_id.hex(),
            "charged": None if self.charged is None else [self.charged.currency, self.charged.nanos],
            "evidence": self.evidence,
            "open_new_attempt": self.open_new_attempt,
            "resolved_by": self.resolved_by,
        }
