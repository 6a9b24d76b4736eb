"""Spoilt bodies of messages and generate_content: never an unhandled exception, and never an action that the bytes do
not hold.
"""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapter_svc.admission import Action, TechnicalUnknown, TextFinish
from tests.adapter_svc.admission.bodies import (
    GENERATE_CONTENT,
    MESSAGES,
    THINKING,
    a_text,
    a_use,
    encoded,
    generated,
    judged,
    message,
    part_of_call,
)
from tests.adapter_svc.admission.test_mutations import places, put

BODIES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (MESSAGES, message(THINKING, a_text("I claim.", citations=[]), a_use(caller={"type": "direct"}))),
    (MESSAGES, message(a_text(), container=None, usage={"output_tokens": 1, "server_tool_use": {"x": 0}})),
    (GENERATE_CONTENT, generated({"text": "Hm.", "thought": True}, {"text": "I"}, part_of_call(id="c"))),
    (GENERATE_CONTENT, generated(groundingMetadata={}, whole={"promptFeedback": {"blockReason": None}})),
]

odd_values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**65), 2**65),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", " ", "end_turn", "tool_use", "STOP", "error", "text", "thinking", "wait", "{}", "model"]),
    st.sampled_from(["[]", "{}", "[null]", "[{}, {}]", '{"type": "text"}', '{"text": "x"}']).map(json.loads),
)


@given(st.sampled_from(BODIES), st.data())
def test_any_field_may_be_any_value(case: tuple[dict[str, Any], dict[str, Any]], data: st.DataObject) -> None:
    asked, good = case
    whole = json.loads(json.dumps(good))
    for place in data.draw(st.lists(st.sampled_from(places(whole)), min_size=1, max_size=3)):
        try:
            put(whole, place, data.draw(odd_values))
        except (TypeError, KeyError, IndexError):
            continue  # an earlier change took the place away
    admission = judged(whole, **asked)
    if isinstance(admission.verdict, Action):
        assert admission.continuation is not None
        sent_back = json.loads(admission.continuation.message)
        held = sent_back if isinstance(sent_back, list) else [part.get("functionCall") for part in sent_back["parts"]]
        called = {"name": admission.verdict.tool, "arguments": json.loads(admission.verdict.arguments)}
        calls = [call for call in held if isinstance(call, dict) and "name" in call]
        assert called in [
            {"name": call["name"], "arguments": call.get("input", call.get("args", {}))} for call in calls
        ]
    else:
        assert isinstance(admission.verdict, TextFinish | TechnicalUnknown)


@pytest.mark.parametrize(("asked", "body"), BODIES)
def test_a_cut_body_is_malformed(asked: dict[str, Any], body: dict[str, Any]) -> None:
    whole = encoded(body)
    for end in range(len(whole)):
        verdict = judged(whole[:end], **asked).verdict
        assert isinstance(verdict, TechnicalUnknown)
        assert (verdict.reason.value, verdict.where) == ("MALFORMED_JSON", "")
