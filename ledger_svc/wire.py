"""The ledger's messages as domain types and back (protos/countersign/ledger/v1/ledger.proto); no rules beyond form."""

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from countersign.kit.money import Money, MoneyError
from countersign.kit.money_wire import from_wire, to_wire
from countersign.ledger.v1 import ledger_pb2 as pb
from ledger_svc import errors, limits
from ledger_svc.audit import Difference, Head
from ledger_svc.budgets import Account, Study, Totals
from ledger_svc.calls import Call, Cost, CostBasis, Resolution, Slot
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


def read_enum(wire: "_EnumTypeWrapper[Any]", domain: type[E], prefix: str, value: int, field: str) -> E:
    """The domain's member for an enum's wire value; raises InvalidArgumentError where it has none."""
    try:
        return domain(wire.Name(value).removeprefix(prefix))
    except ValueError:
        raise errors.InvalidArgumentError(f"{field} is not set or not known", field=field) from None


def read_slot(message: pb.Slot) -> Slot:
    """A well-formed slot; raises InvalidArgumentError."""
    checks.check_id("slot.study_id", message.study_id)
    checks.check_id("slot.episode_id", message.episode_id)
    checks.check_range("slot.turn", message.turn, 1, limits.MAX_UINT32)
    return Slot(message.study_id, message.episode_id, message.turn)


def read_cost(message: pb.Cost) -> Cost:
    """A cost as handed in."""
    basis = read_enum(pb.CostBasis, CostBasis, "COST_BASIS_", message.basis, "cost.basis")
    return Cost(basis, message.amount_text)


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


def write_time(micros: int) -> Timestamp:
    """A time of the ledger."""
    seconds, rest = divmod(micros, MICROS_PER_SECOND)
    return Timestamp(seconds=seconds, nanos=rest * 1_000)


def write_call(call: Call, currency: str) -> pb.Call:
    """A call without its payloads."""
    message = pb.Call(
        call_id=call.call_id,
        slot=pb.Slot(study_id=call.slot.study_id, episode_id=call.slot.episode_id, turn=call.slot.turn),
        attempt=call.attempt,
        state=pb.CallState.Value(f"CALL_STATE_{call.state}"),
        reserved=to_wire(Money(currency, call.reserved_nanos)),
        accounted=to_wire(Money(currency, call.accounted_nanos)),
        basis=pb.AmountBasis.Value(f"AMOUNT_BASIS_{call.basis}"),
        price_table_digest=call.price_table_digest,
        request_digest=call.request_digest,
        reserved_at=write_time(call.reserved_at),
        lease_expires_at=write_time(call.lease_expires_at),
        changed_at=write_time(call.changed_at),
    )
    if call.receipt is not None:
        message.response_digest = call.receipt.response_digest
        message.cost.CopyFrom(_write_cost(call.receipt.cost))
    if call.hold is not None:
        message.hold_category = pb.HoldCategory.Value(f"HOLD_CATEGORY_{call.hold.category}")
        message.progress = pb.RequestProgress.Value(f"REQUEST_PROGRESS_{call.hold.progress}")
        if call.hold.http_status is not None:
            message.http_status = call.hold.http_status
    if call.resolution is not None:
        message.resolution.CopyFrom(_write_resolution(call.resolution, currency))
    return message


def _write_cost(cost: Cost) -> pb.Cost:
    return pb.Cost(basis=pb.CostBasis.Value(f"COST_BASIS_{cost.basis}"), amount_text=cost.amount_text)


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
    message = pb.Receipt(
        call_id=receipt.call.call_id,
        attempt=receipt.call.attempt,
        request=receipt.request,
        request_digest=receipt.call.request_digest,
    )
    if receipt.facts is not None:
        message.http_status = receipt.facts.http_status
        message.response = receipt.response
        message.response_digest = receipt.facts.response_digest
        message.cost.CopyFrom(_write_cost(receipt.facts.cost))
        message.received_at.CopyFrom(write_time(receipt.facts.received_at))
        message.late = receipt.facts.late
    return message


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
    return pb.JournalEntry(
        account_id=entry.account_id,
        sequence=entry.sequence,
        kind=entry.kind,
        body=entry.body,
        body_digest=entry.body_digest,
        previous_chain_digest=entry.previous_chain,
        chain_digest=entry.chain,
        written_at=write_time(entry.at),
    )
