"""Streams of responses: the last event is the answer, and everything before it must agree (design/admission.md,
Streams).
"""

import json
from random import Random
from typing import Any

import pytest

from adapter_svc.admission import Action, Reason, TechnicalUnknown, TextFinish
from tests.adapter_svc.admission.responses_helpers import (
    REASONING,
    a_call,
    a_message,
    a_part,
    a_refusal,
    a_response,
    judge,
    numbered,
    streamed_failure,
    streamed_unknown,
    written,
)
from tests.adapter_svc.admission.splitting import response_stream

Event = dict[str, Any]
ADDED, DONE = "response.output_item.added", "response.output_item.done"
DELTA, TEXT_DONE = "response.output_text.delta", "response.output_text.done"
PART_DONE = "response.content_part.done"
ARGUMENTS_DELTA, ARGUMENTS_DONE = "response.function_call_arguments.delta", "response.function_call_arguments.done"


def events_of(response: Event) -> list[Event]:
    stream = response_stream(json.dumps(response), Random(1)).decode()
    return [json.loads(line.removeprefix("data: ")) for line in stream.splitlines() if line.startswith("data: ")]


TEXT = events_of(a_response(REASONING, a_message(a_part("all done"))))
TOOL = events_of(a_response(REASONING, a_call()))


def changed(events: list[Event], kind: str, **changes: Any) -> list[Event]:
    """The events with every one of `kind` changed."""
    return [{**event, **changes} if event["type"] == kind else event for event in events]


def without(events: list[Event], *kinds: str) -> list[Event]:
    """The events without those of some kinds, numbered anew."""
    return numbered([event for event in events if event["type"] not in kinds])


def with_final(events: list[Event], **changes: Any) -> list[Event]:
    return [*events[:-1], {**events[-1], "response": {**events[-1]["response"], **changes}}]


def test_the_stream_is_what_the_tests_take_it_for() -> None:
    assert [event["type"] for event in TEXT] == [
        *("response.created", "response.in_progress", ADDED, DONE, ADDED),
        *([DELTA] * 2 + [TEXT_DONE, PART_DONE, DONE, "response.completed"]),
    ]
    assert {event["type"] for event in TOOL} > {ARGUMENTS_DELTA, ARGUMENTS_DONE}


@pytest.mark.parametrize("named", [True, False])
def test_the_last_events_response_is_the_answer(named: bool) -> None:
    assert judge(written(TEXT, named=named), streamed=True).verdict == TextFinish("all done")
    admission = judge(written(TOOL, named=named), streamed=True)
    assert admission.verdict == Action("finish", b'{"claim":"saved"}', "call_1", "")
    assert (admission.usage.input_tokens, admission.usage.output_tokens) == (10, 5)


OPAQUE = (
    '[{"type":"reasoning","id":"rs_1","encrypted_content":"gA\\u002b==","summary":[ ],"n":1.00E0,"z":{}} ,'
    ' {"type":"function_call","id":"fc_1","call_id":"c","name":"wait","arguments":"{ }"}]'
)


def test_the_continuation_keeps_the_last_events_bytes() -> None:
    raw = f'{{"model":"m", "output" : {OPAQUE} ,"status":"completed","id":"resp_1"}}'
    admission = judge(response_stream(raw, Random(2)), streamed=True)
    assert isinstance(admission.verdict, Action)
    assert admission.continuation is not None
    assert admission.continuation.message == OPAQUE.encode()


@pytest.mark.parametrize(
    ("kind", "status", "reason", "where"),
    [
        ("response.incomplete", "incomplete", Reason.TRUNCATED, "/incomplete_details/reason"),
        ("response.failed", "failed", Reason.PROVIDER_ERROR, "/status"),
        ("response.cancelled", "cancelled", Reason.PROVIDER_ERROR, "/status"),
        ("response.completed", "queued", Reason.CONTINUATION_REQUIRED, "/status"),
        ("response.completed", None, Reason.MISSING_STOP_REASON, "/status"),
    ],
)
def test_every_end_is_judged_by_the_unary_rules(kind: str, status: Any, reason: Reason, where: str) -> None:
    events = with_final(TEXT, status=status, incomplete_details={"reason": "max_output_tokens"})
    assert streamed_failure(written([*events[:-1], {**events[-1], "type": kind}])) == (reason, where)


