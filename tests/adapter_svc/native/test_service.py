"""`ReadNativeStream` over a real channel: the order of the parts, live events, the stop, every field of the verdict."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from typing import Any

import grpc
import pytest

from adapter_svc import native, native_service
from adapter_svc.service import AdapterServicer, service_spec
from countersign.adapter.v1 import adapter_pb2 as pb
from countersign.adapter.v1 import adapter_pb2_grpc
from countersign.images import shipped_image
from countersign.kit.channel import open_channel
from countersign.kit.rpc_errors import from_rpc_error
from countersign.kit.server import start_server
from countersign.kit.wording import load_wording
from tests.adapter_svc.native.helpers import lines
from tests.countersign.kit.observability.recording import recording

Stub = Any
Part = pb.ReadNativeStreamRequest
START, SAID = {"type": "start", "version": "1", "model": "m", "session_id": "s"}, {"type": "text", "text": "hi"}
FINAL = {"type": "final", "status": "success", "usage": {"input_tokens": 0}, "cost_usd": 0.25}
ENDED = Part(process_end=pb.NativeProcessEnd(exit_status=0, drained=True))


@pytest.fixture
async def stub() -> AsyncIterator[Stub]:
    """An adapter without a ledger."""
    running = await start_server(service_spec(AdapterServicer(load_wording(), None, asyncio.Event())), "127.0.0.1:0")
    async with open_channel(running.address) as channel:
        yield adapter_pb2_grpc.AdapterServiceStub(channel)
    await running.stop(0)


def opening(**changes: Any) -> Part:
    good: dict[str, Any] = {"harness": pb.HARNESS_MOCK, "output_contract": pb.OUTPUT_CONTRACT_NATIVE}
    return Part(opening=pb.NativeStreamOpening(**{**good, **changes}))


def output(*records: dict[str, Any]) -> Part:
    return Part(output=lines(records))


async def answers(stub: Stub, parts: Iterable[Part]) -> list[pb.ReadNativeStreamResponse]:
    return [answer async for answer in stub.ReadNativeStream(iter(list(parts)), timeout=10)]


async def refusal(stub: Stub, parts: Iterable[Part]) -> tuple[grpc.StatusCode, str, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await answers(stub, parts)
    found = from_rpc_error(caught.value)
    return found.status, found.reason, found.metadata["field"]


async def test_events_come_before_one_completion_with_every_field(stub: Stub) -> None:
    found = await answers(stub, [opening(), output(START, SAID), output(FINAL), ENDED])
    assert [answer.WhichOneof("part") for answer in found] == ["event", "event", "completion"]
    assert [(answer.event.sequence, answer.event.kind) for answer in found[:2]] == [
        (0, "harness.started"),
        (1, "assistant.message"),
    ]
    assert json.loads(found[1].event.body) == {"continues": False, "text": "hi"}
    reader = native.NativeReader(native.Opening(native.Harness.MOCK))
    reader.feed(lines([START, SAID, FINAL]))
    expected = reader.finish(native.ProcessEnd(0)).facts
    completion = found[2].completion
    assert completion == pb.NativeCompletion(
        assistant_text="hi",
        output_digest=expected.output_digest,
        semantic_status="not-applicable",
        assistant_text_bytes=2,
        facts=pb.NativeFacts(
            harness_version="1",
            model="m",
            session_id="s",
            usage=pb.Usage(input_tokens=0),
            reported_cost_text="0.25",
            records_count=3,
            output_bytes=expected.output_bytes,
            events_count=2,
            events_digest=expected.events_digest,
            terminal_record=3,
        ),
    )


async def test_a_failure_says_where_and_what(stub: Stub) -> None:
    retry = {"type": "retry"}
    found = await answers(stub, [opening(), output(START, retry, {"type": "odd"}), output(FINAL), ENDED])
    assert [answer.WhichOneof("part") for answer in found] == ["event", "stop", "failure"]
    assert found[1].stop == pb.NativeStop(code="PROTOCOL_MALFORMED", record=3)
    failure = found[2].failure
    assert (failure.code, failure.record, failure.detail) == ("PROTOCOL_MALFORMED", 3, "an unknown type of record")
    assert list(failure.observations) == [pb.NativeObservation(name="PROVIDER_RETRY", count=1)]
    assert (failure.facts.HasField("terminal_record"), failure.facts.HasField("reported_cost_text")) == (False, False)


async def test_events_and_the_stop_are_live(stub: Stub) -> None:
    stream = stub.ReadNativeStream(timeout=10)
    await stream.write(opening())
    await stream.write(output(START))
    assert (await stream.read()).event.kind == "harness.started"
    await stream.write(Part(output=b"x\n"))
    assert (await stream.read()).stop.record == 2
    await stream.write(ENDED)
    await stream.done_writing()
    assert (await stream.read()).failure.code == "PROTOCOL_MALFORMED"
    assert await stream.read() is grpc.aio.EOF


async def test_a_refused_harness_is_stopped_before_any_output(stub: Stub) -> None:
    found = await answers(stub, [opening(harness=pb.HARNESS_OPENCODE), ENDED])
    assert found[0].stop == pb.NativeStop(code="HARNESS_INCOMPATIBLE", record=0)
    assert found[1].failure.code == "HARNESS_INCOMPATIBLE"


async def test_the_envelope_contract_is_carried(stub: Stub) -> None:
    files = [pb.NativeImageFile(path=path, content=content) for path, content in shipped_image("echo").items()]
    envelope = {
        "schema": "countersign.echo-envelope/1",
        "semanticStatus": "semantic-failed",
        "task": {"argv": ["prose"]},
    }
    last = {"type": "text", "text": json.dumps(envelope, separators=(",", ":"))}
    changes = {"output_contract": pb.OUTPUT_CONTRACT_IMAGE_ENVELOPE, "image_files": files, "argv": ["prose"]}
    found = await answers(stub, [opening(**changes), output(START, SAID, last, FINAL), ENDED])
    completion = found[-1].completion
    assert (completion.assistant_text, completion.semantic_status) == ("hi", "semantic-failed")
    assert json.loads(completion.envelope) == envelope
    assert (len(completion.envelope_digest), len(completion.facts.image_digest)) == (32, 32)


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (pb.NativeProcessEnd(exit_status=0), "PROTOCOL_TRUNCATED"),
        (pb.NativeProcessEnd(exit_status=0, drained=True, signalled_by_supervisor=True), "PROTOCOL_TRUNCATED"),
        (pb.NativeProcessEnd(exit_status=1, drained=True), "HARNESS_FAILED"),
        (pb.NativeProcessEnd(signal=9, drained=True), "HARNESS_FAILED"),
        (pb.NativeProcessEnd(exit_status=0, drained=True, survivors_count=1), "PROCESS_CLEANUP_FAILED"),
    ],
)
async def test_how_the_process_ended_counts(stub: Stub, end: pb.NativeProcessEnd, code: str) -> None:
    found = await answers(stub, [opening(), output(START, FINAL), Part(process_end=end)])
    assert found[-1].failure.code == code


async def test_a_signal_after_the_terminal_event_decides_nothing(stub: Stub) -> None:
    end = pb.NativeProcessEnd(exit_status=0, drained=True, supervisor_signal=15)
    found = await answers(stub, [opening(), output(START, FINAL), Part(process_end=end)])
    assert found[-1].WhichOneof("part") == "completion"


async def test_a_long_text_is_in_the_events_alone(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_service, "MAX_TEXT_BYTES", 1)
    completion = (await answers(stub, [opening(), output(START, SAID, FINAL), ENDED]))[-1].completion
    assert (completion.assistant_text, completion.assistant_text_bytes) == ("", 2)


FILE = pb.NativeImageFile(path="a", content=b"")


@pytest.mark.parametrize(
    ("parts", "field"),
    [
        ([], "process_end"),
        ([ENDED], "opening"),
        ([output(START)], "opening"),
        ([opening(harness=pb.HARNESS_UNSPECIFIED), ENDED], "opening.harness"),
        ([opening(output_contract=pb.OUTPUT_CONTRACT_UNSPECIFIED), ENDED], "opening.output_contract"),
        ([opening(argv=["a"] * 1025), ENDED], "opening.argv"),
        ([opening(image_files=[FILE, FILE]), ENDED], "opening.image_files"),
        ([opening(), opening(), ENDED], "part"),
        ([opening(), Part(), ENDED], "part"),
        ([opening(), output(START, FINAL)], "process_end"),
        ([opening(), Part(output=bytes(1024 * 1024 + 1)), ENDED], "output"),
        ([opening(), Part(process_end=pb.NativeProcessEnd(drained=True))], "process_end.exit_status"),
        ([opening(), ENDED, output(FINAL)], "part"),
        ([opening(), ENDED, ENDED], "part"),
    ],
)
async def test_a_caller_s_fault_is_refused_by_field(stub: Stub, parts: list[Part], field: str) -> None:
    assert await refusal(stub, parts) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT", field)


async def test_a_refusal_is_seen_by_a_caller_who_keeps_sending(stub: Stub) -> None:
    parts = [output(START), *[Part(output=b"x" * 50_000)] * 40]
    assert await refusal(stub, parts) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT", "opening")


async def test_a_refusal_is_seen_by_a_caller_who_waits(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_service, "PAUSE_SECONDS", 0.01)
    stream = stub.ReadNativeStream(timeout=10)
    await stream.write(output(START))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stream.read()
    assert from_rpc_error(caught.value).reason == "INVALID_ARGUMENT"


def test_every_harness_and_contract_of_the_contracts_is_mapped() -> None:
    assert set(native_service.HARNESSES) == set(pb.Harness.values()) - {pb.HARNESS_UNSPECIFIED}
    assert set(native_service.CONTRACTS) == set(pb.OutputContract.values()) - {pb.OUTPUT_CONTRACT_UNSPECIFIED}
    assert set(native_service.HARNESSES.values()) == set(native.Harness)


async def test_verdicts_are_counted_by_program_and_code(stub: Stub) -> None:
    with recording() as recorded:
        await answers(stub, [opening(), output(START, SAID, FINAL), ENDED])
        await answers(stub, [opening(), output(START, SAID), ENDED])
        await refusal(stub, [ENDED])
        counted = recorded.values("countersign_adapter_native_streams_total")
    assert counted == {("mock", "COMPLETED"): 1, ("mock", "PROTOCOL_TRUNCATED"): 1}
