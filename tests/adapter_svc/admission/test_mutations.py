"""Spoilt answers: never an unhandled exception, and never an action that the bytes do not hold."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from adapter_svc.admission import Action, Reason, TechnicalUnknown, TextFinish
from tests.adapter_svc.admission.helpers import a_call, judge, text_body, tool_body

BODIES = [
    text_body(usage={"prompt_tokens": 1, "completion_tokens": 2, "cost": 0.5}),
    tool_body(a_call(function={"arguments": "{}", "name": "wait"}), message={"reasoning_details": [{"d": "x"}]}),
    tool_body(message={"content": [{"type": "text", "text": "x"}], "function_call": None, "refusal": None}),
]

odd_values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**65), 2**65),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", " ", "stop", "tool_calls", "error", "function", "wait", "{}", "assistant"]),
    st.text(max_size=3),
    st.sampled_from(["[]", "{}", "[null]", "[{}, {}]", '{"error": 1}']).map(json.loads),
)


def places(value: Any, at: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    children: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        children = list(value.items())
    if isinstance(value, list):
        children = list(enumerate(value))
    return [(*at, key) for key, _ in children] + [deep for key, child in children for deep in places(child, (*at, key))]


def put(whole: Any, place: tuple[str | int, ...], value: Any) -> None:
    for key in place[:-1]:
        whole = whole[key]
    whole[place[-1]] = value


@given(st.sampled_from(BODIES), st.data())
def test_any_field_may_be_any_value(body: bytes, data: st.DataObject) -> None:
    whole = json.loads(body)
    for place in data.draw(st.lists(st.sampled_from(places(whole)), min_size=1, max_size=3)):
        try:
            put(whole, place, data.draw(odd_values))
        except (TypeError, KeyError, IndexError):
            continue  # an earlier change took the place away
    spoilt = json.dumps(whole).encode()
    admission = judge(spoilt)
    if isinstance(admission.verdict, Action):
        assert admission.continuation is not None
        (call,) = json.loads(admission.continuation.message)["tool_calls"]
        assert json.loads(call["function"]["arguments"]) == json.loads(admission.verdict.arguments)
        assert call["function"]["name"] == admission.verdict.tool
        assert call["id"] == admission.verdict.tool_call_id
    elif isinstance(admission.verdict, TextFinish):
        assert whole["choices"][0]["finish_reason"] == "stop"
        assert not whole["choices"][0]["message"].get("tool_calls")
    else:
        assert isinstance(admission.verdict.reason, Reason)


@given(st.sampled_from(BODIES), st.data())
def test_a_cut_body_is_malformed(body: bytes, data: st.DataObject) -> None:
    end = data.draw(st.integers(0, len(body) - 1))
    assert judge(body[:end]).verdict == TechnicalUnknown(Reason.MALFORMED_JSON, "")


@given(st.sampled_from(BODIES), st.data())
def test_a_flipped_byte_never_raises(body: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(body) - 1))
    spoilt = body[:at] + bytes([data.draw(st.integers(0, 255))]) + body[at + 1 :]
    admission = judge(spoilt)
    if isinstance(admission.verdict, Action):
        assert admission.continuation is not None
        assert admission.continuation.message in spoilt


@given(st.sampled_from(BODIES), st.data())
def test_dropping_any_part_of_the_structure_is_unknown(body: bytes, data: st.DataObject) -> None:
    needed = ["model", "choices", "finish_reason", "message", "role"]
    key = data.draw(st.sampled_from(needed))
    spoilt = body.replace(f'"{key}":'.encode(), b'"renamed":', 1)
    assert isinstance(judge(spoilt).verdict, TechnicalUnknown)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_unknown(body: bytes) -> None:
    assert isinstance(judge(body).verdict, TechnicalUnknown)
