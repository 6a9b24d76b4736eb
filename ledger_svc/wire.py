"""The ledger's messages as domain types and back (protos/countersign/ledger/v1/ledger.proto); no rules beyond form."""

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from google.type import money_pb2

from countersign.kit.money import NANOS_PER_UNIT, Money, MoneyError
from countersign.kit.money_wire import from_wire, to_wire
from countersign.ledger.v1 import ledger_pb2 as pb
from ledger_svc import errors, limits
from ledger_svc.audit import Difference, Head
from ledger_svc.budgets import Account, Study, Totals
from ledger_svc.calls import (
    AmountBasis,
    Call,
    CallState,
    Cost,
    CostBasis,
    HoldCategory,
    HoldFacts,
    RequestProgress,
    Resolution,
    Slot,
)
from ledger_svc.commands import checks
from ledger_svc.journal import Entry
from ledger_svc.ledger import StoredReceipt

if TYPE_CHECKING:
    from google.protobuf.internal.enum_type_wrapper import _EnumTypeWrapper

E = TypeVar("E", bound=StrEnum)

MICROS_PER_SECOND = 1_000_000


def read_money(message: Message, field: str) -> Money:
    """The amount in a message's field; raises InvalidArgumentError where absent, InvalidAmountError where inexact."""
    if not message.HasField(field):
        raise errors.InvalidArgumentError(f"{field} is missing", field=field)
    try:
        return from_wire(getattr(message, field))
    except MoneyError:
        raise errors.InvalidAmountError(f"{field} is not an exact amount in range", field=field) from None


def read_optional_money(message: Message, field: str) -> Money | None:
    """As `read_money`, but None where the field is absent."""
    return read_money(message, field) if message.HasField(field) else None


def _members(wire: "_EnumTypeWrapper[Any]", domain: type[E], prefix: str) -> dict[int, E]:
    """The domain's member for each wire value that has one."""
    names = {name.removeprefix(prefix): value for name, value in wire.items()}
    return {names[member.value]: member for member in domain}


_AMOUNT_BASES = _members(pb.AmountBasis, AmountBasis, "AMOUNT_BASIS_")
_COST_BASES = _members(pb.CostBasis, CostBasis, "COST_BASIS_")
_STATES = _members(pb.CallState, CallState, "CALL_STATE_")
_CATEGORIES = _members(pb.HoldCategory, HoldCategory, "HOLD_CATEGORY_")
_PROGRESSES = _members(pb.RequestProgress, RequestProgress, "REQUEST_PROGRESS_")
_WIRE_AMOUNT_BASES: dict[AmountBasis, Any] = {member: value for value, member in _AMOUNT_BASES.items()}
_WIRE_COST_BASES: dict[CostBasis, Any] = {member: value for value, member in _COST_BASES.items()}
_WIRE_STATES: dict[CallState, Any] = {member: value for value, member in _STATES.items()}
_WIRE_CATEGORIES: dict[HoldCategory, Any] = {member: value for value, member in _CATEGORIES.items()}
_WIRE_PROGRESSES: dict[RequestProgress, Any] = {member: value for value, member in _PROGRESSES.items()}


def _member(members: dict[int, E], value: int, field: str) -> E:
    member = members.get(value)
    if member is None:
        raise errors.InvalidArgumentError(f"{field} is not set or not known", field=field)
    return member


def read_amount_basis(value: int) -> AmountBasis:
    """How a reservation's amount was found; raises InvalidArgumentError."""
    return _member(_AMOUNT_BASES, value, "basis")


def read_state(value: int) -> CallState:
    """A state to list calls by; raises InvalidArgumentError."""
    return _member(_STATES, value, "states")


def read_hold_facts(message: pb.HoldRequest) -> HoldFacts:
    """What a hold says; raises InvalidArgumentError."""
    return HoldFacts(
        _member(_CATEGORIES, message.category, "category"),
        _member(_PROGRESSES, message.progress, "progress"),
        message.http_status if message.HasField("http_status") else None,
    )


