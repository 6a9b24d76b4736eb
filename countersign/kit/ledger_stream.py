"""A ledger's mutations over one stream: whatever is asked at the same time goes in one message.

Each mutation has exactly the semantics of its unary call (protos/countersign/ledger/v1/ledger.proto, Transact). Nothing
is asked twice by itself: a caller whose reply is lost hears that the ledger was unreachable, and asks again under the
same id or token.
"""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.message import Message

from countersign.kit import limits
from countersign.kit.observability import tracing
from countersign.kit.observability.rpc import rpc_attributes
from countersign.kit.rpc_errors import ServiceError, from_rpc_error
from countersign.ledger.v1 import ledger_pb2 as pb
from countersign.ledger.v1.ledger_pb2_grpc import LedgerServiceStub

if TYPE_CHECKING:
    Stream = grpc.aio.StreamStreamCall[pb.TransactRequest, pb.TransactResponse]
else:
    # Generic in the type stubs only.
    Stream = grpc.aio.StreamStreamCall

_SERVICE_NAME = pb.DESCRIPTOR.services_by_name["LedgerService"].full_name
_SPAN_NAMES = {
    field.name: f"{_SERVICE_NAME}/{field.message_type.name.removesuffix('Request')}"
    for field in pb.Mutation.DESCRIPTOR.oneofs_by_name["request"].fields
    if field.message_type is not None
}
"""Each mutation's unary call, by its name in `pb.Mutation`."""

_SPAN_ATTRIBUTES = {kind: rpc_attributes(name) for kind, name in _SPAN_NAMES.items()}
_STATUS_OF_CODE = {status.value[0]: status for status in grpc.StatusCode}


@dataclass(slots=True)
class _Outgoing:
    """A message that waits to be sent and takes more mutations meanwhile; how large it is."""

    message: pb.TransactRequest = field(default_factory=pb.TransactRequest)
    count: int = 0
    size_bytes: int = 0

    def has_room_for(self, size_bytes: int) -> bool:
        """Whether it takes one more mutation of that size; an empty one takes any."""
        if self.count == 0:
            return True
        return self.count < limits.MAX_STREAM_BATCH and self.size_bytes + size_bytes <= limits.MAX_STREAM_MESSAGE_BYTES


