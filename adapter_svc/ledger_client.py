"""The ledger over gRPC. A mutation that could not be heard of is asked again under the same token: it is idempotent."""

import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

import grpc
import structlog
from google.protobuf.duration_pb2 import Duration

from adapter_svc.clock import Clock, LoopClock
from adapter_svc.ledger_port import (
    Admitted,
    CallState,
    Evidence,
    HoldCause,
    LedgerCall,
    Order,
    Slot,
    StoredAnswer,
)
from countersign.kit.channel import call
from countersign.kit.ledger_stream import LedgerStream
from countersign.kit.money_wire import from_wire, to_wire
from countersign.kit.rpc_errors import ServiceError
from countersign.ledger.v1 import ledger_pb2 as pb
from countersign.ledger.v1.ledger_pb2_grpc import LedgerServiceStub

T = TypeVar("T")
log = structlog.get_logger()

CALL_TIMEOUT_SECONDS = 10.0
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 2.0


class GrpcLedger:
    """Implements LedgerPort: mutations over one stream, which every turn of the adapter shares, reads one by one.

    `patience_seconds` is how long the ledger is asked again while it cannot be reached or cannot store; a receipt or a
    hold until its lease is over, if that is later, unless told to `hurry`.
    """

    def __init__(self, channel: grpc.aio.Channel, patience_seconds: float, clock: Clock | None = None) -> None:
        self._stub = LedgerServiceStub(channel)
        self._mutations = LedgerStream(channel)
        self._patience_seconds = patience_seconds
        self._clock = clock or LoopClock()
        self._hurried_at = math.inf

    async def close(self) -> None:
        """End the stream, before its channel is closed and once no turn needs it; doing so twice is harmless."""
        await self._mutations.close()

    async def reserve(self, order: Order, attempt_token: bytes) -> Admitted | StoredAnswer:
        """Set money aside for one request."""
        request = pb.ReserveRequest(
            slot=_slot(order.slot),
            attempt_token=attempt_token,
            amount=to_wire(order.amount),
            basis=pb.AmountBasis.Value(f"AMOUNT_BASIS_{order.basis}"),
            price_table_digest=order.price_table_digest,
            request=order.request,
            lease=Duration(seconds=order.lease_seconds),
        )
        answer = await self._insist(lambda: self._mutations.reserve(request, CALL_TIMEOUT_SECONDS))
        if answer.WhichOneof("answer") == "admission":
            # The ledger has begun to count before its answer came: the lease ends no later than this.
            lease_ends_at = self._clock.now() + order.lease_seconds
            return Admitted(answer.admission.call_id, answer.admission.attempt, lease_ends_at)
        receipt = answer.receipt
        attempts = await self._attempts(order.slot)
        known = next(attempt for attempt in attempts if attempt.attempt == receipt.attempt)
        return StoredAnswer(known, receipt.http_status, receipt.response)

    async def record_receipt(self, admitted: Admitted, attempt_token: bytes, evidence: Evidence) -> LedgerCall:
        """Store the provider's answer; the call is then CHARGED or HELD."""
        basis = pb.CostBasis.Value(f"COST_BASIS_{evidence.cost_basis or 'UNSPECIFIED'}")
        request = pb.RecordReceiptRequest(
            call_id=admitted.call_id,
            attempt_token=attempt_token,
            http_status=evidence.http_status,
            response=evidence.response,
            cost=pb.Cost(basis=basis, amount_text=evidence.cost_text),
        )
        answer = await self._insist(
            lambda: self._mutations.record_receipt(request, CALL_TIMEOUT_SECONDS), admitted.lease_ends_at
        )
        return _call(answer.call)

    async def hold(
        self, admitted: Admitted, attempt_token: bytes, cause: HoldCause, progress: str, http_status: int | None
    ) -> LedgerCall:
        """Put the call in doubt."""
        request = pb.HoldRequest(
            call_id=admitted.call_id,
            attempt_token=attempt_token,
            category=pb.HoldCategory.Value(f"HOLD_CATEGORY_{cause.value}"),
            progress=pb.RequestProgress.Value(f"REQUEST_PROGRESS_{progress}"),
            http_status=http_status,
        )
        answer = await self._insist(lambda: self._mutations.hold(request, CALL_TIMEOUT_SECONDS), admitted.lease_ends_at)
        return _call(answer.call)

    async def latest_call(self, slot: Slot) -> LedgerCall:
        """The slot's latest attempt."""
        return (await self._attempts(slot))[-1]

    async def _attempts(self, slot: Slot) -> list[LedgerCall]:
        request = pb.GetCallRequest(slot=_slot(slot))
        answer = await self._insist(lambda: call(self._stub.GetCall, request, CALL_TIMEOUT_SECONDS))
        return [_call(attempt) for attempt in answer.attempts]

    def hurry(self) -> None:
        """From now on, wait for the ledger no longer than `patience_seconds`, whatever a lease has left."""
        self._hurried_at = min(self._hurried_at, self._clock.now())

    async def _insist(self, ask: Callable[[], Awaitable[T]], lease_ends_at: float = -math.inf) -> T:
        begun_at = self._clock.now()
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                return await ask()
            except ServiceError as error:
                if not _may_pass(error) or self._clock.now() + pause > self._gives_up_at(begun_at, lease_ends_at):
                    raise
                log.warning("ledger_unreachable", status=error.status.name, pause_seconds=pause)
            await self._clock.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

    def _gives_up_at(self, begun_at: float, lease_ends_at: float) -> float:
        patient_until = max(begun_at + self._patience_seconds, lease_ends_at)
        return min(patient_until, max(begun_at, self._hurried_at) + self._patience_seconds)


def _may_pass(error: ServiceError) -> bool:
    return error.is_unreachable or error.reason == "STORE_UNAVAILABLE"


def _slot(slot: Slot) -> pb.Slot:
    return pb.Slot(study_id=slot.study_id, episode_id=slot.episode_id, turn=slot.turn)


def _call(message: pb.Call) -> LedgerCall:
    held = message.hold_category != pb.HOLD_CATEGORY_UNSPECIFIED
    category = pb.HoldCategory.Name(message.hold_category).removeprefix("HOLD_CATEGORY_") if held else ""
    return LedgerCall(
        call_id=message.call_id,
        turn=message.slot.turn,
        attempt=message.attempt,
        state=CallState(pb.CallState.Name(message.state).removeprefix("CALL_STATE_")),
        accounted=from_wire(message.accounted),
        request_digest=message.request_digest,
        response_digest=message.response_digest,
        hold_category=category,
    )