def read_slot(message: pb.Slot) -> Slot:
    """A well-formed slot; raises InvalidArgumentError."""
    slot = slot_of(message)
    checks.check_slot(slot)
    return slot


def slot_of(message: pb.Slot) -> Slot:
    """A slot as it was sent, for what checks its form itself."""
    return Slot(message.study_id, message.episode_id, message.turn)


def read_cost(message: pb.Cost) -> Cost:
    """A cost as handed in."""
    return Cost(_member(_COST_BASES, message.basis, "cost.basis"), message.amount_text)


def read_duration_micros(message: Duration) -> int:
    """A duration in whole microseconds, rounded down."""
    return message.seconds * MICROS_PER_SECOND + message.nanos // 1_000


def read_page_size(value: int) -> int:
    """A page's size; 0 means the default. Raises InvalidArgumentError."""
    if value == 0:
        return limits.DEFAULT_PAGE_SIZE
    checks.check_range("page_size", value, 1, limits.MAX_PAGE_SIZE)
    return value


def read_page_token(token: str) -> int:
    """The sequence after which a page begins; raises InvalidArgumentError for a token that no reply gave."""
    if not token:
        return 0
    if not (token.isascii() and token.isdigit() and len(token) <= 18):
        raise errors.InvalidArgumentError("page_token is not one of this service's", field="page_token")
    return int(token)


def write_page_token(sequence: int | None) -> str:
    """What to ask with for the next page; empty at the end."""
    return "" if sequence is None else str(sequence)


def fill_time(message: Timestamp, micros: int) -> None:
    """Write a time of the ledger into an empty message."""
    seconds, rest = divmod(micros, MICROS_PER_SECOND)
    message.seconds = seconds
    message.nanos = rest * 1_000


def fill_money(message: money_pb2.Money, currency: str, nanos: int) -> None:
    """Write an amount that is zero or above into an empty message."""
    message.currency_code = currency
    message.units, message.nanos = divmod(nanos, NANOS_PER_UNIT)


def write_call(call: Call, currency: str) -> pb.Call:
    """A call without its payloads."""
    message = pb.Call()
    fill_call(message, call, currency)
    return message


def fill_call(message: pb.Call, call: Call, currency: str) -> None:
    """Write a call, without its payloads, into an empty message."""
    message.call_id = call.call_id
    slot = message.slot
    slot.study_id, slot.episode_id, slot.turn = call.slot.study_id, call.slot.episode_id, call.slot.turn
    message.attempt = call.attempt
    message.state = _WIRE_STATES[call.state]
    fill_money(message.reserved, currency, call.reserved_nanos)
    fill_money(message.accounted, currency, call.accounted_nanos)
    message.basis = _WIRE_AMOUNT_BASES[call.basis]
    message.price_table_digest = call.price_table_digest
    message.request_digest = call.request_digest
    fill_time(message.reserved_at, call.reserved_at)
    fill_time(message.lease_expires_at, call.lease_expires_at)
    fill_time(message.changed_at, call.changed_at)
    if call.receipt is not None:
        message.response_digest = call.receipt.response_digest
        _fill_cost(message.cost, call.receipt.cost)
    if call.hold is not None:
        message.hold_category = _WIRE_CATEGORIES[call.hold.category]
        message.progress = _WIRE_PROGRESSES[call.hold.progress]
        if call.hold.http_status is not None:
            message.http_status = call.hold.http_status
    if call.resolution is not None:
        message.resolution.CopyFrom(_write_resolution(call.resolution, currency))


def _fill_cost(message: pb.Cost, cost: Cost) -> None:
    # A cost without basis and text is still there: the receipt was handed in with it.
    message.SetInParent()
    message.basis = _WIRE_COST_BASES[cost.basis]
    message.amount_text = cost.amount_text


def _write_resolution(resolution: Resolution, currency: str) -> pb.Resolution:
    charged = resolution.charged_nanos
    return pb.Resolution(
        charged=None if charged is None else to_wire(Money(currency, charged)),
        evidence=resolution.evidence,
        resolved_by=resolution.resolved_by,
        opened_new_attempt=resolution.opened_new_attempt,
    )


