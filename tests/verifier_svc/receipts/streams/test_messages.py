"""A streamed message, event by event (design/admission.md, Streams; docs/formats.md)."""

import json
from typing import Any

import pytest

from tests.verifier_svc.receipts import bodies
from tests.verifier_svc.receipts.streaming import event, typed
from verifier_svc.receipts.verdicts import Action, Decoded, Reason, TextFinish, Usage
from verifier_svc.receipts.wire import WireFormat


def begun(**more: Any) -> bytes:
    usage = {"input_tokens": 10, "cache_read_input_tokens": 3, "output_tokens": 1}
    return typed("message_start", message={**bodies.message(stop_reason=None), "content": [], "usage": usage, **more})


def block(index: int, **content: Any) -> bytes:
    return typed("content_block_start", index=index, content_block=content)


def delta(index: Any, kind: str, **more: Any) -> bytes:
    return typed("content_block_delta", index=index, delta={"type": kind, **more})


def ended(stop_reason: Any, **usage: Any) -> bytes:
    return typed("message_delta", delta={"stop_reason": stop_reason, "stop_sequence": None}, usage=usage)


def closed(index: int) -> bytes:
    return typed("content_block_stop", index=index)


STOP = typed("message_stop")
PING = event({"type": "ping"}, "ping")
TEXT = (
    begun(),
    block(0, type="thinking", thinking="", signature=""),
    PING,
    delta(0, "thinking_delta", thinking="h"),
    delta(0, "thinking_delta", thinking="m"),
    delta(0, "signature_delta", signature="s=="),
    closed(0),
    block(1, type="text", text=""),
    delta(1, "text_delta", text="Do"),
    delta(1, "text_delta", text="ne."),
    closed(1),
    ended("end_turn", output_tokens=7),
    STOP,
)
USE = {"type": "tool_use", "id": "toolu_1", "name": "finish", "input": {}}
CALL = (
    begun(),
    block(0, **USE),
    delta(0, "input_json_delta", partial_json=""),
    delta(0, "input_json_delta", partial_json='{"claim": '),
    delta(0, "input_json_delta", partial_json='"saved"}'),
    closed(0),
    ended("tool_use"),
    STOP,
)


def read(*events: bytes) -> Decoded:
    return bodies.decoded(WireFormat.MESSAGES, b"".join(events), streamed=True)


def unknown(*events: bytes) -> tuple[Reason, str]:
    return bodies.unknown(WireFormat.MESSAGES, b"".join(events), streamed=True)


def test_pieces_are_joined() -> None:
    text, call = read(*TEXT), read(*CALL)
    assert text.verdict == TextFinish("Done.")
    assert text.continuation == (
        b'[{"signature":"s==","thinking":"hm","type":"thinking"},{"text":"Done.","type":"text"}]'
    )
    assert call.verdict == Action("finish", {"claim": "saved"}, "toolu_1")
    assert call.continuation == b'[{"id":"toolu_1","input":{"claim": "saved"},"name":"finish","type":"tool_use"}]'


def test_the_delta_takes_the_place_of_the_first_counts() -> None:
    assert read(*TEXT).usage == Usage(13, 7, cache_read=3)
    again = (*TEXT[:-2], ended("end_turn", input_tokens=20, output_tokens=None), ended(None, output_tokens=9), STOP)
    assert read(*again).usage == Usage(23, 9, cache_read=3)


@pytest.mark.parametrize("odd", [None, "x", []])
def test_usage_of_another_form_is_absent(odd: Any) -> None:
    uncounted = typed("message_delta", delta={"stop_reason": "tool_use"})
    found = read(begun(usage=odd), *CALL[1:6], uncounted, STOP)
    assert (found.verdict, found.usage) == (Action("finish", {"claim": "saved"}, "toolu_1"), None)
    if odd is not None:
        contrary = typed("message_delta", delta={"stop_reason": "tool_use"}, usage=odd)
        assert unknown(*CALL[:6], contrary, STOP) == (Reason.STREAM_CONTRADICTION, "event 7")


@pytest.mark.parametrize("events", [TEXT, CALL])
def test_a_cut_stream_is_incomplete(events: tuple[bytes, ...]) -> None:
    for count in range(len(events)):
        place = f"event {count + 1}"
        assert unknown(*events[:count]) == (Reason.STREAM_INCOMPLETE, place)
        assert unknown(*events[:count], events[count][:-1]) == (Reason.STREAM_INCOMPLETE, place)


