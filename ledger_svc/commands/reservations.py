"""Reserve: one atomic step before one request on the wire (design/ledger.md, Reserve)."""

from msgspec import Struct

from countersign.kit.canonical import sha256
from countersign.kit.money import Money
from ledger_svc import errors, limits
from ledger_svc.budgets import Account, admit
from ledger_svc.calls import AmountBasis, Call, CallState, Slot, Standing, standing
from ledger_svc.commands import checks
from ledger_svc.commands.leases import expire_overdue
from ledger_svc.workspace import Wanted, Workspace


class Admitted(Struct, frozen=True, gc=False):
    """One request may be sent for the call."""

    call: Call
    replayed: bool


class Answered(Struct, frozen=True, gc=False):
    """Nothing is to be sent: the call has a stored receipt."""

    call: Call


class Reserve(Struct, frozen=True, gc=False):
    """Sets money aside for a slot, or gives the receipt that the slot already has.

    Raises UnknownStudyError, CurrencyMismatchError, PayloadMismatchError, ReplayDeniedError, RequestIdConflictError
    (the token was admitted with another amount), and whatever `budgets.admit` refuses with.
    """

    slot: Slot
    attempt_token: bytes
    amount: Money
    basis: AmountBasis
    price_table_digest: bytes
    request: bytes
    lease_micros: int

    def __post_init__(self) -> None:
        checks.check_slot(self.slot)
        checks.check_token("attempt_token", self.attempt_token)
        self._check_amount()
        checks.check_payload("request", self.request)
        if not self.request:
            raise errors.InvalidArgumentError("request must not be empty", field="request")
        checks.check_range("lease_micros", self.lease_micros, limits.MIN_LEASE_MICROS, limits.MAX_LEASE_MICROS)

    def _check_amount(self) -> None:
        free = self.basis is AmountBasis.FREE_ROUTE
        checks.check_amount("amount", self.amount, least_nanos=0 if free else 1)
        if free and self.amount.nanos != 0:
            raise errors.InvalidAmountError("a free route reserves zero", field="amount")
        if self.basis is AmountBasis.PRICED_BOUND:
            checks.check_digest("price_table_digest", self.price_table_digest)
        elif self.price_table_digest:
            raise errors.InvalidArgumentError(
                "price_table_digest belongs to PRICED_BOUND only", field="price_table_digest"
            )

    def wanted(self) -> Wanted:
        """The slot's attempts and its study."""
        return Wanted(study_ids=frozenset({self.slot.study_id}), call_ids=frozenset({self.slot.call_id()}))

    def decide(self, book: Workspace) -> Admitted | Answered:
        """Admit a new attempt, admit the same one again, or answer with the receipt."""
        study = book.study(self.slot.study_id)
        account = book.account(study.account_id)
        nanos = account.nanos_of(self.amount)
        if expire_overdue(book, study.study_id):
            account, study = book.account(study.account_id), book.study(study.study_id)
        attempts = book.attempts(self.slot.call_id())
        token_digest, request_digest = sha256(self.attempt_token), sha256(self.request)
        match standing(attempts, token_digest, request_digest):
            case Standing.ANSWERED:
                return Answered(attempts[-1])
            case Standing.ADMITTED:
                return Admitted(self._same_inputs(attempts[-1]), replayed=True)
            case Standing.OPEN:
                admit(account, study, nanos)
                call = self._new_call(book.now, account, len(attempts) + 1, token_digest, request_digest)
                book.keep(self.request, request_digest)
                book.post_call(None, call)
                return Admitted(call, replayed=False)

    def _same_inputs(self, call: Call) -> Call:
        asked = (self.amount.nanos, self.basis, self.price_table_digest)
        if asked != (call.reserved_nanos, call.basis, call.price_table_digest):
            raise errors.RequestIdConflictError(
                "the attempt token was admitted with another amount", call_id=call.call_id
            )
        return call

    def _new_call(self, now: int, account: Account, attempt: int, token_digest: bytes, request_digest: bytes) -> Call:
        return Call(
            account_id=account.account_id,
            slot=self.slot,
            attempt=attempt,
            state=CallState.RESERVED,
            token_digest=token_digest,
            basis=self.basis,
            price_table_digest=self.price_table_digest,
            request_digest=request_digest,
            reserved_nanos=self.amount.nanos,
            accounted_nanos=self.amount.nanos,
            reserved_at=now,
            reserved_sequence=account.head_sequence + 1,
            lease_expires_at=now + self.lease_micros,
            changed_at=now,
        )
