"""Streams of the messages format: what makes an answer, and what does not (design/admission.md, Streams)."""

import json
from typing import Any

import pytest

from adapter_svc.admission import Action, TextFinish, Usage
from tests.adapter_svc.admission.bodies import (
    MESSAGES,
    THINKING,
    a_text,
    a_use,
    event,
    failure,
    joined,
    judged,
    message,
    split_message,
)

STREAMED = {**MESSAGES, "streamed": True}
CALL = split_message(message(THINKING, a_text("I claim."), a_use()))
TEXT = split_message(message(a_text("all done")))
START, PING = TEXT[0], TEXT[1]
STOP = event({"type": "message_stop"})


def block_start(block: Any, index: Any = 0) -> str:
    return event({"type": "content_block_start", "index": index, "content_block": block})


def block_delta(delta: Any, index: Any = 0) -> str:
    return event({"type": "content_block_delta", "index": index, "delta": delta})


def block_stop(index: Any = 0) -> str:
    return event({"type": "content_block_stop", "index": index})


def conclusion(reason: Any = "end_turn", **changes: Any) -> str:
    return event({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 5}, **changes})


def stream_of(*events: str, end: tuple[str, ...] = (conclusion(), STOP)) -> bytes:
    return joined([START, *events, *end])


def a_block(block: Any, *deltas: Any, index: int = 0) -> list[str]:
    return [block_start(block, index), *(block_delta(delta, index) for delta in deltas), block_stop(index)]


def arguments(*pieces: str, start: Any = None, reason: str = "tool_use") -> bytes:
    """A stream of one call whose arguments come in these pieces."""
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    block = a_use(input={} if start is None else start)
    return stream_of(*a_block(block, *deltas), end=(conclusion(reason), STOP))


def test_events_make_an_action() -> None:
    admission = judged(joined(CALL), **STREAMED)
    assert admission.verdict == Action("finish", b'{"claim":"saved"}', "toolu_1", "I claim.")
    assert admission.usage == Usage(10, 5)
    assert admission.continuation is not None
    assert json.loads(admission.continuation.message) == [THINKING, a_text("I claim."), a_use()]


@pytest.mark.parametrize(
    "events",
    [
        TEXT,
        [TEXT[0], *TEXT[2:]],
        [PING, *TEXT],
        [event({"type": "new_event", "data": [1]}), *TEXT],
        [*TEXT[:3], event({"type": "content_block_pause", "index": 7}), *TEXT[3:]],
        [one for one in TEXT for _ in range(1 if "text_delta" in one else 2)],
        [*TEXT, STOP, STOP],
        [*TEXT[:-2], conclusion(None), TEXT[-2], conclusion(""), TEXT[-1]],
        [": hello\n\n", *(one.partition("\n")[2] for one in TEXT)],
    ],
)
def test_what_says_nothing_changes_nothing(events: list[str]) -> None:
    assert judged(joined(events), **STREAMED).verdict == TextFinish("all done")


def test_blocks_may_be_open_at_the_same_time() -> None:
    one, two = a_block(a_text(""), {"type": "text_delta", "text": "I "}), a_block(a_use(), index=1)
    body = stream_of(one[0], two[0], one[1], two[1], one[2], end=(conclusion("tool_use"), STOP))
    assert judged(body, **STREAMED).verdict == Action("finish", b'{"claim":"saved"}', "toolu_1", "I ")