def test_an_end_marker_without_the_message_or_before_a_blocks_end() -> None:
    assert unknown(STOP) == (Reason.STREAM_CONTRADICTION, "event 1")
    assert unknown(*CALL[:5], *CALL[6:]) == (Reason.STREAM_INCOMPLETE, "event 7")
    assert unknown(*CALL[:6], STOP) == (Reason.STREAM_INCOMPLETE, "event 7")
    assert unknown(*CALL[:6], ended(None), STOP) == (Reason.MISSING_STOP_REASON, "/stop_reason")
    assert unknown(*CALL[:6], ended(""), STOP) == (Reason.UNRECOGNIZED_STOP_REASON, "/stop_reason")


@pytest.mark.parametrize(
    "broken",
    [
        typed("error", error={"type": "overloaded_error"}),
        event({"type": "error"}),
        event({}, "error"),
        b"event: error\ndata: overloaded\n\n",
    ],
)
def test_an_error_after_a_finished_call_runs_nothing(broken: bytes) -> None:
    assert unknown(*CALL[:-1], broken) == (Reason.PROVIDER_ERROR, "event 8")
    assert unknown(*CALL, broken) == (Reason.PROVIDER_ERROR, "event 9")


@pytest.mark.parametrize(
    ("position", "contrary"),
    [
        (0, block(0, **USE)),
        (0, delta(0, "text_delta", text="x")),
        (0, closed(0)),
        (0, ended("tool_use")),
        (1, begun(model="m-2")),
        (1, block(1, **USE)),
        (2, block(0, **{**USE, "name": "wait"})),
        (2, delta(0, "text_delta", text="x")),
        (2, delta(0, "thinking_delta", thinking="x")),
        (2, delta(1, "input_json_delta", partial_json="{}")),
        (2, delta(None, "input_json_delta", partial_json="{}")),
        (2, delta(-1, "input_json_delta", partial_json="{}")),
        (2, delta(True, "input_json_delta", partial_json="{}")),
        (2, event({"type": "content_block_stop", "index": 0}, "content_block_start")),
        (6, delta(0, "input_json_delta", partial_json=" ")),
        (7, ended("end_turn")),
        (7, ended(None)[:-3] + b',"usage":{}}\n\n'),
        (7, block(1, **USE)),
        (8, ended("tool_use")),
        (8, PING),
        (8, typed("message_stop", x=1)),
        (3, typed("content_block_start", index=1.0, content_block={})),
        (6, typed("message_delta", delta={"content": [1]})),
        (6, typed("message_delta")),
        (1, event({})),
    ],
)
def test_what_contradicts_itself(position: int, contrary: bytes) -> None:
    found = unknown(*CALL[:position], contrary, *CALL[position:])
    expected = Reason.STREAM_CONTRADICTION
    if contrary.endswith(b',"usage":{}}\n\n'):
        expected = Reason.DUPLICATE_KEY
    assert found == (expected, f"event {position + 1}")


def test_a_text_block_takes_no_arguments() -> None:
    contrary = delta(1, "input_json_delta", partial_json="{}")
    assert unknown(*TEXT[:8], contrary, *TEXT[8:]) == (Reason.STREAM_CONTRADICTION, "event 9")


def test_a_message_begins_without_content() -> None:
    assert unknown(begun(content=[bodies.text_block()]), *CALL[1:]) == (Reason.STREAM_CONTRADICTION, "event 1")
    assert isinstance(read(begun(content=None), *CALL[1:]).verdict, Action)


def test_equal_repeats_are_fine() -> None:
    events = (CALL[0], *CALL[:2], *CALL[1:6], CALL[5], *CALL[6:7], CALL[6], *CALL[7:], STOP)
    assert read(*events).verdict == Action("finish", {"claim": "saved"}, "toolu_1")


@pytest.mark.parametrize(
    "odd",
    [
        typed("message_start"),
        typed("message_start", message=[]),
        typed("content_block_start", index=0),
    ],
)
def test_what_cannot_be_put_together(odd: bytes) -> None:
    position = 0 if b"message_start" in odd else 1
    assert unknown(*CALL[:position], odd) == (Reason.STREAM_CONTRADICTION, f"event {position + 1}")


