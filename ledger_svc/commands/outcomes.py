"""What came of a reservation: a receipt or a hold (design/ledger.md, RecordReceipt, Hold, leases)."""

from msgspec import Struct

from countersign.kit.canonical import sha256
from ledger_svc import calls, errors, limits
from ledger_svc.calls import CALLER_CATEGORIES, Call, Cost, HoldCategory, HoldFacts, ReceiptFacts
from ledger_svc.commands import checks
from ledger_svc.commands.leases import expire_overdue
from ledger_svc.costs import known_cost_nanos
from ledger_svc.workspace import Wanted, Workspace


class Changed(Struct, frozen=True, gc=False):
    """Where the call stands now, and whether it stood there before; `currency` is its account's."""

    replayed: bool
    call: Call
    currency: str


class RecordReceipt(Struct, frozen=True, gc=False):
    """Stores the raw response, then charges its cost, or holds the call where that is not known or too high.

    Raises UnknownCallError, TokenMismatchError, and whatever `calls.record_receipt` refuses with.
    """

    call_id: bytes
    attempt_token: bytes
    http_status: int
    response: bytes
    cost: Cost

    def __post_init__(self) -> None:
        checks.check_digest("call_id", self.call_id)
        checks.check_token("attempt_token", self.attempt_token)
        checks.check_range("http_status", self.http_status, 200, 299)
        checks.check_payload("response", self.response)
        if len(self.cost.amount_text) > limits.MAX_COST_CHARACTERS:
            raise errors.InvalidArgumentError("cost.amount_text is too long", field="cost.amount_text")

    def wanted(self) -> Wanted:
        """The slot's attempts."""
        return Wanted(call_ids=frozenset({self.call_id}))

    def decide(self, book: Workspace) -> Changed:
        """Store the receipt, or answer as before."""
        before = _attempt(book, self.call_id, self.attempt_token)
        receipt = ReceiptFacts(self.http_status, sha256(self.response), self.cost, book.now, late=False)
        after = calls.record_receipt(before, receipt, self._cost_nanos(book, before), book.now)
        if after is before:
            return changed(book, before, replayed=True)
        book.keep(self.response, receipt.response_digest)
        book.post_call(before, after)
        return changed(book, after, replayed=False)

    def _cost_nanos(self, book: Workspace, call: Call) -> int | None:
        """The known cost; one that no balance could hold counts as not known."""
        nanos = known_cost_nanos(self.cost, call.basis)
        if nanos is None or not book.account(call.account_id).can_record(nanos - call.accounted_nanos):
            return None
        return nanos


class Hold(Struct, frozen=True, gc=False):
    """Puts a call in doubt, its whole reservation kept.

    Raises UnknownCallError, TokenMismatchError, and whatever `calls.hold` refuses with.
    """

    call_id: bytes
    attempt_token: bytes
    facts: HoldFacts

    def __post_init__(self) -> None:
        checks.check_digest("call_id", self.call_id)
        checks.check_token("attempt_token", self.attempt_token)
        if self.facts.category not in CALLER_CATEGORIES:
            raise errors.InvalidArgumentError("category is set by the ledger alone", field="category")
        status = self.facts.http_status
        if status is not None:
            checks.check_range("http_status", status, 100, 999)
        if self.facts.category is HoldCategory.HTTP_STATUS and status is None:
            raise errors.InvalidArgumentError("HTTP_STATUS needs the status", field="http_status")

    def wanted(self) -> Wanted:
        """The slot's attempts."""
        return Wanted(call_ids=frozenset({self.call_id}))

    def decide(self, book: Workspace) -> Changed:
        """Hold the call, or answer as before."""
        before = _attempt(book, self.call_id, self.attempt_token)
        after = calls.hold(before, self.facts, book.now)
        if after is before:
            return changed(book, before, replayed=True)
        book.post_call(before, after)
        return changed(book, after, replayed=False)


def changed(book: Workspace, call: Call, *, replayed: bool) -> Changed:
    """The answer that shows the call."""
    return Changed(replayed, call, book.account(call.account_id).currency)


def _attempt(book: Workspace, call_id: bytes, attempt_token: bytes) -> Call:
    """The attempt that the token reserved, after its study's overdue leases have ended."""
    token_digest = sha256(attempt_token)
    call = calls.attempt_of_token(book.known_attempts(call_id), token_digest)
    if not expire_overdue(book, call.slot.study_id):
        return call
    return calls.attempt_of_token(book.attempts(call_id), token_digest)
