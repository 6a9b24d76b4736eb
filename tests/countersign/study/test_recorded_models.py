"""Which model a recorded request asked for, and what those of responses offered and had seen."""

from typing import Any

import pytest

from countersign.study.recorded_requests import REQUEST_READERS, Declared, asked_model

SENT: dict[str, Any] = {
    "max_output_tokens": 7,
    "input": [
        {"role": "user", "content": "x"},
        {"type": "reasoning", "id": "rs_1"},
        {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "go"},
        {"type": "function_call_output", "call_id": "a", "output": "{}"},
        {"type": "custom_tool_call", "call_id": "b"},
        {"type": "function_call", "call_id": None},
    ],
    "tools": [
        {"type": "function", "name": "go", "description": "Go.", "parameters": {"type": "object"}, "strict": True},
        {"type": "function", "name": "stop"},
        {"type": "web_search"},
        {"type": "namespace", "name": "tools", "tools": [{"type": "function", "name": "inner"}]},
        {"type": "custom", "name": "free"},
    ],
}


def test_a_responses_request_offers_its_functions() -> None:
    reader = REQUEST_READERS["responses"]
    assert list(reader.tools(SENT)) == [Declared("go", "Go.", {"type": "object"}), Declared("stop", "", {})]
    assert list(reader.seen_ids(SENT)) == ["a"]
    assert reader.output_cap(SENT) == 7


@pytest.mark.parametrize("sent", [{}, {"input": "hello", "tools": None, "max_output_tokens": None}])
def test_a_responses_request_may_have_none_of_these(sent: dict[str, Any]) -> None:
    reader = REQUEST_READERS["responses"]
    assert (list(reader.tools(sent)), list(reader.seen_ids(sent)), reader.output_cap(sent)) == ([], [], None)


@pytest.mark.parametrize(
    ("line", "model"),
    [
        ({"request": {"model": "m"}, "path": "/v1/models/other:generateContent"}, "m"),
        ({"request": {}, "path": "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse"}, "gemini-2.5-pro"),
        ({"request": {}, "path": "/v1/projects/p/locations/l/publishers/google/models/g:generateContent"}, "g"),
        ({"request": {}, "path": "/v1/chat/completions"}, ""),
        ({"request": {"model": 7}}, ""),
    ],
)
def test_the_model_that_was_asked_for(line: dict[str, Any], model: str) -> None:
    assert asked_model(line) == model
