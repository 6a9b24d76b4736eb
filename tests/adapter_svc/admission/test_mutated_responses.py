"""Spoilt responses and spoilt events: never an unhandled exception, and never an action that the bytes do not hold."""

import json
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from adapter_svc.admission import Action, Admission, Reason, TechnicalUnknown, TextFinish, WireFormat
from tests.adapter_svc.admission import helpers
from tests.adapter_svc.admission.responses_helpers import (
    REASONING,
    a_call,
    a_message,
    a_part,
    a_refusal,
    a_response,
    judge,
    written,
)
from tests.adapter_svc.admission.splitting import chat_stream, response_stream
from tests.adapter_svc.admission.test_mutations import odd_values, places, put

BODIES = [
    a_response(a_message(a_part("all "), a_part("done"), a_refusal()), tool_usage={"web_search": {"num_requests": 0}}),
    a_response(REASONING, a_call(name="wait", arguments="{}"), content_filters=[{"blocked": False}]),
    a_response(
        {**REASONING, "summary": [{"type": "summary_text", "text": "s"}]}, a_message(a_part("I wait.")), a_call()
    ),
]
DETAILS = [{"type": "reasoning.text", "index": 0, "text": "ab"}, {"type": "reasoning.encrypted", "data": "x"}]
CHAT = {
    "id": "gen-1",
    "model": "m",
    "choices": [
        {
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "content": "I wait.",
                "reasoning": "because",
                "reasoning_details": DETAILS,
                "tool_calls": [helpers.a_call()],
            },
        }
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 2},
}


def spoil(whole: Any, data: st.DataObject) -> None:
    for place in data.draw(st.lists(st.sampled_from(places(whole)), min_size=1, max_size=3)):
        try:
            put(whole, place, data.draw(odd_values))
        except (TypeError, KeyError, IndexError):
            continue  # an earlier change took the place away


def require_sound(admission: Admission) -> None:
    """An action is what its continuation holds; anything else is a text or has a reason."""
    if not isinstance(admission.verdict, Action):
        assert isinstance(admission.verdict, TextFinish | TechnicalUnknown)
        assert admission.continuation is None
        return
    assert admission.continuation is not None
    sent = json.loads(admission.continuation.message)
    if isinstance(sent, dict):
        (call,) = sent["tool_calls"]
        name, call_id, arguments = call["function"]["name"], call["id"], call["function"]["arguments"]
    else:
        (call,) = [item for item in sent if item["type"] == "function_call"]
        name, call_id, arguments = call["name"], call["call_id"], call["arguments"]
    assert (name, call_id) == (admission.verdict.tool, admission.verdict.tool_call_id)
    assert json.loads(arguments) == json.loads(admission.verdict.arguments)


@given(st.sampled_from(BODIES), st.data())
def test_any_field_of_a_response_may_be_any_value(body: dict[str, Any], data: st.DataObject) -> None:
    whole = json.loads(json.dumps(body))
    spoil(whole, data)
    admission = judge(json.dumps(whole).encode())
    require_sound(admission)
    if not isinstance(admission.verdict, TechnicalUnknown):
        assert whole["status"] == "completed"


def events_of(stream: bytes) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in stream.decode().splitlines() if line.startswith("data: {")]
    return [json.loads(line) for line in lines]


RESPONSE_EVENTS = [events_of(response_stream(json.dumps(body), Random(5))) for body in BODIES]
CHAT_CHUNKS = events_of(chat_stream(CHAT, Random(5)))


@given(st.sampled_from(RESPONSE_EVENTS), st.data())
def test_any_field_of_any_event_may_be_any_value(events: list[Any], data: st.DataObject) -> None:
    spoilt = json.loads(json.dumps(events))
    spoil(spoilt, data)
    stream = "".join(f"data: {json.dumps(event)}\n\n" for event in spoilt).encode()
    require_sound(judge(stream, streamed=True))


@given(st.data())
def test_any_field_of_any_chunk_may_be_any_value(data: st.DataObject) -> None:
    spoilt = json.loads(json.dumps(CHAT_CHUNKS))
    spoil(spoilt, data)
    stream = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in [*spoilt]).encode() + b"data: [DONE]\n\n"
    require_sound(helpers.judge(stream, wire_format=WireFormat.CHAT_COMPLETIONS, streamed=True))


@given(st.sampled_from(RESPONSE_EVENTS), st.data())
def test_a_stream_whose_text_was_changed_in_one_place_alone_is_a_contradiction(
    events: list[Any], data: st.DataObject
) -> None:
    deltas = [number for number, event in enumerate(events) if event["type"].endswith((".delta", "text.done"))]
    number = data.draw(st.sampled_from(deltas))
    member = "delta" if "delta" in events[number] else "text"
    changed = {**events[number], member: events[number][member] + "x"}
    verdict = judge(written([*events[:number], changed, *events[number + 1 :]]), streamed=True).verdict
    assert isinstance(verdict, TechnicalUnknown)
    assert verdict.reason is Reason.STREAM_CONTRADICTION


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_unknown(body: bytes) -> None:
    for streamed in (False, True):
        for wire_format in (WireFormat.RESPONSES, WireFormat.CHAT_COMPLETIONS):
            found = helpers.judge(body, streamed=streamed, wire_format=wire_format).verdict
            assert isinstance(found, TechnicalUnknown)
