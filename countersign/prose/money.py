"""The run as a call on the ledger: reserved before launch, its receipt after (design/native-harness.md, section 7)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.duration_pb2 import Duration

from countersign.adapter.v1 import adapter_pb2 as adapter_pb
from countersign.kit.canonical import canonical_json
from countersign.kit.channel import call
from countersign.kit.money import Money
from countersign.kit.money_wire import to_wire
from countersign.kit.rpc_errors import ServiceError
from countersign.ledger.v1 import ledger_pb2 as pb
from countersign.ledger.v1 import ledger_pb2_grpc
from countersign.prose.codes import Code, ProseError
from countersign.prose.pricing import PriceTable
from countersign.study.services import is_failure

CALL_SECONDS: Final = 20.0
MARGIN_SECONDS: Final = 600
"""Of the lease, beyond the run's own timeout: to stop the child, to judge, to hand in."""
MAX_LEASE_SECONDS: Final = 24 * 3600
TOKEN_BYTES: Final = 32
RECEIPT_STATUS: Final = 200
"""A receipt is an answer that was received whole: the run's outcome is in its body."""
BASES: Final[Mapping[int, str]] = {
    pb.COST_BASIS_PROVIDER_REPORTED: "provider-reported",
    pb.COST_BASIS_PRICED_USAGE: "priced-usage",
}
RECEIPT_SCHEMA: Final = "countersign.run-receipt/1"


@dataclass(frozen=True, slots=True)
class Reservation:
    """A call that money is set aside for."""

    study: str
    episode: str
    call_id: bytes
    token: bytes
    amount: Money


async def reserve(
    stub: ledger_pb2_grpc.LedgerServiceStub,
    study: str,
    invocation: str,
    amount: Money,
    request: bytes,
    timeout_seconds: int,
    token: bytes,
) -> Reservation:
    """Set `amount` aside for the run. Raises ProseError: INVOCATION_INVALID where the ledger refuses."""
    lease = min(timeout_seconds + MARGIN_SECONDS, MAX_LEASE_SECONDS)
    asked = pb.ReserveRequest(
        slot=pb.Slot(study_id=study, episode_id=invocation, turn=1),
        attempt_token=token,
        amount=to_wire(amount),
        basis=pb.AMOUNT_BASIS_FLAT,
        request=request,
        lease=Duration(seconds=lease),
    )
    try:
        answer = await call(stub.Reserve, asked, CALL_SECONDS)
    except ServiceError as error:
        reason = error.reason or error.status.name
        if is_failure(error):
            raise ProseError(Code.INTERNAL_ERROR, f"the ledger did not reserve the run: {reason}") from None
        raise ProseError(Code.INVOCATION_INVALID, f"the ledger refuses the run: {reason}") from None
    if answer.WhichOneof("answer") != "admission":
        raise ProseError(Code.INTERNAL_ERROR, "the ledger knows this run already")
    return Reservation(study, invocation, answer.admission.call_id, token, amount)


@dataclass(frozen=True, slots=True)
class RunCost:
    """What a run is charged, in US dollars as decimal text; without an amount it is held, and `trouble` says why."""

    amount: str | None
    basis: "pb.CostBasis.ValueType" = pb.COST_BASIS_UNSPECIFIED
    trouble: str | None = None


def cost_of(
    facts: adapter_pb.NativeFacts,
    prices: PriceTable | None,
    requested_model: str | None,
    *,
    stopped: bool,
    error: ProseError | None,
) -> RunCost:
    """The cost by what the stream states.

    A reported cost is final where the harness ended by its own terminal event, and was not stopped before. Usage is
    priced for a run without an error alone: what else was asked of the provider, the stream does not tell then. The
    model is the one that the stream states, and the requested one where it states none.
    """
    if stopped or not facts.HasField("terminal_record"):
        return RunCost(None, trouble="the harness did not end by its own terminal event")
    if facts.HasField("reported_cost_text"):
        return RunCost(facts.reported_cost_text, pb.COST_BASIS_PROVIDER_REPORTED)
    if prices is None:
        return RunCost(None, trouble="the harness reports no cost, and there are no --prices")
    if error is not None:
        return RunCost(None, trouble="the usage of a run that failed may not be all of it")
    model = facts.model or requested_model
    if not model:
        return RunCost(None, trouble="neither the stream nor --model names the model")
    priced = prices.price(model, facts.usage)
    if priced.amount is None:
        return RunCost(None, trouble=priced.trouble)
    return RunCost(priced.amount, pb.COST_BASIS_PRICED_USAGE)


async def settle(
    stub: ledger_pb2_grpc.LedgerServiceStub, reservation: Reservation, receipt: Mapping[str, Any], cost: RunCost
) -> dict[str, Any]:
    """Hand the receipt in; what the result says of the call. Without an amount the call is held."""
    asked = pb.RecordReceiptRequest(
        call_id=reservation.call_id,
        attempt_token=reservation.token,
        http_status=RECEIPT_STATUS,
        response=canonical_json({"schema": RECEIPT_SCHEMA, **receipt}),
        cost=pb.Cost(basis=cost.basis, amount_text=cost.amount or ""),
    )
    try:
        answer = await call(stub.RecordReceipt, asked, CALL_SECONDS)
    except ServiceError as error:
        return about(reservation, None, error.reason or error.status.name, cost)
    return about(reservation, answer.call, cost.trouble, cost)


async def hold(stub: ledger_pb2_grpc.LedgerServiceStub, reservation: Reservation, *, launched: bool) -> dict[str, Any]:
    """There is no receipt: the call is in doubt until an operator resolves it."""
    asked = pb.HoldRequest(
        call_id=reservation.call_id,
        attempt_token=reservation.token,
        category=pb.HOLD_CATEGORY_TRANSPORT_UNKNOWN,
        progress=pb.REQUEST_PROGRESS_UNSPECIFIED if launched else pb.REQUEST_PROGRESS_NOT_CONNECTED,
    )
    try:
        answer = await call(stub.Hold, asked, CALL_SECONDS)
    except ServiceError as error:
        return about(reservation, None, error.reason or error.status.name)
    return about(reservation, answer.call, None)


def about(
    reservation: Reservation, state: pb.Call | None, trouble: str | None, cost: RunCost | None = None
) -> dict[str, Any]:
    """The call as the result states it. Unsettled: the money stays set aside, and is held when the lease ends."""
    name = "unsettled" if state is None else pb.CallState.Name(state.state).removeprefix("CALL_STATE_").lower()
    category = "" if state is None or not state.hold_category else pb.HoldCategory.Name(state.hold_category)
    return {
        "study": reservation.study,
        "episode": reservation.episode,
        "turn": 1,
        "call_id": reservation.call_id.hex(),
        "reserved": str(reservation.amount),
        "state": name,
        "cost_usd": cost.amount if cost else None,
        "cost_basis": BASES.get(cost.basis) if cost else None,
        "hold_category": category.removeprefix("HOLD_CATEGORY_") or None,
        "trouble": trouble,
    }
