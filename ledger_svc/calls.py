"""A call's life as pure functions: RESERVED, CHARGED, HELD, RESOLVED (design/ledger.md, States).

Each function takes a call as it stands and gives the call as it stands afterwards, or raises the refusal. Times are
microseconds since the Unix epoch, amounts whole nano-units of the account's currency.

What every mutation makes anew is a frozen `msgspec.Struct`, here and in the other modules of the ledger: one is made in
a fraction of the time that a frozen dataclass takes.
"""

import hmac
from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from countersign.kit.canonical import sha256
from ledger_svc import errors


class CallState(StrEnum):
    """Where a call stands."""

    RESERVED = "RESERVED"
    CHARGED = "CHARGED"
    HELD = "HELD"
    RESOLVED = "RESOLVED"


class AmountBasis(StrEnum):
    """How a reservation's amount was found."""

    PRICED_BOUND = "PRICED_BOUND"
    FLAT = "FLAT"
    FREE_ROUTE = "FREE_ROUTE"


class CostBasis(StrEnum):
    """How a call's cost was found; UNSPECIFIED means that it is not known."""

    UNSPECIFIED = "UNSPECIFIED"
    PROVIDER_REPORTED = "PROVIDER_REPORTED"
    PRICED_USAGE = "PRICED_USAGE"
    FREE_ROUTE = "FREE_ROUTE"


class HoldCategory(StrEnum):
    """Why a call is held. The last three are set by the ledger alone."""

    TRANSPORT_UNKNOWN = "TRANSPORT_UNKNOWN"
    HTTP_STATUS = "HTTP_STATUS"
    ADAPTER_STOPPED = "ADAPTER_STOPPED"
    LEASE_EXPIRED = "LEASE_EXPIRED"
    COST_UNRESOLVED = "COST_UNRESOLVED"
    COST_ABOVE_RESERVATION = "COST_ABOVE_RESERVATION"


class RequestProgress(StrEnum):
    """How far a request got on the wire; UNSPECIFIED means that it is not known."""

    UNSPECIFIED = "UNSPECIFIED"
    NOT_CONNECTED = "NOT_CONNECTED"
    SENDING = "SENDING"
    SENT = "SENT"
    RESPONSE_STARTED = "RESPONSE_STARTED"


CALLER_CATEGORIES = frozenset({HoldCategory.TRANSPORT_UNKNOWN, HoldCategory.HTTP_STATUS, HoldCategory.ADAPTER_STOPPED})
"""The categories that a caller may give."""


class Slot(Struct, frozen=True, gc=False):
    """One planned provider request."""

    study_id: str
    episode_id: str
    turn: int

    def call_id(self) -> bytes:
        """The 32-byte id of the slot: SHA-256 over each part's 8-byte big-endian length and its UTF-8 bytes."""
        return _call_id(self.study_id, self.episode_id, self.turn)


# Each mutation asks for the same id several times.
@lru_cache(maxsize=4_096)
def _call_id(study_id: str, episode_id: str, turn: int) -> bytes:
    study, episode, number = study_id.encode("utf-8"), episode_id.encode("utf-8"), b"%d" % turn
    lengths = [len(part).to_bytes(8, "big") for part in (study, episode, number)]
    return sha256(lengths[0] + study + lengths[1] + episode + lengths[2] + number)


class Cost(Struct, frozen=True, gc=False):
    """A cost as its evidence gives it: the exact text, empty where there is none."""

    basis: CostBasis
    amount_text: str


class HoldFacts(Struct, frozen=True, gc=False):
    """Why a call is, or was, held, and how far its request got."""

    category: HoldCategory
    progress: RequestProgress = RequestProgress.UNSPECIFIED
    http_status: int | None = None


class ReceiptFacts(Struct, frozen=True, gc=False):
    """What is known of a stored response; its bytes are a payload of their own."""

    http_status: int
    response_digest: bytes
    cost: Cost
    received_at: int
    late: bool

    def same_inputs(self, other: "ReceiptFacts") -> bool:
        """Whether both were handed in with the same inputs, whenever that was."""
        mine = (self.http_status, self.response_digest, self.cost)
        return mine == (other.http_status, other.response_digest, other.cost)


