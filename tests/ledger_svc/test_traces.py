"""Mutations that go together over one stream stay in the traces of those who asked for them."""

import asyncio
from collections.abc import Iterator

import pytest
from opentelemetry.trace import StatusCode

from countersign.kit.channel import open_channel
from countersign.kit.ledger_stream import LedgerStream
from countersign.kit.observability import tracing
from countersign.kit.rpc_errors import ServiceError
from countersign.ledger.v1 import ledger_pb2 as pb
from ledger_svc.ledger import Ledger
from tests.countersign.kit.observability.recording import Recorded, attributes, ids, parent_of, recording
from tests.ledger_svc import support
from tests.ledger_svc.test_service import reserve, usd
from tests.ledger_svc.test_transact import serving

PREFIX = "countersign.ledger.v1.LedgerService"


@pytest.fixture
def recorded() -> Iterator[Recorded]:
    with recording() as recorded:
        yield recorded


async def test_each_mutation_of_one_message_belongs_to_its_own_caller(ledger: Ledger, recorded: Recorded) -> None:
    await ledger.submit(support.open_study(study_id="wide", max_in_flight=9))

    async def ask(number: int, stream: LedgerStream) -> None:
        with tracing.span(f"turn-{number}", parent=""):
            slot = pb.Slot(study_id="wide", episode_id=f"episode-{number}", turn=1)
            await stream.reserve(reserve(slot=slot), 5)

    async with serving(ledger) as (running, _), open_channel(running.address) as channel:
        stream = LedgerStream(channel)
        await asyncio.gather(*(ask(number, stream) for number in range(3)))
        await stream.close()
    turns = {ids(span)[0]: ids(span) for number in range(3) for span in recorded.spans(f"turn-{number}")}
    mutations = recorded.spans(f"{PREFIX}/Reserve")
    asked = {ids(span)[0]: span for span in mutations if span.kind.name == "CLIENT"}
    served = {ids(span)[0]: span for span in mutations if span.kind.name == "SERVER"}
    assert len(turns) == 3
    assert set(asked) == set(served) == set(turns)
    for trace, turn in turns.items():
        assert parent_of(asked[trace]) == turn
        assert parent_of(served[trace]) == ids(asked[trace])
    assert recorded.values("countersign_ledger_batch_mutations_sum")[()] == 4
    assert recorded.spans("Transact") == []


async def test_a_mutations_refusal_is_in_its_trace(ledger: Ledger, recorded: Recorded) -> None:
    async with serving(ledger) as (running, _), open_channel(running.address) as channel:
        stream = LedgerStream(channel)
        with pytest.raises(ServiceError), tracing.span("turn"):
            await stream.reserve(reserve(amount=usd(101)), 5)
        await stream.close()
    served = next(span for span in recorded.spans("Reserve") if span.kind.name == "SERVER")
    told = attributes(served)
    assert (told["error.type"], told["rpc.response.status_code"]) == ("STUDY_CAP_EXCEEDED", "RESOURCE_EXHAUSTED")
    assert served.status.status_code is StatusCode.UNSET


async def test_a_trace_context_that_is_none_hinders_no_mutation(ledger: Ledger, recorded: Recorded) -> None:
    async with serving(ledger) as (_, stub):
        mutation = pb.Mutation(correlation_id=1, reserve=reserve(), traceparent="\x7f" * 1000)
        stream = stub.Transact(iter([pb.TransactRequest(mutations=[mutation])]))
        replies = [reply async for response in stream for reply in response.replies]
    assert [reply.WhichOneof("reply") for reply in replies] == ["reserve"]
