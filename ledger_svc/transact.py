"""`Transact`: many mutations over one stream (protos/countersign/ledger/v1/ledger.proto, Transact).

Each message's mutations enter the writer together, in parts, and each is decided by itself, in order. A part is
answered as soon as it is durable. A refusal is a reply. What was taken from a stream is carried out whatever becomes of
the stream: asked again, it is found.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
import structlog

from countersign.kit.access import require
from countersign.kit.errors import CountersignError
from countersign.kit.observability import tracing
from countersign.kit.observability.rpc import end_refused, rpc_attributes, status_name
from countersign.kit.observability.tracing import NO_SPAN, Kind, Span
from countersign.ledger.v1 import ledger_pb2 as pb
from ledger_svc import errors, limits
from ledger_svc.commands.base import Command
from ledger_svc.commands.reservations import Answered
from ledger_svc.ledger import Ledger
from ledger_svc.mutations import BY_FIELD

log = structlog.get_logger()

_SERVICE_NAME = pb.DESCRIPTOR.services_by_name["LedgerService"].full_name


async def transact(
    ledger: Ledger, requests: AsyncIterable[pb.TransactRequest], draining: asyncio.Event
) -> AsyncGenerator[pb.TransactResponse, None]:
    """The replies to a stream's messages, as they become durable, until the stream ends or `draining` is set.

    At most `limits.MAX_STREAM_MESSAGES` messages are under way; the next one is read when one of them is answered.
    """
    session = _Session(ledger)
    reading = asyncio.create_task(session.read(_until(requests, draining)))
    try:
        while (response := await session.responses.get()) is not None:
            yield response
        await reading
    finally:
        reading.cancel()


async def _until(messages: AsyncIterable[pb.TransactRequest], end: asyncio.Event) -> AsyncIterator[pb.TransactRequest]:
    """The messages, until they or the event end it."""
    iterator = aiter(messages)
    ending = asyncio.create_task(end.wait())
    reading: asyncio.Task[pb.TransactRequest | None] | None = None
    try:
        while True:
            reading = asyncio.create_task(_next(iterator))
            await asyncio.wait((reading, ending), return_when=asyncio.FIRST_COMPLETED)
            message = reading.result() if reading.done() else None
            if message is None:
                return
            yield message
    finally:
        ending.cancel()
        if reading is not None:
            reading.cancel()


async def _next(iterator: AsyncIterator[pb.TransactRequest]) -> pb.TransactRequest | None:
    return await anext(iterator, None)


@dataclass(slots=True)
class _Message:
    """A message's mutations: those that are commands, with their numbers, and the replies to the others."""

    refused: pb.TransactResponse = field(default_factory=pb.TransactResponse)
    ids: list[int] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    commands: list[Command[Any]] = field(default_factory=list)