SPLIT_THINKING = [block_start({"type": "thinking", "thinking": ""}), block_stop()]
CONTRADICTIONS: list[tuple[list[str], int]] = [
    ([*TEXT, PING], len(TEXT) + 1),
    ([*TEXT, event({"type": "new_event"})], len(TEXT) + 1),
    ([*TEXT, TEXT[3]], len(TEXT) + 1),
    ([*TEXT, event({"type": "message_stop", "more": 1})], len(TEXT) + 1),
    ([*TEXT, *TEXT], len(TEXT) + 1),
    (TEXT[2:], 1),
    ([START, START.replace("msg_1", "msg_2")], 2),
    ([START, STOP.replace("event: message_stop", "event: message_start")], 2),
    ([START, event({"type": 7}, name="")], 2),
    ([START, event({}, name="")], 2),
    ([event({"type": "message_start"})], 1),
    ([event({"type": "message_start", "message": {"content": [a_text()]}})], 1),
    ([START, block_start(a_text(), index=1)], 2),
    ([START, block_start(a_text(), index=True)], 2),
    ([START, block_start(a_text(), index=None)], 2),
    ([START, block_start(a_text()), block_start(a_text("x"))], 3),
    ([START, event({"type": "content_block_start", "index": 0})], 2),
    ([START, *a_block(a_text()), block_start(a_use())], 4),
    ([START, block_delta({"type": "text_delta", "text": "x"})], 2),
    ([START, block_start(a_text()), block_delta({"type": "text_delta", "text": "x"}, index=-1)], 3),
    ([START, block_start(a_text()), block_delta({"type": "text_delta", "text": "x"}, index=False)], 3),
    ([START, *a_block(a_text()), block_delta({"type": "text_delta", "text": "x"})], 4),
    ([START, block_stop()], 2),
    *(
        ([START, block_start(block), block_delta(delta)], 3)
        for block, delta in (
            (a_text(), {"type": "thinking_delta", "thinking": "x"}),
            (a_text(), {"type": "input_json_delta", "partial_json": "{}"}),
            (a_text(), {"type": "text_delta"}),
            (a_text(), {"type": "text_delta", "text": 7}),
            (a_text(), {"type": "citations_delta", "citation": "x"}),
            (a_text(), {"type": ["text_delta"], "text": "x"}),
            (a_text(), {"type": "new_delta", "text": "x"}),
            (a_text(), "x"),
            (THINKING, {"type": "text_delta", "text": "x"}),
            ({"type": "redacted_thinking", "data": "x"}, {"type": "signature_delta", "signature": "x"}),
            (a_use(), {"type": "text_delta", "text": "x"}),
            (a_use(), {"type": "input_json_delta", "partial_json": {"claim": "saved"}}),
        )
    ),
    ([START, *a_block(a_text(7), {"type": "text_delta", "text": "x"})], 4),
    ([START, *a_block(a_text(citations=7), {"type": "citations_delta", "citation": {}})], 4),
    ([START, *a_block(a_use(input={"claim": "saved"}), {"type": "input_json_delta", "partial_json": "{}"})], 4),
    ([START, event({"type": "message_delta", "delta": None})], 2),
    ([START, event({"type": "message_delta", "delta": {}, "usage": 7})], 2),
    ([START, conclusion(), block_start(a_text())], 3),
    ([START, conclusion("end_turn"), conclusion("tool_use")], 3),
    ([START, event({"type": "message_delta", "delta": {"model": "other"}})], 2),
]


@pytest.mark.parametrize(("events", "number"), CONTRADICTIONS)
def test_a_contradiction_is_named_by_its_event(events: list[str], number: int) -> None:
    assert failure(joined(events), **STREAMED) == ("STREAM_CONTRADICTION", f"event {number}")


@pytest.mark.parametrize(
    ("events", "number"),
    [
        ([], 1),
        ([PING], 2),
        ([START], 2),
        (TEXT[:-1], len(TEXT)),
        ([*TEXT[:-1], PING], len(TEXT) + 1),
        ([START, STOP], 2),
        ([START, block_start(a_text()), conclusion(), STOP], 4),
        ([*TEXT[:-2], STOP], len(TEXT) - 1),
    ],
)
def test_what_is_missing_makes_a_stream_incomplete(events: list[str], number: int) -> None:
    assert failure(joined(events), **STREAMED) == ("STREAM_INCOMPLETE", f"event {number}")


