"""Every mutation's way from its message to a command and back, in one table.

A unary call and a mutation on a stream both go through it, so that the two cannot differ.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from google.protobuf.message import Message

from countersign.kit.money_wire import to_wire
from countersign.ledger.v1 import ledger_pb2 as pb
from ledger_svc import errors, wire
from ledger_svc.calls import Call
from ledger_svc.commands.accounts import GrantBudget, OpenAccount, Opened, Recorded, RecordPriorSpend
from ledger_svc.commands.base import Command
from ledger_svc.commands.outcomes import Changed, Hold, RecordReceipt
from ledger_svc.commands.reservations import Admitted, Reserve
from ledger_svc.commands.resolutions import ResolveHold
from ledger_svc.commands.studies import OpenStudy
from ledger_svc.ledger import Ledger, StoredReceipt

Q = TypeVar("Q", bound=Message)
A = TypeVar("A", bound=Message)


@dataclass(frozen=True, slots=True)
class Mutation(Generic[Q, A]):
    """One kind of mutation.

    `method` is its unary call, `field` its name in `pb.Mutation` and `pb.MutationReply`. `read` makes the command or
    raises the refusal; `write` puts the ledger's answer into an empty response.
    """

    method: str
    field: str
    response: Callable[[], A]
    read: Callable[[Q], Command[Any]]
    write: Callable[[A, Any], None]

    async def carry_out(self, ledger: Ledger, request: Q) -> A:
        """The unary call: its response once the mutation is durable; raises its refusal."""
        answer = await ledger.complete(await ledger.submit(self.read(request)))
        response = self.response()
        self.write(response, answer)
        return response


def _read_open_account(request: pb.OpenAccountRequest) -> OpenAccount:
    return OpenAccount(request.request_id, request.account_id, request.currency_code, request.opened_by)


def _read_grant(request: pb.GrantBudgetRequest) -> GrantBudget:
    amount = wire.read_money(request, "amount")
    return GrantBudget(request.request_id, request.account_id, amount, request.granted_by, request.reason)


def _read_prior_spend(request: pb.RecordPriorSpendRequest) -> RecordPriorSpend:
    amount = wire.read_money(request, "amount")
    return RecordPriorSpend(request.request_id, request.account_id, amount, request.recorded_by, request.reason)


def _read_open_study(request: pb.OpenStudyRequest) -> OpenStudy:
    return OpenStudy(
        request_id=request.request_id,
        account_id=request.account_id,
        study_id=request.study_id,
        cap=wire.read_money(request, "cap"),
        manifest_digest=request.manifest_digest,
        opened_by=request.opened_by,
        call_ceiling=wire.read_optional_money(request, "call_ceiling"),
        max_in_flight=request.max_in_flight if request.HasField("max_in_flight") else 1,
    )


def _read_reserve(request: pb.ReserveRequest) -> Reserve:
    return Reserve(
        slot=wire.slot_of(request.slot),
        attempt_token=request.attempt_token,
        amount=wire.read_money(request, "amount"),
        basis=wire.read_amount_basis(request.basis),
        price_table_digest=request.price_table_digest,
        request=request.request,
        lease_micros=wire.read_duration_micros(request.lease),
    )


def _read_receipt(request: pb.RecordReceiptRequest) -> RecordReceipt:
    return RecordReceipt(
        call_id=request.call_id,
        attempt_token=request.attempt_token,
        http_status=request.http_status,
        response=request.response,
        cost=wire.read_cost(request.cost),
    )


def _read_hold(request: pb.HoldRequest) -> Hold:
    return Hold(request.call_id, request.attempt_token, wire.read_hold_facts(request))


def _read_resolve(request: pb.ResolveHoldRequest) -> ResolveHold:
    if request.WhichOneof("disposition") is None:
        raise errors.InvalidArgumentError("disposition is missing: charged or never_sent", field="disposition")
    return ResolveHold(
        request_id=request.request_id,
        call_id=request.call_id,
        attempt=request.attempt,
        charged=wire.read_optional_money(request, "charged"),
        evidence=request.evidence,
        resolved_by=request.resolved_by,
        open_new_attempt=request.open_new_attempt,
    )


def _write_opened(response: pb.OpenAccountResponse | pb.OpenStudyResponse, answer: Opened) -> None:
    response.replayed = answer.replayed


def _write_granted(response: pb.GrantBudgetResponse, answer: Recorded) -> None:
    response.replayed = answer.replayed
    response.granted_total.CopyFrom(to_wire(answer.total))


def _write_prior_spend(response: pb.RecordPriorSpendResponse, answer: Recorded) -> None:
    response.replayed = answer.replayed
    response.prior_spend_total.CopyFrom(to_wire(answer.total))


def _write_reserved(response: pb.ReserveResponse, answer: Admitted | StoredReceipt) -> None:
    if isinstance(answer, Admitted):
        _fill_admission(response.admission, answer.call, answer.replayed)
    else:
        wire.fill_receipt(response.receipt, answer)


def _fill_admission(admission: pb.Admission, call: Call, replayed: bool) -> None:
    admission.call_id = call.call_id
    admission.attempt = call.attempt
    wire.fill_time(admission.lease_expires_at, call.lease_expires_at)
    admission.replayed = replayed


def _write_changed(
    response: pb.RecordReceiptResponse | pb.HoldResponse | pb.ResolveHoldResponse, answer: Changed
) -> None:
    response.replayed = answer.replayed
    wire.fill_call(response.call, answer.call, answer.currency)


OPEN_ACCOUNT = Mutation("OpenAccount", "open_account", pb.OpenAccountResponse, _read_open_account, _write_opened)
GRANT_BUDGET = Mutation("GrantBudget", "grant_budget", pb.GrantBudgetResponse, _read_grant, _write_granted)
RECORD_PRIOR_SPEND = Mutation(
    "RecordPriorSpend", "record_prior_spend", pb.RecordPriorSpendResponse, _read_prior_spend, _write_prior_spend
)
OPEN_STUDY = Mutation("OpenStudy", "open_study", pb.OpenStudyResponse, _read_open_study, _write_opened)
RESERVE = Mutation("Reserve", "reserve", pb.ReserveResponse, _read_reserve, _write_reserved)
RECORD_RECEIPT = Mutation("RecordReceipt", "record_receipt", pb.RecordReceiptResponse, _read_receipt, _write_changed)
HOLD = Mutation("Hold", "hold", pb.HoldResponse, _read_hold, _write_changed)
RESOLVE_HOLD = Mutation("ResolveHold", "resolve_hold", pb.ResolveHoldResponse, _read_resolve, _write_changed)

ALL: tuple[Mutation[Any, Any], ...] = (
    OPEN_ACCOUNT,
    GRANT_BUDGET,
    RECORD_PRIOR_SPEND,
    OPEN_STUDY,
    RESERVE,
    RECORD_RECEIPT,
    HOLD,
    RESOLVE_HOLD,
)
"""Every kind of mutation that the contract has."""

BY_FIELD = {mutation.field: mutation for mutation in ALL}
"""By its name in `pb.Mutation`."""