class LedgerStream:
    """Mutations over a channel, for any number of concurrent callers. Ask and close on one event loop.

    Every method takes how long its caller waits, in seconds, and raises ServiceError: a refusal as the unary call would
    give it, or one that `is_unreachable`, when the mutation may have been carried out. The stream is opened when it is
    first needed, and again after it has broken.
    """

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = LedgerServiceStub(channel)
        self._waiting: dict[int, asyncio.Future[pb.MutationReply]] = {}
        self._outbox: deque[_Outgoing] = deque()
        self._something_to_send = asyncio.Event()
        self._last_number = 0
        self._closed = False
        self._running: asyncio.Task[None] | None = None

    async def open_account(self, request: pb.OpenAccountRequest, timeout_seconds: float) -> pb.OpenAccountResponse:
        """As the unary call OpenAccount."""
        return (await self._ask("open_account", request, timeout_seconds)).open_account

    async def grant_budget(self, request: pb.GrantBudgetRequest, timeout_seconds: float) -> pb.GrantBudgetResponse:
        """As the unary call GrantBudget."""
        return (await self._ask("grant_budget", request, timeout_seconds)).grant_budget

    async def record_prior_spend(
        self, request: pb.RecordPriorSpendRequest, timeout_seconds: float
    ) -> pb.RecordPriorSpendResponse:
        """As the unary call RecordPriorSpend."""
        return (await self._ask("record_prior_spend", request, timeout_seconds)).record_prior_spend

    async def open_study(self, request: pb.OpenStudyRequest, timeout_seconds: float) -> pb.OpenStudyResponse:
        """As the unary call OpenStudy."""
        return (await self._ask("open_study", request, timeout_seconds)).open_study

    async def reserve(self, request: pb.ReserveRequest, timeout_seconds: float) -> pb.ReserveResponse:
        """As the unary call Reserve."""
        return (await self._ask("reserve", request, timeout_seconds)).reserve

    async def record_receipt(
        self, request: pb.RecordReceiptRequest, timeout_seconds: float
    ) -> pb.RecordReceiptResponse:
        """As the unary call RecordReceipt."""
        return (await self._ask("record_receipt", request, timeout_seconds)).record_receipt

    async def hold(self, request: pb.HoldRequest, timeout_seconds: float) -> pb.HoldResponse:
        """As the unary call Hold."""
        return (await self._ask("hold", request, timeout_seconds)).hold

    async def resolve_hold(self, request: pb.ResolveHoldRequest, timeout_seconds: float) -> pb.ResolveHoldResponse:
        """As the unary call ResolveHold."""
        return (await self._ask("resolve_hold", request, timeout_seconds)).resolve_hold

    async def close(self) -> None:
        """End the stream; whoever still waits hears that the ledger is unreachable. Doing so twice is harmless."""
        self._closed = True
        running = self._running
        if running is not None:
            running.cancel()
            await asyncio.wait((running,))
        self._fail(ServiceError(grpc.StatusCode.CANCELLED, "", "the stream was closed", {}))

    async def _ask(self, kind: str, request: Message, timeout_seconds: float) -> pb.MutationReply:
        with tracing.span(_SPAN_NAMES[kind], tracing.Kind.CLIENT, _SPAN_ATTRIBUTES[kind]):
            return await self._asked(kind, request, timeout_seconds)

    async def _asked(self, kind: str, request: Message, timeout_seconds: float) -> pb.MutationReply:
        if self._closed:
            raise ServiceError(grpc.StatusCode.CANCELLED, "", "the stream was closed", {})
        loop = asyncio.get_running_loop()
        number = self._last_number = self._last_number + 1
        reply = self._waiting[number] = loop.create_future()
        self._put(number, kind, request)
        self._something_to_send.set()
        if self._running is None:
            self._running = asyncio.create_task(self._run(), name="ledger-stream")
        timer = loop.call_later(timeout_seconds, self._expire, number)
        try:
            return _answer(await reply)
        finally:
            timer.cancel()
            self._waiting.pop(number, None)

    def _put(self, number: int, kind: str, request: Message) -> None:
        """Write a mutation where it is sent from: a second copy would cost as much as all else here."""
        size_bytes = request.ByteSize()
        if not self._outbox or not self._outbox[-1].has_room_for(size_bytes):
            self._outbox.append(_Outgoing())
        outgoing = self._outbox[-1]
        mutation = outgoing.message.mutations.add(correlation_id=number)
        getattr(mutation, kind).CopyFrom(request)
        if tracing.is_on():
            mutation.traceparent = tracing.traceparent()
        outgoing.count += 1
        outgoing.size_bytes += size_bytes

    def _expire(self, number: int) -> None:
        reply = self._waiting.get(number)
        if reply is not None and not reply.done():
            reply.set_exception(ServiceError(grpc.StatusCode.DEADLINE_EXCEEDED, "", "no reply within the deadline", {}))

    async def _run(self) -> None:
        """One stream, until it ends; then all who wait hear of it, and the next who asks opens another."""
        ended = ServiceError(grpc.StatusCode.UNAVAILABLE, "", "the ledger ended the stream", {})
        # The stream outlives whoever asks first, and carries the others' mutations too: each has a trace of its own.
        with tracing.detached():
            stream = self._stub.Transact()
        sending = asyncio.create_task(self._send(stream))
        try:
            async for response in stream:
                self._receive(response)
        except grpc.aio.AioRpcError as error:
            ended = from_rpc_error(error)
        finally:
            sending.cancel()
            await asyncio.wait((sending,))
            stream.cancel()
            self._running = None
            self._fail(ended)

    async def _send(self, stream: Stream) -> None:
        """Send what waits, together, as long as the stream takes it; the receiving side hears why it no longer does."""
        try:
            while True:
                await self._something_to_send.wait()
                self._something_to_send.clear()
                while self._outbox:
                    message = self._next_message()
                    if message.mutations:
                        await stream.write(message)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return

    def _next_message(self) -> pb.TransactRequest:
        """What waits, as much as one message takes; whoever has gone meanwhile is left out."""
        message = self._outbox.popleft().message
        gone = [
            index for index, mutation in enumerate(message.mutations) if mutation.correlation_id not in self._waiting
        ]
        for index in reversed(gone):
            del message.mutations[index]
        return message

    def _receive(self, response: pb.TransactResponse) -> None:
        for message in response.replies:
            reply = self._waiting.get(message.correlation_id)
            if reply is not None and not reply.done():
                reply.set_result(message)

    def _fail(self, error: ServiceError) -> None:
        self._outbox.clear()
        self._something_to_send.clear()
        for reply in self._waiting.values():
            if not reply.done():
                reply.set_exception(ServiceError(error.status, error.reason, error.message, error.metadata))


def _answer(reply: pb.MutationReply) -> pb.MutationReply:
    """The reply, or its refusal raised as the unary call would."""
    if not reply.HasField("refusal"):
        return reply
    refusal: Any = reply.refusal
    status = _STATUS_OF_CODE.get(refusal.code, grpc.StatusCode.UNKNOWN)
    raise ServiceError(status, refusal.reason, refusal.message, dict(refusal.metadata))
