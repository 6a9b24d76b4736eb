"""Running totals per account and study, and what they admit (design/ledger.md, Objects and Reserve).

Amounts are whole nano-units of the account's currency. Nothing is ever clamped: a total below zero means that the store
is damaged.
"""

from msgspec import Struct, field
from msgspec.structs import replace

from countersign.kit.money import MAX_NANOS, Money
from ledger_svc import errors
from ledger_svc.calls import Call, CallState


class Tally(Struct, frozen=True, gc=False):
    """How many calls are in one state and what they account for together."""

    nanos: int = 0
    count: int = 0

    def plus(self, nanos: int, count: int) -> "Tally":
        """The tally with one call more (`count` 1) or less (-1); raises StoreCorruptError below zero."""
        changed = Tally(self.nanos + nanos, self.count + count)
        if changed.nanos < 0 or changed.count < 0:
            raise errors.StoreCorruptError("a balance is below what its calls account for", problem="balance")
        return changed


class Totals(Struct, frozen=True, gc=False):
    """The four tallies of an account or a study."""

    charged: Tally = field(default_factory=Tally)
    reserved: Tally = field(default_factory=Tally)
    held: Tally = field(default_factory=Tally)
    resolved: Tally = field(default_factory=Tally)

    @property
    def accounted_nanos(self) -> int:
        """What all calls account for together."""
        return self.charged.nanos + self.reserved.nanos + self.held.nanos + self.resolved.nanos

    def moved(self, before: Call | None, after: Call) -> "Totals":
        """The totals once a call went from `before` (None: it is new) to `after`."""
        totals = self if before is None else self._with(before.state, -before.accounted_nanos, -1)
        return totals._with(after.state, after.accounted_nanos, 1)

    def _with(self, state: CallState, nanos: int, count: int) -> "Totals":
        match state:
            case CallState.CHARGED:
                return Totals(self.charged.plus(nanos, count), self.reserved, self.held, self.resolved)
            case CallState.RESERVED:
                return Totals(self.charged, self.reserved.plus(nanos, count), self.held, self.resolved)
            case CallState.HELD:
                return Totals(self.charged, self.reserved, self.held.plus(nanos, count), self.resolved)
            case CallState.RESOLVED:
                return Totals(self.charged, self.reserved, self.held, self.resolved.plus(nanos, count))


class Account(Struct, frozen=True, gc=False):
    """A currency, what is authorised in it, what its calls account for, and where its journal ends."""

    account_id: str
    currency: str
    granted_nanos: int = 0
    prior_spend_nanos: int = 0
    totals: Totals = field(default_factory=Totals)
    head_sequence: int = 0
    head_chain: bytes = bytes(32)

    @property
    def available_nanos(self) -> int:
        """What may still be reserved; below zero where a bill or prior spend was above everything."""
        return self.granted_nanos - self.prior_spend_nanos - self.totals.accounted_nanos

    def nanos_of(self, amount: Money) -> int:
        """The amount in this account's currency; raises CurrencyMismatchError for another."""
        if amount.currency != self.currency:
            raise errors.CurrencyMismatchError(
                "the amount must be in the account's currency", expected=self.currency, got=amount.currency
            )
        return amount.nanos

    def can_record(self, more_nanos: int) -> bool:
        """Whether the balances could still be written down with `more_nanos` of spend."""
        return self.prior_spend_nanos + self.totals.accounted_nanos + more_nanos <= MAX_NANOS

    def moved(self, before: Call | None, after: Call) -> "Account":
        """The account once a call went from `before` to `after`."""
        return self._with(self.totals.moved(before, after), self.head_sequence, self.head_chain)

    def with_head(self, sequence: int, chain: bytes) -> "Account":
        """The account once its journal has one entry more."""
        return self._with(self.totals, sequence, chain)

    def _with(self, totals: Totals, head_sequence: int, head_chain: bytes) -> "Account":
        # In order and without names: every mutation comes through here.
        return Account(
            self.account_id,
            self.currency,
            self.granted_nanos,
            self.prior_spend_nanos,
            totals,
            head_sequence,
            head_chain,
        )


class Study(Struct, frozen=True, gc=False):
    """A study's caps, its frozen manifest's digest, and what its calls account for."""

    study_id: str
    account_id: str
    cap_nanos: int
    call_ceiling_nanos: int
    max_in_flight: int
    manifest_digest: bytes
    opened_sequence: int
    totals: Totals = field(default_factory=Totals)

    @property
    def blocked(self) -> bool:
        """Whether a hold blocks new reservations."""
        return self.totals.held.count > 0

    @property
    def available_nanos(self) -> int:
        """What is left of the cap; below zero where a bill was above everything."""
        return self.cap_nanos - self.totals.accounted_nanos

    def same_properties(self, other: "Study") -> bool:
        """Whether both were opened with the same properties."""
        return replace(self, totals=Totals(), opened_sequence=0) == replace(other, totals=Totals(), opened_sequence=0)

    def moved(self, before: Call | None, after: Call) -> "Study":
        """The study once a call went from `before` to `after`."""
        return Study(
            self.study_id,
            self.account_id,
            self.cap_nanos,
            self.call_ceiling_nanos,
            self.max_in_flight,
            self.manifest_digest,
            self.opened_sequence,
            self.totals.moved(before, after),
        )


def admit(account: Account, study: Study, requested_nanos: int) -> None:
    """Return where the reservation fits; equality is admitted. It never looks at stored calls, only at totals.

    Raises StudyBlockedError, TooManyInFlightError, StudyCapExceededError, CallCeilingExceededError or
    BudgetExhaustedError, in this order.
    """
    _admit_another_call(study)
    if requested_nanos > study.available_nanos:
        raise errors.StudyCapExceededError(
            "the study's cap has less left than the reservation asks for",
            available_nanos=study.available_nanos,
            requested_nanos=requested_nanos,
        )
    if requested_nanos > study.call_ceiling_nanos:
        raise errors.CallCeilingExceededError(
            "the reservation is above the study's ceiling for one call",
            ceiling_nanos=study.call_ceiling_nanos,
            requested_nanos=requested_nanos,
        )
    if requested_nanos > account.available_nanos:
        raise errors.BudgetExhaustedError(
            "the account has less available than the reservation asks for",
            available_nanos=account.available_nanos,
            requested_nanos=requested_nanos,
        )


def _admit_another_call(study: Study) -> None:
    if study.blocked:
        raise errors.StudyBlockedError(
            "the study has a hold; an operator must resolve it first",
            study_id=study.study_id,
            holds_count=study.totals.held.count,
        )
    if study.totals.reserved.count >= study.max_in_flight:
        raise errors.TooManyInFlightError(
            "the study has as many calls in flight as it may", max_in_flight_count=study.max_in_flight
        )