@pytest.mark.parametrize("number", range(len(CALL) + 1))
def test_an_error_event_is_the_providers_wherever_it_comes(number: int) -> None:
    error = event({"type": "error", "error": {"type": "overloaded_error", "message": "x"}})
    body = joined([*CALL[:number], error, *CALL[number:]])
    assert failure(body, **STREAMED) == ("PROVIDER_ERROR", f"event {number + 1}")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("[DONE]", "MALFORMED_JSON"),
        ('{"type":"ping"', "MALFORMED_JSON"),
        ('["ping"]', "MALFORMED_JSON"),
        ('{"type":"ping","type":"ping"}', "DUPLICATE_KEY"),
        ('{"type":"ping","n":1e999}', "LIMIT_EXCEEDED"),
    ],
)
def test_every_event_is_strict_json(data: str, reason: str) -> None:
    assert failure(joined([START, event(data, name="ping")]), **STREAMED) == (reason, "event 2")


def test_a_body_in_place_of_a_stream_is_incomplete() -> None:
    assert failure(message(), **STREAMED) == ("STREAM_INCOMPLETE", "event 1")


@pytest.mark.parametrize(
    ("body", "reason", "where"),
    [
        (stream_of(*TEXT[2:-2], end=(conclusion(None), STOP)), "MISSING_STOP_REASON", "/stop_reason"),
        (stream_of(*TEXT[2:-2], end=(conclusion("max_tokens"), STOP)), "TRUNCATED", "/stop_reason"),
        (stream_of(*TEXT[2:-2], end=(conclusion("pause_turn"), STOP)), "CONTINUATION_REQUIRED", "/stop_reason"),
        (stream_of(), "EMPTY_TEXT", "/content"),
        (stream_of(*a_block(5)), "INVALID_MESSAGE", "/content/0"),
        (stream_of(*a_block({"type": "new"}, {"type": "new_delta"}, "x")), "INVALID_MESSAGE", "/content/0"),
        (
            stream_of(*a_block({"type": "server_tool_use"}, {"type": "input_json_delta", "partial_json": "{"})),
            "SERVER_TOOL_USED",
            "/content/0",
        ),
        (
            stream_of(end=(conclusion(delta={"stop_reason": "end_turn", "container": {"id": "c"}}), STOP)),
            "SERVER_TOOL_USED",
            "/container",
        ),
        (
            stream_of(
                *a_block(a_text(""), {"type": "citations_delta", "citation": {"type": "web_search_result_location"}})
            ),
            "SERVER_TOOL_USED",
            "/content/0/citations/0",
        ),
        (
            stream_of(*TEXT[2:-2], end=(conclusion(usage={"output_tokens": 50}), STOP)),
            "TRUNCATED",
            "/usage/output_tokens",
        ),
        (arguments('{"claim":'), "MALFORMED_ARGUMENTS", "/content/0/input"),
        (arguments('{"claim":"saved"}', "}"), "MALFORMED_ARGUMENTS", "/content/0/input"),
        (arguments('{"claim":"saved","claim":', '"unknown"}'), "MALFORMED_ARGUMENTS", "/content/0/input"),
        (arguments('{"claim":"saved"},"id":', '{"id":"x"}'), "MALFORMED_ARGUMENTS", "/content/0/input"),
        (arguments('["saved"]'), "MALFORMED_ARGUMENTS", "/content/0/input"),
        (arguments('"{}"'), "MALFORMED_ARGUMENTS", "/content/0/input"),
        (arguments('{"claim":', reason="max_tokens"), "TRUNCATED", "/stop_reason"),
        (arguments(" \n"), "INVALID_ARGUMENTS", "/content/0/input"),
        (arguments(), "INVALID_ARGUMENTS", "/content/0/input"),
    ],
)
def test_the_rules_judge_what_the_events_make(body: bytes, reason: str, where: str) -> None:
    assert failure(body, **STREAMED, output_cap=50) == (reason, where)


