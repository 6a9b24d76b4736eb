"""The coalescing client against a scripted ledger: messages, deadlines, broken streams, refusals, closing."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import pytest

from countersign.kit import ledger_stream, limits
from countersign.kit.channel import open_channel
from countersign.kit.errors import InvalidArgument
from countersign.kit.ledger_stream import LedgerStream
from countersign.kit.rpc_errors import ServiceError
from countersign.kit.server import RunningServer, ServiceSpec, start_server
from countersign.ledger.v1 import ledger_pb2 as pb
from countersign.ledger.v1 import ledger_pb2_grpc

FULL_NAME = pb.DESCRIPTOR.services_by_name["LedgerService"].full_name
TIMEOUT = 20.0


def reserve(turn: int) -> pb.ReserveRequest:
    return pb.ReserveRequest(slot=pb.Slot(study_id="study", episode_id="episode", turn=turn), request=b"x" * 100)


def admitted(mutation: pb.Mutation) -> pb.MutationReply:
    """The reply whose attempt tells the request's turn."""
    admission = pb.Admission(attempt=mutation.reserve.slot.turn)
    return pb.MutationReply(correlation_id=mutation.correlation_id, reserve=pb.ReserveResponse(admission=admission))


class Scripted(ledger_pb2_grpc.LedgerServiceServicer):
    """Notes each message and answers it as it is told; waits for `gate` first."""

    def __init__(self) -> None:
        self.messages: list[list[int]] = []
        self.streams_count = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.arrived = asyncio.Event()
        self.answer: Callable[[pb.TransactRequest], pb.TransactResponse] = lambda message: pb.TransactResponse(
            replies=[admitted(mutation) for mutation in reversed(message.mutations)]
        )

    async def Transact(
        self, request_iterator: AsyncIterator[pb.TransactRequest], context: Any
    ) -> AsyncIterator[pb.TransactResponse]:
        self.streams_count += 1
        async for message in request_iterator:
            self.messages.append([mutation.reserve.slot.turn for mutation in message.mutations])
            self.arrived.set()
            await self.gate.wait()
            yield self.answer(message)


@pytest.fixture
def scripted() -> Scripted:
    return Scripted()


def spec(servicer: Scripted) -> ServiceSpec:
    return ServiceSpec(
        "ledger", FULL_NAME, lambda server: ledger_pb2_grpc.add_LedgerServiceServicer_to_server(servicer, server)
    )


@pytest.fixture
async def server(scripted: Scripted) -> AsyncIterator[RunningServer]:
    running = await start_server(spec(scripted), "127.0.0.1:0")
    yield running
    await running.stop(0)


@pytest.fixture
async def client(server: RunningServer) -> AsyncIterator[LedgerStream]:
    async with open_channel(server.address) as channel:
        client = LedgerStream(channel)
        yield client
        await client.close()


async def unreachable(asking: Any, status: grpc.StatusCode) -> None:
    with pytest.raises(ServiceError) as failed:
        await asking
    assert failed.value.is_unreachable
    assert failed.value.status is status


async def test_what_is_asked_at_once_goes_in_one_message(scripted: Scripted, client: LedgerStream) -> None:
    answers = await asyncio.gather(*(client.reserve(reserve(turn), TIMEOUT) for turn in range(1, 101)))
    assert [answer.admission.attempt for answer in answers] == list(range(1, 101))
    assert scripted.messages == [list(range(1, 101))]