def test_a_block_of_another_form_is_judged_as_the_unary_form_would_be() -> None:
    odd = typed("content_block_start", index=0, content_block="x")
    assert unknown(CALL[0], odd, *CALL[2:]) == (Reason.INVALID_MESSAGE, "/content/0")


@pytest.mark.parametrize(
    "odd",
    [
        delta(0, "song_delta", text="la"),
        delta(0, "input_json_delta"),
        delta(0, "input_json_delta", partial_json={}),
        typed("content_block_delta", index=0),
        typed("content_block_delta", index=0, delta={"type": []}),
    ],
)
def test_a_delta_that_cannot_be_put_in(odd: bytes) -> None:
    assert unknown(*CALL[:2], odd, *CALL[2:]) == (Reason.STREAM_CONTRADICTION, "event 3")


def test_an_unknown_kind_of_event_is_nothing() -> None:
    assert isinstance(read(*CALL[:3], typed("vendor_note", x=1), *CALL[3:]).verdict, Action)


def test_a_block_without_a_delta_keeps_its_bytes() -> None:
    whole = b'{"type":"redacted_thinking", "data":"\\u0041","a":[ ]}'
    first = b'data: {"type":"content_block_start","index":0,"content_block":' + whole + b"}\n\n"
    more = (block(1, **USE), delta(1, "input_json_delta", partial_json='{"claim":"saved"}'), closed(1))
    found = read(CALL[0], first, closed(0), *more, *CALL[6:])
    assert found.continuation == (
        b"[" + whole + b',{"id":"toolu_1","input":{"claim":"saved"},"name":"finish","type":"tool_use"}]'
    )


def test_the_input_that_a_block_began_with_is_a_placeholder_or_the_same() -> None:
    for own, fits in (({}, True), (None, True), ({"claim": "saved"}, True), ({"claim": "unknown"}, False)):
        found = bodies.judge(
            WireFormat.MESSAGES, b"".join((CALL[0], block(0, **{**USE, "input": own}), *CALL[2:])), streamed=True
        )
        assert isinstance(found, Action) == fits


@pytest.mark.parametrize("text", ['{"claim":', '{"claim":"saved","claim":"saved"}', "[]", '"x"', "{}{}"])
def test_arguments_that_are_no_strict_object(text: str) -> None:
    events = (*CALL[:2], delta(0, "input_json_delta", partial_json=text), *CALL[5:])
    assert unknown(*events) == (Reason.MALFORMED_ARGUMENTS, "/content/0/input")


def test_arguments_that_came_whole_with_the_block() -> None:
    whole = block(0, **{**USE, "input": {"claim": "saved"}})
    assert read(CALL[0], whole, *CALL[5:]).verdict == Action("finish", {"claim": "saved"}, "toolu_1")
    assert unknown(*CALL[:3], *CALL[5:]) == (Reason.INVALID_ARGUMENTS, "/content/0/input")


def test_a_stop_reason_decides_before_cut_arguments_do() -> None:
    assert unknown(*CALL[:4], closed(0), ended("max_tokens"), STOP) == (Reason.TRUNCATED, "/stop_reason")


def test_citations_are_appended() -> None:
    cited = {"type": "char_location", "n": 1}
    first = block(0, type="text", text="", citations=[])
    events = (begun(), first, delta(0, "citations_delta", citation=cited), delta(0, "text_delta", text="x"))
    found = read(*events, closed(0), ended("end_turn"), STOP)
    assert json.loads(found.continuation or b"") == [{"type": "text", "text": "x", "citations": [cited]}]


def test_a_value_that_came_whole_keeps_its_bytes() -> None:
    whole = b'{"type":"thinking","thinking":"","signature":"","x":[ 1.0 ],"citations":[ ]}'
    first = b'data: {"type":"content_block_start","index":0,"content_block":' + whole + b"}\n\n"
    events = (CALL[0], first, delta(0, "thinking_delta", thinking="h"), closed(0))
    more = (block(1, **USE), delta(1, "input_json_delta", partial_json=' {"claim":"\\u0073aved"} '), closed(1))
    assert read(*events, *more, *CALL[6:]).continuation == (
        b'[{"citations":[ ],"signature":"","thinking":"h","type":"thinking","x":[ 1.0 ]},'
        b'{"id":"toolu_1","input":{"claim":"\\u0073aved"},"name":"finish","type":"tool_use"}]'
    )
