"""What stands around a call: its span belongs to the caller's, its time is counted by method and status."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from opentelemetry.trace import SpanKind, StatusCode

from countersign.kit.channel import call, open_channel
from countersign.kit.observability import tracing
from countersign.kit.rpc_errors import ServiceError
from countersign.kit.server import start_server
from countersign.verifier.v1 import verifier_pb2 as pb
from countersign.verifier.v1 import verifier_pb2_grpc as stubs
from tests.countersign.kit.observability.recording import Recorded, attributes, ids, parent_of, recording
from tests.countersign.kit.test_server import FULL_NAME, Servicer, spec_of

COUNT = "countersign_rpc_seconds_count"


@pytest.fixture
def recorded() -> Iterator[Recorded]:
    with recording() as recorded:
        yield recorded


@asynccontextmanager
async def serving(servicer: Servicer | None = None) -> AsyncIterator[Any]:
    """A stub of a verifier that answers, refuses and fails."""
    running = await start_server(spec_of(servicer or Servicer()), "127.0.0.1:0")
    async with open_channel(running.address) as channel:
        yield stubs.VerifierServiceStub(channel)
    await running.stop(5)


async def test_a_call_belongs_to_what_its_caller_does(recorded: Recorded) -> None:
    async with serving() as stub:
        with tracing.span("caller"):
            await call(stub.AuditPacket, pb.AuditPacketRequest(), 5)
    served, caller = recorded.spans()
    assert (served.name, served.kind) == (f"{FULL_NAME}/AuditPacket", SpanKind.SERVER)
    assert parent_of(served) == ids(caller)
    assert attributes(served) == {
        "rpc.system.name": "grpc",
        "rpc.method": f"{FULL_NAME}/AuditPacket",
        "rpc.response.status_code": "OK",
    }
    assert recorded.values(COUNT) == {("VerifierService/AuditPacket", "OK"): 1}


@pytest.mark.parametrize(
    ("method", "request_", "code", "kind", "status"),
    [
        ("VerifyEpisode", pb.VerifyEpisodeRequest(), "INVALID_ARGUMENT", "INVALID_RECORD", StatusCode.UNSET),
        ("VerifyTrace", pb.VerifyTraceRequest(), "INTERNAL", "ValueError", StatusCode.ERROR),
    ],
)
async def test_a_refusal_is_told_and_a_fault_is_a_failure(
    recorded: Recorded, method: str, request_: Any, code: str, kind: str, status: Any
) -> None:
    async with serving() as stub:
        with pytest.raises(ServiceError):
            await call(getattr(stub, method), request_, 5)
    (span,) = recorded.spans()
    told = attributes(span)
    assert (told["error.type"], told["rpc.response.status_code"]) == (kind, code)
    assert span.status.status_code is status
    assert "secret" not in span.to_json()
    assert recorded.values(COUNT) == {(f"VerifierService/{method}", code): 1}


async def test_a_caller_that_goes_away_is_counted_as_that(recorded: Recorded) -> None:
    servicer = Servicer()
    async with serving(servicer) as stub:
        asking = stub.SolveComparator(pb.SolveComparatorRequest(), timeout=5)
        await servicer.entered.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    (span,) = recorded.spans()
    assert (attributes(span)["rpc.response.status_code"], span.status.status_code) == ("CANCELLED", StatusCode.UNSET)
    assert recorded.values(COUNT) == {("VerifierService/SolveComparator", "CANCELLED"): 1}


@pytest.mark.parametrize("traced", [True, False])
async def test_a_stream_of_both_sides_has_a_span_in_a_trace_only(recorded: Recorded, traced: bool) -> None:
    async with serving() as stub:
        around = tracing.span("caller") if traced else tracing.detached()
        with around:
            stream = stub.AnalyzeStudy(iter([pb.AnalyzeStudyRequest()]), timeout=5)
            with pytest.raises(grpc.aio.AioRpcError):
                async for _ in stream:
                    pass
    assert [span.name for span in recorded.spans()] == ([f"{FULL_NAME}/AnalyzeStudy", "caller"] if traced else [])
    assert recorded.values(COUNT) == {("VerifierService/AnalyzeStudy", "UNAVAILABLE"): 1}