async def test_message_has_at_most_what_the_contract_allows(
    scripted: Scripted, client: LedgerStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_STREAM_BATCH", 40)
    await asyncio.gather(*(client.reserve(reserve(turn), TIMEOUT) for turn in range(1, 101)))
    assert [len(message) for message in scripted.messages] == [40, 40, 20]
    monkeypatch.setattr(limits, "MAX_STREAM_MESSAGE_BYTES", 300)
    await asyncio.gather(*(client.reserve(reserve(turn), TIMEOUT) for turn in range(1, 6)))
    assert [len(message) for message in scripted.messages[3:]] == [2, 2, 1]


async def test_mutation_larger_than_a_message_should_be_goes_alone(
    scripted: Scripted, client: LedgerStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_STREAM_MESSAGE_BYTES", 10)
    await asyncio.gather(*(client.reserve(reserve(turn), TIMEOUT) for turn in (1, 2)))
    assert scripted.messages == [[1], [2]]


async def test_one_stream_serves_one_caller_after_another(scripted: Scripted, client: LedgerStream) -> None:
    for turn in (1, 2, 3):
        assert (await client.reserve(reserve(turn), TIMEOUT)).admission.attempt == turn
    assert scripted.streams_count == 1


async def test_refusal_reaches_only_its_caller(scripted: Scripted, client: LedgerStream) -> None:
    def answer(message: pb.TransactRequest) -> pb.TransactResponse:
        first, second = message.mutations
        refusal = pb.Refusal(code=8, reason="BUDGET_EXHAUSTED", message="no", metadata={"available_nanos": "1"})
        refused = pb.MutationReply(correlation_id=first.correlation_id, refusal=refusal)
        return pb.TransactResponse(replies=[admitted(second), refused])

    scripted.answer = answer
    first, second = await asyncio.gather(
        *(client.reserve(reserve(turn), TIMEOUT) for turn in (1, 2)), return_exceptions=True
    )
    assert isinstance(first, ServiceError)
    assert (first.status, first.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "BUDGET_EXHAUSTED")
    assert (first.metadata, first.is_unreachable) == ({"available_nanos": "1"}, False)
    assert isinstance(second, pb.ReserveResponse)
    assert second.admission.attempt == 2


async def test_caller_whose_deadline_passes_is_alone_in_it(scripted: Scripted, client: LedgerStream) -> None:
    scripted.gate.clear()
    patient = asyncio.create_task(client.reserve(reserve(1), TIMEOUT))
    await unreachable(client.reserve(reserve(2), 0.01), grpc.StatusCode.DEADLINE_EXCEEDED)
    scripted.gate.set()
    assert (await patient).admission.attempt == 1
    assert (await client.reserve(reserve(3), TIMEOUT)).admission.attempt == 3
    assert scripted.streams_count == 1


async def test_caller_that_left_before_sending_is_not_sent(scripted: Scripted, client: LedgerStream) -> None:
    leaving = asyncio.create_task(client.reserve(reserve(1), TIMEOUT))
    staying = asyncio.create_task(client.reserve(reserve(2), TIMEOUT))
    first = asyncio.create_task(client.reserve(reserve(3), TIMEOUT))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.gather(staying, first)
    assert scripted.messages == [[2, 3]]


async def test_broken_stream_is_heard_of_by_all_who_wait_and_the_next_one_works(
    scripted: Scripted, server: RunningServer, client: LedgerStream
) -> None:
    scripted.gate.clear()
    asking = [asyncio.create_task(client.reserve(reserve(turn), TIMEOUT)) for turn in (1, 2)]
    await scripted.arrived.wait()
    await server.server.stop(0)
    for each in asking:
        await unreachable(each, grpc.StatusCode.UNAVAILABLE)
    await unreachable(client.reserve(reserve(3), TIMEOUT), grpc.StatusCode.UNAVAILABLE)
    scripted.gate.set()
    again = await start_server(spec(scripted), server.address)
    outcome: Any = None
    # The channel may take a moment to see that the server is back.
    while not isinstance(outcome, pb.ReserveResponse):
        (outcome,) = await asyncio.gather(client.reserve(reserve(4), TIMEOUT), return_exceptions=True)
        assert isinstance(outcome, pb.ReserveResponse) or outcome.is_unreachable
    assert outcome.admission.attempt == 4
    await client.close()
    await again.stop(0)


async def test_stream_that_the_ledger_refuses_gives_its_reason(scripted: Scripted, client: LedgerStream) -> None:
    def refuse(message: pb.TransactRequest) -> pb.TransactResponse:
        raise InvalidArgument("not like this", field="mutations")

    scripted.answer = refuse
    with pytest.raises(ServiceError) as refused:
        await client.reserve(reserve(1), TIMEOUT)
    assert (refused.value.reason, refused.value.is_unreachable) == ("INVALID_ARGUMENT", False)


async def test_reply_that_nobody_waits_for_is_left_alone(scripted: Scripted, client: LedgerStream) -> None:
    def answer(message: pb.TransactRequest) -> pb.TransactResponse:
        (mutation,) = message.mutations
        stray = pb.MutationReply(correlation_id=999)
        return pb.TransactResponse(replies=[stray, admitted(mutation), admitted(mutation)])

    scripted.answer = answer
    assert (await client.reserve(reserve(5), TIMEOUT)).admission.attempt == 5


async def test_closing_ends_the_waiting_and_refuses_the_rest(scripted: Scripted, client: LedgerStream) -> None:
    scripted.gate.clear()
    asking = asyncio.create_task(client.reserve(reserve(1), TIMEOUT))
    await scripted.arrived.wait()
    await client.close()
    await unreachable(asking, grpc.StatusCode.UNAVAILABLE)
    await client.close()
    await unreachable(client.reserve(reserve(2), TIMEOUT), grpc.StatusCode.CANCELLED)


def test_client_has_a_method_for_every_mutation() -> None:
    fields = {field.name for field in pb.Mutation.DESCRIPTOR.oneofs_by_name["request"].fields}
    assert fields <= set(vars(ledger_stream.LedgerStream))