class Resolution(Struct, frozen=True, gc=False):
    """An operator's decision; `charged_nanos` is None where nothing was sent."""

    charged_nanos: int | None
    evidence: str
    resolved_by: str
    opened_new_attempt: bool


class Call(Struct, frozen=True, gc=False):
    """One attempt for one slot. Of the attempt token only the digest is kept."""

    account_id: str
    slot: Slot
    attempt: int
    state: CallState
    token_digest: bytes
    basis: AmountBasis
    price_table_digest: bytes
    request_digest: bytes
    reserved_nanos: int
    accounted_nanos: int
    reserved_at: int
    reserved_sequence: int
    lease_expires_at: int
    changed_at: int
    hold: HoldFacts | None = None
    receipt: ReceiptFacts | None = None
    resolution: Resolution | None = None

    def __post_init__(self) -> None:
        if not _coherent(self):
            raise ValueError("the call's state contradicts its parts")

    @property
    def call_id(self) -> bytes:
        """The slot's id, the same for every attempt."""
        return self.slot.call_id()


def _coherent(call: Call) -> bool:
    match call.state:
        case CallState.RESERVED:
            parts = call.hold is None and call.receipt is None and call.resolution is None
        case CallState.CHARGED:
            parts = call.receipt is not None and call.resolution is None
        case CallState.HELD:
            parts = call.hold is not None and call.resolution is None
        case CallState.RESOLVED:
            parts = call.hold is not None and call.resolution is not None
    return parts and call.reserved_nanos >= 0 and call.accounted_nanos >= 0


class Standing(StrEnum):
    """What a slot means for somebody who wants to reserve it."""

    OPEN = "OPEN"
    ADMITTED = "ADMITTED"
    ANSWERED = "ANSWERED"


def standing(attempts: Sequence[Call], token_digest: bytes, request_digest: bytes) -> Standing:
    """Say what the slot's attempts, oldest first, mean for a new Reserve (design/ledger.md, Reserve).

    OPEN: a new attempt may be admitted. ADMITTED: the last attempt is this very one asking again. ANSWERED: the last
    attempt has a final receipt. Raises PayloadMismatchError for another request in the slot, and ReplayDeniedError.
    """
    if not attempts:
        return Standing.OPEN
    last = attempts[-1]
    if last.request_digest != request_digest:
        raise errors.PayloadMismatchError(
            "the slot is known with another request; a changed request needs a slot of its own", call_id=last.call_id
        )
    if last.receipt is not None and last.state in (CallState.CHARGED, CallState.RESOLVED):
        return Standing.ANSWERED
    if last.state is CallState.RESERVED and _same_token(last, token_digest):
        return Standing.ADMITTED
    if _opened_again(last) and not any(_same_token(call, token_digest) for call in attempts):
        return Standing.OPEN
    raise errors.ReplayDeniedError(
        "the slot has an attempt whose outcome is not this caller's to repeat; send nothing",
        call_id=last.call_id,
        state=last.state,
    )


def _opened_again(call: Call) -> bool:
    return call.resolution is not None and call.resolution.opened_new_attempt


def _same_token(call: Call, token_digest: bytes) -> bool:
    return hmac.compare_digest(call.token_digest, token_digest)


def attempt_of_token(attempts: Sequence[Call], token_digest: bytes) -> Call:
    """The attempt that the token reserved; raises TokenMismatchError where there is none."""
    for call in attempts:
        if _same_token(call, token_digest):
            return call
    raise errors.TokenMismatchError(
        "the attempt token is not one that reserved this call", call_id=attempts[-1].call_id
    )


def is_overdue(call: Call, now: int) -> bool:
    """Whether the lease is over and neither a receipt nor a hold came."""
    return call.state is CallState.RESERVED and call.lease_expires_at <= now


def expire(call: Call, now: int) -> Call:
    """Turn an overdue reservation into a hold that keeps the whole amount."""
    if not is_overdue(call, now):
        raise ValueError("the lease is not over")
    return replace(call, state=CallState.HELD, hold=HoldFacts(HoldCategory.LEASE_EXPIRED), changed_at=now)