def write_receipt(receipt: StoredReceipt) -> pb.Receipt:
    """A receipt with its payloads; the request's alone where there is no response."""
    message = pb.Receipt()
    fill_receipt(message, receipt)
    return message


def fill_receipt(message: pb.Receipt, receipt: StoredReceipt) -> None:
    """Write a receipt as `write_receipt` does, into an empty message."""
    message.call_id = receipt.call.call_id
    message.attempt = receipt.call.attempt
    message.request = receipt.request
    message.request_digest = receipt.call.request_digest
    if receipt.facts is not None:
        message.http_status = receipt.facts.http_status
        message.response = receipt.response
        message.response_digest = receipt.facts.response_digest
        _fill_cost(message.cost, receipt.facts.cost)
        fill_time(message.received_at, receipt.facts.received_at)
        message.late = receipt.facts.late


def write_account_balances(account: Account) -> pb.Balances:
    """An account's balances."""
    return _write_balances(
        account.currency, account.totals, account.granted_nanos, account.prior_spend_nanos, account.available_nanos
    )


def write_study(study: Study, currency: str) -> pb.StudySummary:
    """A study's balances under its own cap."""
    return pb.StudySummary(
        study_id=study.study_id,
        balances=_write_balances(currency, study.totals, study.cap_nanos, 0, study.available_nanos),
        blocked=study.blocked,
        max_in_flight=study.max_in_flight,
        call_ceiling=to_wire(Money(currency, study.call_ceiling_nanos)),
        manifest_digest=study.manifest_digest,
    )


def _write_balances(
    currency: str, totals: Totals, granted_nanos: int, prior_spend_nanos: int, available_nanos: int
) -> pb.Balances:
    return pb.Balances(
        granted=to_wire(Money(currency, granted_nanos)),
        prior_spend=to_wire(Money(currency, prior_spend_nanos)),
        charged=to_wire(Money(currency, totals.charged.nanos)),
        reserved=to_wire(Money(currency, totals.reserved.nanos)),
        held=to_wire(Money(currency, totals.held.nanos)),
        resolved=to_wire(Money(currency, totals.resolved.nanos)),
        available=to_wire(Money(currency, available_nanos)),
        charged_count=totals.charged.count,
        reserved_count=totals.reserved.count,
        held_count=totals.held.count,
        resolved_count=totals.resolved.count,
    )


def write_difference(difference: Difference) -> pb.JournalDifference:
    """Where a journal and the stored state differ."""
    return pb.JournalDifference(
        account_id=difference.account_id,
        sequence=difference.sequence,
        what=difference.what,
        subject=difference.subject,
    )


def read_heads(messages: Iterable[pb.JournalHead], account_id: str) -> list[Head]:
    """Heads that were noted down, of `account_id` alone unless it is empty; raises InvalidArgumentError."""
    heads = [Head(message.account_id, message.sequence, message.chain_digest) for message in messages]
    for head in heads:
        checks.check_id("expected_heads.account_id", head.account_id)
        if account_id not in ("", head.account_id):
            raise errors.InvalidArgumentError("expected_heads is of another account", field="expected_heads.account_id")
        if len(head.chain) != (limits.DIGEST_BYTES if head.sequence else 0):
            raise errors.InvalidArgumentError(
                f"expected_heads.chain_digest must have {limits.DIGEST_BYTES} bytes, none for sequence 0",
                field="expected_heads.chain_digest",
            )
    return heads


def write_head(head: Head) -> pb.JournalHead:
    """Where a chain stands."""
    return pb.JournalHead(account_id=head.account_id, sequence=head.sequence, chain_digest=head.chain)


def write_entry(entry: Entry) -> pb.JournalEntry:
    """A journal entry as stored."""
    message = pb.JournalEntry(
        account_id=entry.account_id,
        sequence=entry.sequence,
        kind=entry.kind,
        body=entry.body,
        body_digest=entry.body_digest,
        previous_chain_digest=entry.previous_chain,
        chain_digest=entry.chain,
    )
    fill_time(message.written_at, entry.at)
    return message