@pytest.mark.parametrize(
    "body",
    [
        arguments('{"cl', 'aim":"sa', "", 'ved"}'),
        arguments(' \n{"claim":"saved"}', "\t"),
        arguments(start={"claim": "saved"}),
        arguments("", start={"claim": "saved"}),
        arguments('{"cl\\u0061im":"saved"}', start={"claim": "saved"}),
        arguments('{"claim":"saved"}', start=None),
    ],
)
def test_arguments_are_the_joined_text_or_the_blocks_own(body: bytes) -> None:
    verdict = judged(body, **STREAMED).verdict
    assert isinstance(verdict, Action)
    assert verdict.arguments == b'{"claim":"saved"}'


def test_counts_are_cumulative() -> None:
    start = message(content=[], usage={"input_tokens": 700, "cache_read_input_tokens": 3, "output_tokens": 1})
    events = [
        event({"type": "message_start", "message": start}),
        *TEXT[2:-2],
        conclusion(usage={"input_tokens": 1500, "cache_read_input_tokens": None, "output_tokens": 20}),
        conclusion(usage={"output_tokens": 30}),
        STOP,
    ]
    assert judged(joined(events), **STREAMED).usage == Usage(1503, 30, cached_tokens=3)
    assert judged(joined(events[:-1]), **STREAMED).usage == Usage()


def raw_event(name: str, rest: str) -> str:
    return event(f'{{"type":"{name}",{rest}}}', name=name)


def test_opaque_bytes_survive_the_events() -> None:
    """docs/formats.md, Opaque items of a streamed answer."""
    redacted = '{ "type" : "redacted_thinking","data":"\\u003d", "n":1.50 ,"z":[ ]}'
    thinking = '{"type":"thinking","z" : {"b":[ ],"a":1.0e3},"thinking":"","signature":"","a":-0}'
    call = '{"type":"tool_use","id":"t","name":"finish","input":{ },"tags":[ ]}'
    events = [
        START,
        raw_event("content_block_start", f'"index":0,"content_block": {thinking} '),
        *(block_delta({"type": "thinking_delta", "thinking": piece}) for piece in ("H\u00e9", "m.")),
        *(block_delta({"type": "signature_delta", "signature": piece}) for piece in ("c2", "ln")),
        block_stop(),
        raw_event("content_block_start", f'"content_block":{redacted},"index":1'),
        block_stop(1),
        raw_event("content_block_start", f'"index":2,"content_block":{call}'),
        raw_event(
            "content_block_delta", '"index":2,"delta":{"type":"input_json_delta","partial_json":" {\\"claim\\": "}'
        ),
        block_delta({"type": "input_json_delta", "partial_json": '"sav\\u0065d" } '}, index=2),
        block_stop(2),
        conclusion("tool_use"),
        STOP,
    ]
    admission = judged(joined(events), **STREAMED)
    assert admission.continuation is not None
    assert admission.continuation.message.decode() == (
        '[{"a":-0,"signature":"c2ln","thinking":"H\u00e9m.","type":"thinking","z":{"b":[ ],"a":1.0e3}},'
        f"{redacted},"
        '{"id":"t","input":{"claim": "sav\\u0065d" },"name":"finish","tags":[ ],"type":"tool_use"}]'
    )


def test_citations_are_appended() -> None:
    cited = a_text("all ", citations=[{"n": 1}])
    call = a_block(a_use(), index=1)
    deltas = ({"type": "citations_delta", "citation": {"n": 2}}, {"type": "text_delta", "text": "done"})
    body = stream_of(*a_block(cited, *deltas), *call, end=(conclusion("tool_use"), STOP))
    admission = judged(body, **STREAMED)
    assert admission.continuation is not None
    assert json.loads(admission.continuation.message)[0] == a_text("all done", citations=[{"n": 1}, {"n": 2}])