def test_a_failed_responses_own_error_is_the_place() -> None:
    failed = with_final(TEXT, status="failed", error={"code": "server_error"})
    stream = written([*failed[:-1], {**failed[-1], "type": "response.failed"}])
    assert streamed_failure(stream) == (Reason.PROVIDER_ERROR, "/error")


@pytest.mark.parametrize("kind", ["response.incomplete", "response.failed", "response.cancelled"])
def test_an_end_that_its_status_contradicts_is_none(kind: str) -> None:
    stream = written([*TOOL[:-1], {**TOOL[-1], "type": kind}])
    assert streamed_failure(stream) == (Reason.STREAM_CONTRADICTION, f"event {len(TOOL)}")
    unfinished = written(with_final(TOOL, status=kind.removeprefix("response.")))
    assert streamed_failure(unfinished) == (Reason.STREAM_CONTRADICTION, f"event {len(TOOL)}")


@pytest.mark.parametrize("response", [None, "x", []])
def test_an_end_without_a_response_is_no_end(response: Any) -> None:
    events = [*TOOL[:-1], {**TOOL[-1], "response": response}]
    assert streamed_unknown(events) == TechnicalUnknown(Reason.INVALID_MESSAGE, f"event {len(TOOL)}")


# Ends and errors


@pytest.mark.parametrize("end", range(len(TOOL)))
def test_a_stream_without_its_end_is_incomplete(end: int) -> None:
    assert streamed_failure(written(TOOL[:end])) == (Reason.STREAM_INCOMPLETE, f"event {end + 1}")


def test_a_done_mark_may_follow_the_end_and_never_replaces_it() -> None:
    mark = b"data: [DONE]\n\n"
    assert isinstance(judge(written(TOOL) + mark + mark, streamed=True).verdict, Action)
    assert streamed_failure(written(TOOL[:-1]) + mark) == (Reason.STREAM_INCOMPLETE, f"event {len(TOOL)}")
    assert streamed_failure(mark) == (Reason.STREAM_INCOMPLETE, "event 1")


@pytest.mark.parametrize("after", [TOOL[-1], TOOL[0], {"type": "keepalive"}])
def test_nothing_comes_after_the_end(after: Event) -> None:
    found = streamed_failure(written([*TOOL, {**after, "sequence_number": len(TOOL)}]))
    assert found == (Reason.STREAM_CONTRADICTION, f"event {len(TOOL) + 1}")


@pytest.mark.parametrize(
    "error",
    [
        b'event: error\ndata: {"type":"error","code":"x","message":"y"}\n\n',
        b'data: {"type":"error","code":"x","message":"y"}\n\n',
        b"event: error\ndata: upstream gone\n\n",
        b'data: {"error":{"message":"y"}}\n\n',
        b'data: {"type":"response.created","error":{"message":"y"}}\n\n',
    ],
)
def test_an_error_event_is_the_providers_wherever_it_stands(error: bytes) -> None:
    assert streamed_failure(error) == (Reason.PROVIDER_ERROR, "event 1")
    assert streamed_failure(written(TOOL[:-1]) + error) == (Reason.PROVIDER_ERROR, f"event {len(TOOL)}")
    assert streamed_failure(written(TOOL) + error) == (Reason.PROVIDER_ERROR, f"event {len(TOOL) + 1}")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"{", Reason.MALFORMED_JSON),
        (b"[]", Reason.MALFORMED_JSON),
        (b'{"type":"a","type":"a"}', Reason.DUPLICATE_KEY),
        (b'{"type":"a","n":1e999}', Reason.LIMIT_EXCEEDED),
        (b'{"delta":"x"}', Reason.INVALID_MESSAGE),
        (b'{"type":7}', Reason.INVALID_MESSAGE),
    ],
)
def test_an_event_that_is_none_of_the_format_ends_it(data: bytes, reason: Reason) -> None:
    assert streamed_failure(b"data: %b\n\n" % data + written(TOOL)) == (reason, "event 1")


