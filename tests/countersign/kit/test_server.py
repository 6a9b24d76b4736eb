"""The server and the channel: errors in and out, deadlines, health, reflection, draining, addresses."""

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from countersign.kit.address import BadAddress
from countersign.kit.channel import call, open_channel
from countersign.kit.errors import CountersignError
from countersign.kit.rpc_errors import ServiceError, from_rpc_error
from countersign.kit.server import RunningServer, ServiceSpec, start_server
from countersign.verifier.v1 import verifier_pb2 as pb
from countersign.verifier.v1 import verifier_pb2_grpc as stubs

FULL_NAME = "countersign.verifier.v1.VerifierService"


class Refusal(CountersignError):
    """A refusal for these tests."""

    reason = "INVALID_RECORD"
    status = grpc.StatusCode.INVALID_ARGUMENT


class Servicer(stubs.VerifierServiceServicer):
    """Answers, refuses, fails, waits."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.release = asyncio.Event()

    async def AuditPacket(self, request: pb.AuditPacketRequest, context: Any) -> pb.AuditPacketResponse:
        return pb.AuditPacketResponse(passed=True)

    async def VerifyTrace(self, request: pb.VerifyTraceRequest, context: Any) -> pb.VerifyTraceResponse:
        raise ValueError("a secret text")

    async def VerifyEpisode(self, request: pb.VerifyEpisodeRequest, context: Any) -> pb.VerifyEpisodeResponse:
        raise Refusal("name the field", field="events", size_bytes=3)

    async def SolveComparator(self, request: pb.SolveComparatorRequest, context: Any) -> pb.SolveComparatorResponse:
        self.entered.set()
        await self.release.wait()
        return pb.SolveComparatorResponse(states_count=7)

    async def AnalyzeStudy(self, request_iterator: Any, context: Any) -> AsyncIterator[pb.AnalyzeStudyResponse]:
        yield pb.AnalyzeStudyResponse(episode=b"{}")
        raise ServiceError(grpc.StatusCode.UNAVAILABLE, "", "connection refused by 10.0.0.1", {})


class Served:
    """A running server with its servicer and a stub."""

    def __init__(self, running: RunningServer, servicer: Servicer, channel: grpc.aio.Channel) -> None:
        self.running = running
        self.servicer = servicer
        self.channel = channel
        self.stub = stubs.VerifierServiceStub(channel)


def spec_of(servicer: Servicer) -> ServiceSpec:
    return ServiceSpec(
        "verifier",
        FULL_NAME,
        lambda server: stubs.add_VerifierServiceServicer_to_server(servicer, server),
        frozenset({"AuditPacket"}),
    )


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    servicer = Servicer()
    running = await start_server(spec_of(servicer), "127.0.0.1:0")
    async with open_channel(running.address) as channel:
        yield Served(running, servicer, channel)
    servicer.release.set()
    await running.stop(0)


async def test_a_call_with_a_deadline_is_answered(served: Served) -> None:
    assert (await call(served.stub.AuditPacket, pb.AuditPacketRequest(), 5)).passed


async def test_a_mutation_without_a_deadline_is_refused(served: Served) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await served.stub.AuditPacket(pb.AuditPacketRequest())
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_refusal_carries_its_reason_and_metadata(served: Served) -> None:
    with pytest.raises(ServiceError) as caught:
        await call(served.stub.VerifyEpisode, pb.VerifyEpisodeRequest(), 5)
    assert caught.value.reason == "INVALID_RECORD"
    assert caught.value.message == "name the field"
    assert caught.value.metadata == {"field": "events", "size_bytes": "3"}
    assert not caught.value.is_unreachable


async def test_any_other_exception_is_internal_and_tells_no_text(served: Served) -> None:
    with pytest.raises(ServiceError) as caught:
        await call(served.stub.VerifyTrace, pb.VerifyTraceRequest(), 5)
    assert caught.value.status is grpc.StatusCode.INTERNAL
    assert caught.value.reason == "INTERNAL"
    assert "secret" not in str(caught.value) + str(caught.value.metadata)
    assert caught.value.metadata["request_id"]


async def test_an_unreachable_peer_of_a_service_is_named_without_its_text(served: Served) -> None:
    answers = served.stub.AnalyzeStudy(iter([pb.AnalyzeStudyRequest()]), timeout=5)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        _ = [answer async for answer in answers]
    error = from_rpc_error(caught.value)
    assert (error.status, error.reason) == (grpc.StatusCode.UNAVAILABLE, "SERVICE_UNAVAILABLE")
    assert "10.0.0.1" not in str(error) + str(caught.value)


async def test_a_request_id_comes_back(served: Served) -> None:
    ongoing = served.stub.AuditPacket(pb.AuditPacketRequest(), timeout=5, metadata=(("x-request-id", "mine"),))
    await ongoing
    assert ("x-request-id", "mine") in [(key, value) for key, value in await ongoing.trailing_metadata()]


async def test_a_request_id_comes_back_with_a_refusal_too(served: Served) -> None:
    ongoing = served.stub.VerifyEpisode(pb.VerifyEpisodeRequest(), timeout=5, metadata=(("x-request-id", "mine"),))
    with pytest.raises(grpc.aio.AioRpcError):
        await ongoing
    assert ("x-request-id", "mine") in [(key, value) for key, value in await ongoing.trailing_metadata()]


async def test_health_and_reflection_name_the_service(served: Served) -> None:
    health = health_pb2_grpc.HealthStub(served.channel)
    answer = await health.Check(health_pb2.HealthCheckRequest(service=FULL_NAME), timeout=5)
    assert answer.status == health_pb2.HealthCheckResponse.SERVING
    reflection = reflection_pb2_grpc.ServerReflectionStub(served.channel)
    asked = reflection_pb2.ServerReflectionRequest(list_services="")
    async for reply in reflection.ServerReflectionInfo(iter([asked]), timeout=5):
        assert FULL_NAME in {service.name for service in reply.list_services_response.service}


async def test_stopping_waits_for_a_call_under_way_and_refuses_new_ones(served: Served) -> None:
    ongoing = asyncio.ensure_future(call(served.stub.SolveComparator, pb.SolveComparatorRequest(), 5))
    await served.servicer.entered.wait()
    stopping = asyncio.create_task(served.running.stop(5))
    await served.running.draining.wait()
    served.servicer.release.set()
    assert (await ongoing).states_count == 7
    await stopping
    with pytest.raises(ServiceError) as caught:
        await call(served.stub.AuditPacket, pb.AuditPacketRequest(), 5)
    assert caught.value.is_unreachable


async def test_a_busy_port_is_refused(served: Served) -> None:
    with pytest.raises(BadAddress, match="in use"):
        await start_server(spec_of(Servicer()), served.running.address)


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "192.168.1.1:80", "nonsense", "127.0.0.1:99999", "127.0.0.1:x", ":1"])
async def test_what_is_no_loopback_address_is_refused(listen: str) -> None:
    with pytest.raises(BadAddress):
        await start_server(spec_of(Servicer()), listen)


async def test_a_unix_socket_serves_and_is_not_taken_over(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/v.sock"
    running = await start_server(spec_of(Servicer()), address)
    async with open_channel(running.address) as channel:
        stub = stubs.VerifierServiceStub(channel)
        assert (await call(stub.AuditPacket, pb.AuditPacketRequest(), 5)).passed
        with pytest.raises(BadAddress, match="already listens"):
            await start_server(spec_of(Servicer()), address)
    await running.stop(0)


async def test_a_file_or_a_missing_folder_is_no_unix_socket(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    for path in ("file", "absent/x.sock"):
        with pytest.raises(BadAddress):
            await start_server(spec_of(Servicer()), f"unix:{tmp_path}/{path}")
    assert (tmp_path / "file").read_text() == "kept"


async def test_an_address_that_nobody_serves_is_unreachable() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        async with open_channel(f"127.0.0.1:{taken.getsockname()[1]}") as channel:
            with pytest.raises(ServiceError) as caught:
                await call(stubs.VerifierServiceStub(channel).AuditPacket, pb.AuditPacketRequest(), 2)
    assert caught.value.is_unreachable
