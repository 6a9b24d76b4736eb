"""What the turn loop needs of the ledger, and nothing more (design/ledger.md)."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from countersign.kit.money import Money


class CallState(StrEnum):
    """Where a call stands (design/ledger.md, States)."""

    RESERVED = "RESERVED"
    CHARGED = "CHARGED"
    HELD = "HELD"
    RESOLVED = "RESOLVED"


class HoldCause(StrEnum):
    """Why the adapter puts a call in doubt."""

    TRANSPORT_UNKNOWN = "TRANSPORT_UNKNOWN"
    HTTP_STATUS = "HTTP_STATUS"
    ADAPTER_STOPPED = "ADAPTER_STOPPED"


@dataclass(frozen=True, slots=True)
class Slot:
    """One planned provider request; `turn` counts from 1."""

    study_id: str
    episode_id: str
    turn: int


@dataclass(frozen=True, slots=True)
class Order:
    """What a reservation asks for. `basis` is a name of AmountBasis; `lease_seconds` covers attempt and record."""

    slot: Slot
    amount: Money
    basis: str
    price_table_digest: bytes
    request: bytes = field(repr=False)
    lease_seconds: int


@dataclass(frozen=True, slots=True)
class LedgerCall:
    """One attempt as the ledger has it. `hold_category` is empty where it never was held."""

    call_id: bytes
    turn: int
    attempt: int
    state: CallState
    accounted: Money
    request_digest: bytes
    response_digest: bytes
    hold_category: str


@dataclass(frozen=True, slots=True)
class Admitted:
    """One request may be sent. `lease_ends_at` is no earlier than the lease's end, by the client's own clock."""

    call_id: bytes
    attempt: int
    lease_ends_at: float


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """The slot's receipt: nothing is to be sent."""

    call: LedgerCall
    http_status: int
    response: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Evidence:
    """A provider's raw answer and what it cost as far as known: `cost_basis` a name of CostBasis, or empty."""

    http_status: int
    response: bytes = field(repr=False)
    cost_basis: str
    cost_text: str


class LedgerPort(Protocol):
    """The ledger as the turn loop sees it.

    Every method raises ServiceError: with a reason where the ledger refused, without one where it could not be reached
    for as long as the implementation is patient. A receipt or a hold is offered for as long as the lease lasts, if that
    is longer: what is not told by then, the ledger holds by itself (design/ledger.md, Leases).
    """

    async def reserve(self, order: Order, attempt_token: bytes) -> Admitted | StoredAnswer:
        """Set money aside for one request."""

    async def record_receipt(self, admitted: Admitted, attempt_token: bytes, evidence: Evidence) -> LedgerCall:
        """Store the provider's answer; the call is then CHARGED or HELD."""

    async def hold(
        self, admitted: Admitted, attempt_token: bytes, cause: HoldCause, progress: str, http_status: int | None
    ) -> LedgerCall:
        """Put the call in doubt; `progress` is a name of RequestProgress."""

    async def latest_call(self, slot: Slot) -> LedgerCall:
        """The slot's latest attempt."""

    def hurry(self) -> None:
        """Offer nothing for the sake of a lease any more, from now on: the process is to end."""