def test_a_unary_body_is_no_stream() -> None:
    assert streamed_failure(json.dumps(a_response(a_call())).encode()) == (Reason.STREAM_INCOMPLETE, "event 1")
    assert judge(written(TOOL)).verdict == TechnicalUnknown(Reason.MALFORMED_JSON, "")


# Agreement


@pytest.mark.parametrize("extra", [{"type": "keepalive"}, {"type": "response.new", "delta": "x", "output_index": 0}])
def test_an_unknown_event_is_passed_over_but_counted(extra: Event) -> None:
    events = numbered([*TOOL[:3], extra, *TOOL[3:]])
    assert isinstance(judge(written(events), streamed=True).verdict, Action)


def test_an_event_is_of_the_name_that_it_is_sent_under() -> None:
    stream = written(TOOL).replace(b"event: response.created", b"event: response.completed")
    assert streamed_failure(stream) == (Reason.STREAM_CONTRADICTION, "event 1")


@pytest.mark.parametrize("number", [0, 3, 4, "2", 2.0, True])
def test_the_numbers_rise_by_one(number: Any) -> None:
    events = [*TOOL[:2], {**TOOL[2], "sequence_number": number}, *TOOL[3:]]
    assert streamed_unknown(events) == TechnicalUnknown(Reason.STREAM_CONTRADICTION, "event 3")


def test_numbers_may_begin_anywhere_or_be_absent() -> None:
    later = [{**event, "sequence_number": event["sequence_number"] + 7} for event in TOOL]
    unnumbered = [{name: value for name, value in event.items() if name != "sequence_number"} for event in TOOL]
    assert isinstance(judge(written(later), streamed=True).verdict, Action)
    assert isinstance(judge(written(unnumbered), streamed=True).verdict, Action)


@pytest.mark.parametrize("name", ["id", "model"])
def test_every_event_names_the_same_response(name: str) -> None:
    events = with_final(TOOL, **{name: "m2"})
    assert streamed_unknown(events).reason is Reason.STREAM_CONTRADICTION
    silent = [{**TOOL[0], "response": {**TOOL[0]["response"], name: ""}}, *TOOL[1:]]
    assert isinstance(judge(written(silent), streamed=True).verdict, Action)


LAST_OF_TEXT, LAST_OF_TOOL = f"event {len(TEXT)}", f"event {len(TOOL)}"
FINAL_TEXT = with_final(TEXT, output=[REASONING, a_message(a_part("all lost"))])


@pytest.mark.parametrize(
    "events",
    [
        FINAL_TEXT,
        without(FINAL_TEXT, DELTA),
        without(FINAL_TEXT, DELTA, TEXT_DONE),
        without(FINAL_TEXT, DELTA, TEXT_DONE, PART_DONE),
        without(FINAL_TEXT, TEXT_DONE, PART_DONE, DONE),
        with_final(TEXT, output=[REASONING, a_message(a_refusal("all done"))]),
        with_final(TEXT, output=[REASONING, a_message(content=[])]),
        with_final(TEXT, output=[REASONING, a_message(id="msg_2")]),
        with_final(TEXT, output=[a_message(a_part("all done")), REASONING]),
        with_final(TEXT, output=[a_message(a_part("all done"))]),
        with_final(TEXT, output=[REASONING, a_message(a_part("all done")), REASONING]),
        with_final(TEXT, output=[]),
        with_final(TEXT, output=None),
        with_final(TEXT, output=[REASONING, "x"]),
    ],
)
def test_the_last_event_says_what_the_events_said_of_a_text(events: list[Event]) -> None:
    found = streamed_unknown(events)
    assert found == TechnicalUnknown(Reason.STREAM_CONTRADICTION, f"event {len(events)}")


@pytest.mark.parametrize(
    "call",
    [
        a_call(arguments='{"claim": "not_saved"}'),
        a_call(name="wait"),
        a_call(call_id="call_2"),
        a_call(id="fc_2"),
        a_call(type="custom_tool_call"),
    ],
)
def test_the_last_event_says_what_the_events_said_of_a_call(call: Event) -> None:
    found = streamed_unknown(with_final(TOOL, output=[REASONING, call]))
    assert found == TechnicalUnknown(Reason.STREAM_CONTRADICTION, LAST_OF_TOOL)


