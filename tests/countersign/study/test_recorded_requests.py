"""What recorded requests offered, had seen and asked for, in every spelling that real clients use."""

from typing import Any

import pytest

from countersign.study.recorded_requests import REQUEST_READERS, Declared

SCHEMA = {"type": "object", "properties": {"type": {"type": "string", "enum": ["STRING"]}}}
GOOGLE_SCHEMA = {"type": "OBJECT", "properties": {"type": {"type": "STRING", "enum": ["STRING"]}}}
GO = Declared("go", "Go.", SCHEMA)
FUNCTION: dict[str, Any] = {"name": "go", "description": "Go."}


@pytest.mark.parametrize(
    ("name", "sent", "tools"),
    [
        ("messages", {"tools": [{**FUNCTION, "input_schema": SCHEMA}]}, [GO]),
        ("messages", {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, []),
        ("messages", {}, []),
        (
            "generate_content",
            {"tools": [{"functionDeclarations": [{**FUNCTION, "parametersJsonSchema": SCHEMA}]}]},
            [GO],
        ),
        (
            "generate_content",
            {"tools": {"function_declarations": [{**FUNCTION, "parameters_json_schema": SCHEMA}]}},
            [GO],
        ),
        ("generate_content", {"tools": [{"functionDeclarations": [{**FUNCTION, "parameters": GOOGLE_SCHEMA}]}]}, [GO]),
        ("generate_content", {"tools": [{"functionDeclarations": [{"name": "go"}]}]}, [Declared("go", "", {})]),
        ("generate_content", {"tools": [{"googleSearch": {}}, "x"]}, []),
        ("chat_completions", {"tools": [{"function": {**FUNCTION, "parameters": SCHEMA}}, {"type": "x"}]}, [GO]),
    ],
)
def test_the_functions_that_were_offered(name: str, sent: dict[str, Any], tools: list[Declared]) -> None:
    assert list(REQUEST_READERS[name].tools(sent)) == tools


@pytest.mark.parametrize(
    ("name", "sent", "ids"),
    [
        (
            "messages",
            {"messages": [{"content": "x"}, {"content": [{"type": "tool_use", "id": "a"}, {"type": "x", "id": "b"}]}]},
            ["a"],
        ),
        (
            "generate_content",
            {"contents": [{"parts": [{"functionCall": {"id": "a"}}, {"function_call": {"id": "b"}}, {"text": "x"}]}]},
            ["a", "b"],
        ),
        ("generate_content", {"contents": [{"parts": [{"functionCall": {"name": "x"}}]}]}, []),
        ("chat_completions", {"messages": [{"tool_calls": [{"id": "a"}, {"id": 7}]}, "x"]}, ["a"]),
    ],
)
def test_the_ids_of_the_calls_so_far(name: str, sent: dict[str, Any], ids: list[str]) -> None:
    assert list(REQUEST_READERS[name].seen_ids(sent)) == ids


@pytest.mark.parametrize(
    ("name", "sent", "cap"),
    [
        ("messages", {"max_tokens": 9}, 9),
        ("messages", {"max_tokens": True}, None),
        ("generate_content", {"generationConfig": {"maxOutputTokens": 9}}, 9),
        ("generate_content", {"generation_config": {"max_output_tokens": 9}}, 9),
        ("generate_content", {"generationConfig": {}}, None),
        ("generate_content", {}, None),
        ("chat_completions", {"max_completion_tokens": 8, "max_tokens": 9}, 8),
        ("chat_completions", {"max_tokens": 0}, None),
    ],
)
def test_the_output_cap_that_was_asked_for(name: str, sent: dict[str, Any], cap: int | None) -> None:
    assert REQUEST_READERS[name].output_cap(sent) == cap