class _Session:
    """One stream. `responses` ends with None."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._room = asyncio.Semaphore(limits.MAX_STREAM_MESSAGES)
        self.responses: asyncio.Queue[pb.TransactResponse | None] = asyncio.Queue()

    async def read(self, messages: AsyncIterator[pb.TransactRequest]) -> None:
        """Take messages as long as there is room, and end when all are answered."""
        try:
            async with asyncio.TaskGroup() as batches:
                async for message in messages:
                    await self._room.acquire()
                    batches.create_task(self._carry_out(message))
        finally:
            self.responses.put_nowait(None)

    async def _carry_out(self, message: pb.TransactRequest) -> None:
        try:
            taken = _read(message)
            self._send(taken.refused)
            names = iter(zip(taken.ids, taken.kinds, strict=True))
            spans = iter(taken.spans)
            async for outcomes in self._parts(taken.commands):
                for outcome in outcomes:
                    _end(next(spans), outcome)
                await self._answer([(*next(names), outcome) for outcome in outcomes])
        finally:
            self._room.release()

    async def _parts(self, commands: Sequence[Command[Any]]) -> AsyncIterator[Sequence[Any]]:
        """An answer or an exception for each command, part by part; where the queue takes none, that for each."""
        try:
            async for outcomes in self._ledger.submit_parts(commands):
                yield outcomes
        except CountersignError as error:
            yield [error] * len(commands)

    async def _answer(self, outcomes: Sequence[tuple[int, str, Any]]) -> None:
        response = pb.TransactResponse()
        answered: list[tuple[int, str, Answered]] = []
        for number, kind, outcome in outcomes:
            if isinstance(outcome, Answered):
                answered.append((number, kind, outcome))
            else:
                _reply(response, number, kind, outcome)
        self._send(response)
        for number, kind, answer in answered:
            await self._send_stored(number, kind, answer)

    async def _send_stored(self, number: int, kind: str, answer: Answered) -> None:
        """Reply with a stored receipt in a message of its own: several could be too large for one."""
        try:
            stored: Any = await self._ledger.complete(answer)
        except Exception as error:  # noqa: BLE001 - each caller hears of it as a unary caller would
            stored = _refusal(error)
        response = pb.TransactResponse()
        _reply(response, number, kind, stored)
        self._send(response)

    def _send(self, response: pb.TransactResponse) -> None:
        if response.replies:
            self.responses.put_nowait(response)


def _read(message: pb.TransactRequest) -> _Message:
    """Make the commands; what none can be made of is refused at once."""
    taken = _Message()
    too_many = len(message.mutations) > limits.MAX_STREAM_BATCH
    for mutation in message.mutations:
        try:
            if too_many:
                raise errors.InvalidArgumentError("a message has too many mutations", field="mutations")
            kind = mutation.WhichOneof("request")
            if kind is None:
                raise errors.InvalidArgumentError("request is missing", field="request")
            of_kind = BY_FIELD[kind]
            require(of_kind.method)
            taken.commands.append(of_kind.read(getattr(mutation, kind)))
        except Exception as error:  # noqa: BLE001 - one mutation's failure must not end the others' stream
            _refuse(taken.refused, mutation.correlation_id, _refusal(error))
        else:
            taken.ids.append(mutation.correlation_id)
            taken.kinds.append(kind)
            taken.spans.append(_begin(of_kind.method, mutation.traceparent))
    return taken


def _begin(method: str, traceparent: str) -> Span:
    """A mutation's span, in its caller's trace; none for a mutation that comes without one."""
    if not traceparent:
        return NO_SPAN
    name = f"{_SERVICE_NAME}/{method}"
    return tracing.begin(name, Kind.SERVER, rpc_attributes(name), traceparent)


def _end(span: Span, outcome: Any) -> None:
    """The mutation is decided: durable, or refused."""
    code = grpc.StatusCode.OK.name
    if isinstance(outcome, Exception):
        code = status_name(outcome)
        end_refused(span, code, tracing.error_type(outcome))
    span.set({"rpc.response.status_code": code})
    span.end()


def _reply(response: pb.TransactResponse, number: int, kind: str, outcome: Any) -> None:
    if isinstance(outcome, Exception):
        _refuse(response, number, _refusal(outcome))
        return
    reply = response.replies.add(correlation_id=number)
    answer = getattr(reply, kind)
    # An answer that has nothing but defaults is an answer all the same.
    answer.SetInParent()
    BY_FIELD[kind].write(answer, outcome)


def _refuse(response: pb.TransactResponse, number: int, refusal: CountersignError) -> None:
    reply = response.replies.add(correlation_id=number).refusal
    reply.code = status_code(refusal.status)
    reply.reason = refusal.reason
    reply.message = refusal.message
    reply.metadata.update(refusal.metadata)


def status_code(status: grpc.StatusCode) -> int:
    """The number of a gRPC status."""
    code: int = status.value[0]
    return code


def _refusal(error: Exception) -> CountersignError:
    """The error as a unary caller would hear it: nothing of a foreign one but that it happened."""
    if isinstance(error, CountersignError):
        return error
    log.error("internal", method="Transact", exception=type(error).__name__)
    return CountersignError("internal error: the service's log has its kind")