def record_receipt(call: Call, receipt: ReceiptFacts, cost_nanos: int | None, now: int) -> Call:
    """Store a receipt and charge it, or hold the call where the cost is not known (None) or above the reservation.

    The same receipt again gives the call unchanged. A receipt for a call whose lease ended is late evidence and counts
    the same. Raises AlreadyChargedError, ReceiptConflictError, AlreadyHeldError or AlreadyResolvedError.
    """
    if call.receipt is not None and call.receipt.same_inputs(receipt):
        return call
    _refuse_receipt(call)
    stored = replace(receipt, late=True) if call.state is CallState.HELD else receipt
    if cost_nanos is None:
        facts = HoldFacts(HoldCategory.COST_UNRESOLVED)
        return replace(call, state=CallState.HELD, hold=facts, receipt=stored, changed_at=now)
    if cost_nanos > call.reserved_nanos:
        facts = HoldFacts(HoldCategory.COST_ABOVE_RESERVATION)
        return replace(
            call, state=CallState.HELD, hold=facts, receipt=stored, accounted_nanos=cost_nanos, changed_at=now
        )
    return _charged(call, stored, cost_nanos, now)


def _charged(call: Call, receipt: ReceiptFacts, nanos: int, now: int) -> Call:
    return replace(call, state=CallState.CHARGED, accounted_nanos=nanos, receipt=receipt, changed_at=now)


def _refuse_receipt(call: Call) -> None:
    """Raise where no receipt may be added to the call any more."""
    if call.state is CallState.CHARGED:
        raise errors.AlreadyChargedError("the call is charged with another receipt", call_id=call.call_id)
    if call.state is CallState.RESOLVED:
        raise _already_resolved(call)
    if call.receipt is not None:
        raise errors.ReceiptConflictError("the call has another receipt stored", call_id=call.call_id)
    if call.hold is not None and call.hold.category is not HoldCategory.LEASE_EXPIRED:
        raise _already_held(call, call.hold)


def hold(call: Call, facts: HoldFacts, now: int) -> Call:
    """Put a reserved call in doubt; its whole reservation stays set aside.

    The same hold again gives the call unchanged. Raises AlreadyChargedError, AlreadyHeldError or AlreadyResolvedError.
    """
    if call.hold == facts:
        return call
    if call.state is CallState.CHARGED:
        raise errors.AlreadyChargedError("the call is charged; there is nothing to hold", call_id=call.call_id)
    if call.state is CallState.RESOLVED:
        raise _already_resolved(call)
    if call.hold is not None:
        raise _already_held(call, call.hold)
    return replace(call, state=CallState.HELD, hold=facts, changed_at=now)


def resolve(call: Call, resolution: Resolution, now: int) -> Call:
    """Apply an operator's decision to a held call.

    A stored response proves that the call was sent and answers the slot for good, so that "never sent" and a new
    attempt are refused for it with ReceiptConflictError (design/architecture.md, I4). Raises NotHeldError and
    AlreadyResolvedError.
    """
    if call.state is CallState.RESOLVED:
        raise _already_resolved(call)
    if call.state is not CallState.HELD:
        raise errors.NotHeldError("only a held call can be resolved", call_id=call.call_id, state=call.state)
    if call.receipt is not None and (resolution.charged_nanos is None or resolution.opened_new_attempt):
        raise errors.ReceiptConflictError(
            "the call has a stored response: it was sent and needs no new attempt", call_id=call.call_id
        )
    charged = resolution.charged_nanos or 0
    return replace(call, state=CallState.RESOLVED, accounted_nanos=charged, resolution=resolution, changed_at=now)


def _already_held(call: Call, facts: HoldFacts) -> errors.AlreadyHeldError:
    return errors.AlreadyHeldError(
        "the call is held; an operator must resolve it", call_id=call.call_id, category=facts.category
    )


def _already_resolved(call: Call) -> errors.AlreadyResolvedError:
    return errors.AlreadyResolvedError("an operator has resolved the call; that is final", call_id=call.call_id)