def test_reasoning_may_have_another_id_and_other_encrypted_content_in_the_last_event() -> None:
    events = with_final(TOOL, output=[{**REASONING, "id": "rs_2", "encrypted_content": "other"}, a_call()])
    admission = judge(written(events), streamed=True)
    assert isinstance(admission.verdict, Action)
    assert admission.continuation is not None
    assert b'"rs_2"' in admission.continuation.message


REFUSED = events_of(
    a_response({**REASONING, "summary": [{"type": "summary_text", "text": "s"}]}, a_message(a_refusal()))
)


def test_refusals_and_summaries_are_compared_too() -> None:
    assert streamed_unknown(REFUSED) == TechnicalUnknown(Reason.STRUCTURED_REFUSAL, "/output/1/content/0")
    other = with_final(REFUSED, output=[REFUSED[-1]["response"]["output"][0], a_message(a_refusal("No."))])
    assert streamed_unknown(other).reason is Reason.STREAM_CONTRADICTION
    for kind in ("response.refusal.done", "response.reasoning_summary_text.done"):
        member = "refusal" if "refusal" in kind else "text"
        assert streamed_unknown(changed(REFUSED, kind, **{member: "x"})).reason is Reason.STREAM_CONTRADICTION


@pytest.mark.parametrize(
    "events",
    [
        changed(TEXT, TEXT_DONE, text="all lost"),
        changed(TEXT, TEXT_DONE, text=None),
        changed(TEXT, DELTA, delta=["all"]),
        changed(TEXT, DELTA, output_index=0),
        changed(TEXT, DELTA, output_index=2),
        changed(TEXT, DELTA, output_index="1"),
        changed(TEXT, DELTA, output_index=-1),
        changed(TEXT, DELTA, item_id="msg_2"),
        changed(TEXT, DELTA, content_index=None),
        changed(TEXT, DELTA, content_index=1),
        changed(TEXT, TEXT_DONE, content_index=1),
        changed(TEXT, PART_DONE, part=a_part("all lost")),
        changed(TEXT, ADDED, output_index=0),
        changed(TEXT, ADDED, item=None),
        changed(TEXT, DONE, output_index=1),
        changed(TEXT, DONE, item=a_message(id="msg_2")),
        changed(TOOL, ARGUMENTS_DONE, arguments='{"claim": "unknown"}'),
        changed(TOOL, ARGUMENTS_DELTA, item_id="fc_2"),
        changed(TOOL, ARGUMENTS_DELTA, delta="{}"),
        changed(TOOL, DONE, item=a_call(arguments="{}")),
        without(TOOL, ADDED),
        [*TOOL[:-2], TOOL[-1], TOOL[-2]],
    ],
)
def test_an_event_that_contradicts_another_is_a_contradiction(events: list[Event]) -> None:
    assert streamed_unknown(events).reason is Reason.STREAM_CONTRADICTION
    unnumbered = [{name: value for name, value in event.items() if name != "sequence_number"} for event in events]
    assert streamed_unknown(unnumbered).reason is Reason.STREAM_CONTRADICTION


def test_a_piece_after_its_text_is_done_is_a_contradiction() -> None:
    position = [event["type"] for event in TEXT].index(TEXT_DONE)
    late = {**TEXT[position - 1], "delta": ""}
    events = numbered([*TEXT[: position + 1], late, *TEXT[position + 1 :]])
    assert streamed_unknown(events) == TechnicalUnknown(Reason.STREAM_CONTRADICTION, f"event {position + 2}")


def test_only_the_end_is_needed() -> None:
    assert isinstance(judge(written(TOOL[-1:]), streamed=True).verdict, Action)
    kinds = (DELTA, TEXT_DONE, PART_DONE, DONE, ADDED)
    assert judge(written(without(TEXT, *kinds)), streamed=True).verdict == TextFinish("all done")
