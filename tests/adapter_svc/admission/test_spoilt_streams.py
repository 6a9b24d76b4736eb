"""Streams that are cut, or whose events are dropped, repeated or swapped: never a finish that the stream does not have
(design/admission.md, Streams; design/field-reports.md, Streams).

A format without checksums hides some losses: a chunk of generate_content that is dropped whole, a piece of text. So a
dropped event is asked of messages alone, where every block is begun and ended.
"""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapter_svc.admission import Action, TechnicalUnknown, WireFormat
from tests.adapter_svc.admission.bodies import (
    GENERATE_CONTENT,
    MESSAGES,
    THINKING,
    a_text,
    a_use,
    event,
    generated,
    joined,
    judged,
    message,
    part_of_call,
    split_generated,
    split_message,
)
from tests.adapter_svc.admission.recorded_exchanges import admission_of, exchanges_of

Stream = tuple[WireFormat, tuple[str, ...]]

WAITING = {"type": "tool_use", "id": "toolu_2", "name": "wait", "input": {}}
SIGNED = {**part_of_call(id="c"), "thoughtSignature": "c2ln"}
MESSAGE_STREAMS: list[Stream] = [
    (WireFormat.MESSAGES, tuple(split_message(body)))
    for body in (
        message(THINKING, a_text("I claim."), a_use()),
        message(a_use(), a_text("done")),
        message(WAITING),
        message(a_text("all done")),
        message(a_use(), WAITING),
        message(a_use(), stop="max_tokens"),
        message(a_text(), stop="tool_use"),
        message({"type": "server_tool_use", "id": "s", "name": "x", "input": {"a": 1}}, a_use()),
    )
]
CHUNKED_STREAMS: list[Stream] = [
    (WireFormat.GENERATE_CONTENT, tuple(split_generated(body)))
    for body in (
        generated({"text": "Hm.", "thought": True}, {"text": "I claim."}, SIGNED, {"text": ""}),
        generated({"text": "all "}, {"text": "done"}),
        generated(part_of_call(), part_of_call()),
        generated({"text": "x"}, part_of_call(), finishReason="MAX_TOKENS"),
        generated({"executableCode": {}}, part_of_call()),
    )
]
STREAMS = MESSAGE_STREAMS + CHUNKED_STREAMS


def verdict_of(wire_format: WireFormat, body: bytes) -> object:
    asked = MESSAGES if wire_format is WireFormat.MESSAGES else GENERATE_CONTENT
    return judged(body, **asked, streamed=True).verdict


def refused(verdict: object) -> bool:
    return isinstance(verdict, TechnicalUnknown)


@pytest.mark.parametrize("stream", STREAMS)
def test_a_stream_that_is_cut_at_any_byte_is_unknown(stream: Stream) -> None:
    wire_format, events = stream
    body = joined(events)
    assert not [end for end in range(len(body)) if not refused(verdict_of(wire_format, body[:end]))]
    crlf = body.replace(b"\n", b"\r\n")
    assert verdict_of(wire_format, crlf) == verdict_of(wire_format, body)
    assert not [end for end in range(len(crlf)) if not refused(verdict_of(wire_format, crlf[:end]))]


@pytest.mark.parametrize("wire_format", [WireFormat.MESSAGES, WireFormat.GENERATE_CONTENT])
def test_a_recorded_stream_that_is_cut_is_unknown(shared_data: Path, wire_format: WireFormat) -> None:
    for exchange in exchanges_of(shared_data, wire_format):
        if not exchange["stream"]:
            continue
        body = exchange["response_body"].encode()
        ends = {position + 1 for position, byte in enumerate(body) if byte == ord("\n") and position + 1 < len(body)}
        for end in sorted(ends | set(range(0, len(body), 997)) | set(range(len(body) - 40, len(body)))):
            verdict = admission_of(exchange, body=body[:end]).verdict
            assert refused(verdict), (exchange["id"], end)


def spoilt_once(events: tuple[str, ...], *, dropping: bool) -> Iterator[list[str]]:
    for position in range(len(events)):
        yield [*events[: position + 1], *events[position:]]
        if dropping:
            yield [*events[:position], *events[position + 1 :]]
    for one, other in itertools.combinations(range(len(events)), 2):
        swapped = list(events)
        swapped[one], swapped[other] = events[other], events[one]
        yield swapped


@pytest.mark.parametrize("stream", STREAMS)
def test_no_single_fault_makes_another_action(stream: Stream) -> None:
    wire_format, events = stream
    whole = verdict_of(wire_format, joined(events))
    for spoilt in spoilt_once(events, dropping=wire_format is WireFormat.MESSAGES):
        verdict = verdict_of(wire_format, joined(spoilt))
        if isinstance(verdict, Action):
            assert isinstance(whole, Action)
            assert (verdict.tool, verdict.arguments, verdict.tool_call_id) == (
                whole.tool,
                whole.arguments,
                whole.tool_call_id,
            )


@given(st.sampled_from(STREAMS), st.data())
def test_no_order_of_the_events_makes_another_action(stream: Stream, data: st.DataObject) -> None:
    wire_format, events = stream
    whole = verdict_of(wire_format, joined(events))
    verdict = verdict_of(wire_format, joined(data.draw(st.permutations(events))))
    if isinstance(verdict, Action):
        assert isinstance(whole, Action)
        assert (verdict.tool, verdict.arguments) == (whole.tool, whole.arguments)


odd_values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 3),
    st.sampled_from(["", "x", "text", "tool_use", "text_delta", "error", "STOP", "{}", "wait"]),
    st.sampled_from(["[]", "{}", "[null]", '[{"text":"x"}]', '{"type":"text"}']).map(json.loads),
)


@given(st.sampled_from(STREAMS), st.data())
def test_any_member_of_an_event_may_be_any_value(stream: Stream, data: st.DataObject) -> None:
    """Never an unhandled exception, and never an action whose call is not in the continuation."""
    wire_format, events = stream
    number = data.draw(st.integers(0, len(events) - 1))
    value = json.loads(events[number].partition("data: ")[2])
    target = value
    while True:
        key = data.draw(st.sampled_from(sorted(target) if isinstance(target, dict) else range(len(target))))
        child = target[key]
        if not (isinstance(child, dict | list) and child) or data.draw(st.booleans()):
            break
        target = child
    target[key] = data.draw(odd_values)
    spoilt = [*events[:number], event(value, name=""), *events[number + 1 :]]
    asked = MESSAGES if wire_format is WireFormat.MESSAGES else GENERATE_CONTENT
    admission = judged(joined(spoilt), **asked, streamed=True)
    if isinstance(admission.verdict, Action):
        assert admission.continuation is not None
        assert admission.verdict.tool in admission.continuation.message.decode()
