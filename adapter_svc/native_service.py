"""`ReadNativeStream` on gRPC: maps messages to the reader's own types and back, and holds no rules."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Final

from adapter_svc import native
from adapter_svc.metrics import read_to_end
from countersign.adapter.v1 import adapter_pb2 as pb
from countersign.kit.errors import CountersignError, InvalidArgument

PAUSE_SECONDS = 1.0
"""How long a caller may send nothing before a refusal that it is sure to see."""
MAX_OUTPUT_BYTES: Final = 1024 * 1024
"""Of one message."""
MAX_TEXT_BYTES: Final = 8 * 1024 * 1024
"""Of the assistant's text in a completion; a longer one is in the events alone."""
MAX_ARGUMENTS: Final = 1024

HARNESSES: Final = {
    pb.HARNESS_CLAUDE: native.Harness.CLAUDE,
    pb.HARNESS_CODEX: native.Harness.CODEX,
    pb.HARNESS_OMP: native.Harness.OMP,
    pb.HARNESS_PI: native.Harness.PI,
    pb.HARNESS_GEMINI: native.Harness.GEMINI,
    pb.HARNESS_AGENTS_SDK: native.Harness.AGENTS_SDK,
    pb.HARNESS_MOCK: native.Harness.MOCK,
    pb.HARNESS_OPENCODE: native.Harness.OPENCODE,
}
CONTRACTS: Final = {
    pb.OUTPUT_CONTRACT_NATIVE: native.OutputContract.NATIVE,
    pb.OUTPUT_CONTRACT_IMAGE_ENVELOPE: native.OutputContract.IMAGE_ENVELOPE,
}

Requests = AsyncIterator[pb.ReadNativeStreamRequest]


async def read_native_stream(requests: Requests) -> AsyncIterator[pb.ReadNativeStreamResponse]:
    """Answer one stream. Raises InvalidArgument, naming the field, for parts out of order or out of bounds.

    A refusal waits until the caller has ended or paused, and drops what it sends until then: a status that arrives
    while a client is still sending is lost in some gRPC libraries.
    """
    try:
        async for answer in _read(requests):
            yield answer
    except CountersignError:
        with contextlib.suppress(StopAsyncIteration, TimeoutError):
            while True:
                await asyncio.wait_for(anext(requests), PAUSE_SECONDS)
        raise


async def _read(requests: Requests) -> AsyncIterator[pb.ReadNativeStreamResponse]:
    opening = read_opening(await _next(requests))
    reader = native.NativeReader(opening)
    stopped = False
    while True:
        for answer in _stop(reader, stopped):
            stopped = True
            yield answer
        part = await _next(requests)
        match part.WhichOneof("part"):
            case "output":
                if len(part.output) > MAX_OUTPUT_BYTES:
                    raise InvalidArgument("send at most 1 MiB of output in a message", field="output")
                for event in reader.feed(part.output):
                    yield pb.ReadNativeStreamResponse(event=_event(event))
            case "process_end":
                verdict = read_to_end(opening.harness, reader.finish(read_process_end(part.process_end)))
                await _require_end(requests)
                yield write_verdict(verdict)
                return
            case _:
                raise InvalidArgument("send output, or how the process ended", field="part")


async def _next(requests: Requests) -> pb.ReadNativeStreamRequest:
    try:
        return await anext(requests)
    except StopAsyncIteration:
        raise InvalidArgument("send how the process ended, last", field="process_end") from None


async def _require_end(requests: Requests) -> None:
    async for _ in requests:
        raise InvalidArgument("send nothing after how the process ended", field="part")


def _stop(reader: native.NativeReader, stopped: bool) -> Iterator[pb.ReadNativeStreamResponse]:
    if reader.rejected is not None and not stopped:
        code, record = reader.rejected
        yield pb.ReadNativeStreamResponse(stop=pb.NativeStop(code=code.value, record=record))


def read_opening(part: pb.ReadNativeStreamRequest) -> native.Opening:
    """The opening, which must come first. Raises InvalidArgument."""
    if part.WhichOneof("part") != "opening":
        raise InvalidArgument("send the opening first", field="opening")
    opening = part.opening
    if opening.harness not in HARNESSES:
        raise InvalidArgument("name the agent program", field="opening.harness")
    if opening.output_contract not in CONTRACTS:
        raise InvalidArgument("say what makes the run count as complete", field="opening.output_contract")
    if len(opening.argv) > MAX_ARGUMENTS:
        raise InvalidArgument(f"give at most {MAX_ARGUMENTS} arguments", field="opening.argv")
    image = {file.path: file.content for file in opening.image_files}
    if len(image) != len(opening.image_files):
        raise InvalidArgument("give each file of the image once", field="opening.image_files")
    return native.Opening(
        HARNESSES[opening.harness],
        CONTRACTS[opening.output_contract],
        opening.harness_version,
        tuple(opening.argv),
        image,
    )


def read_process_end(end: pb.NativeProcessEnd) -> native.ProcessEnd:
    """How the process ended. Raises InvalidArgument where neither a status nor a signal says it."""
    if not end.HasField("exit_status") and not end.HasField("signal"):
        raise InvalidArgument("give the exit status or the signal", field="process_end.exit_status")
    return native.ProcessEnd(
        exit_status=end.exit_status if end.HasField("exit_status") else None,
        signal=end.signal if end.HasField("signal") else None,
        signalled_before_terminal=end.signalled_by_supervisor,
        drained=end.drained,
        survivors=end.survivors_count,
    )


def write_verdict(verdict: native.Completion | native.Failure) -> pb.ReadNativeStreamResponse:
    """The last answer."""
    observations = [pb.NativeObservation(name=name.value, count=count) for name, count in verdict.observations.items()]
    if isinstance(verdict, native.Failure):
        return pb.ReadNativeStreamResponse(
            failure=pb.NativeFailure(
                code=verdict.code.value,
                record=verdict.record,
                observations=observations,
                output_digest=verdict.facts.output_digest,
                facts=_facts(verdict.facts),
                detail=verdict.detail,
            )
        )
    text_bytes = len(verdict.assistant_text.encode())
    return pb.ReadNativeStreamResponse(
        completion=pb.NativeCompletion(
            assistant_text=verdict.assistant_text if text_bytes <= MAX_TEXT_BYTES else "",
            observations=observations,
            output_digest=verdict.facts.output_digest,
            facts=_facts(verdict.facts),
            semantic_status=verdict.semantic_status,
            envelope_digest=verdict.envelope_digest,
            assistant_text_bytes=text_bytes,
            envelope=verdict.envelope,
        )
    )


def _event(event: native.NativeEvent) -> pb.NativeEvent:
    return pb.NativeEvent(sequence=event.sequence, kind=event.kind, body=event.body)


def _facts(facts: native.Facts) -> pb.NativeFacts:
    usage = facts.usage
    return pb.NativeFacts(
        harness_version=facts.harness_version,
        model=facts.model,
        session_id=facts.session_id,
        usage=pb.Usage(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached_input_tokens=usage.cached_input_tokens,
            reasoning_tokens=usage.reasoning_tokens,
            cache_write_tokens=usage.cache_write_tokens,
        ),
        reported_cost_text=facts.cost_text,
        records_count=facts.records,
        output_bytes=facts.output_bytes,
        events_count=facts.events,
        events_digest=facts.events_digest,
        terminal_record=facts.terminal_record,
        image_digest=facts.image_digest,
    )
