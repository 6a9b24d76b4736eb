"""Requests of the generate_content format (docs/formats.md, Conversation (generate_content))."""

import json
from typing import Any

import pytest

from adapter_svc.admission import Continuation, WireFormat
from adapter_svc.routes import ContinuationChanged, InputLimitExceeded, InvalidRoute, Turn, build_request
from countersign.kit.canonical import canonical_json, sha256
from tests.adapter_svc.routes.helpers import a_route

TOOLS = [{"name": "wait", "description": "Wait.", "parameters": {"type": "object", "properties": {}}}]
OPAQUE = b'{ "role":"model", "n":1.00e0, "parts":[ {"text":"\\u003d"}, {"functionCall":{"name":"wait"}} ],\n"z":[ ]}'


def a_turn(content: bytes = OPAQUE, call_id: str = "", tool: str = "wait") -> Turn:
    return Turn(
        Continuation(content, sha256(content)), call_id, '{"tick":1,"observation":{"b":0.5,"a":"\u00e9"}}', tool
    )


def build(*turns: Turn, **changes: Any) -> bytes:
    route = a_route(**{"wire_format": WireFormat.GENERATE_CONTENT, **changes})
    return build_request(route, "Be good. \u00e9", b'{"a":1}', TOOLS, turns)


def test_the_first_request_is_canonical_and_complete() -> None:
    body = build(request_options=b'{"generationConfig": {"temperature": 1.0}, "safetySettings": []}')
    assert body == (
        b'{"contents":[{"parts":[{"text":"{\\"a\\":1}"}],"role":"user"}],'
        b'"generationConfig":{"maxOutputTokens":512,"temperature":1.0},"safetySettings":[],'
        b'"systemInstruction":{"parts":[{"text":"Be good. \xc3\xa9"}]},'
        b'"toolConfig":{"functionCallingConfig":{"mode":"AUTO"}},'
        b'"tools":[{"functionDeclarations":[{"description":"Wait.","name":"wait",'
        b'"parametersJsonSchema":{"properties":{},"type":"object"}}]}]}'
    )
    assert body == canonical_json(json.loads(body))


def test_a_streamed_request_has_the_same_body_and_another_path() -> None:
    assert build(streamed=True) == build()
    asked = {"wire_format": WireFormat.GENERATE_CONTENT, "base_url": "https://example.test/v1", "model": "a/b"}
    assert a_route(**asked).endpoint == "https://example.test/v1/models/a%2Fb:generateContent"
    streamed = a_route(**asked, streamed=True)
    assert streamed.endpoint == "https://example.test/v1/models/a%2Fb:streamGenerateContent?alt=sse"


def test_past_turns_go_back_byte_for_byte_and_in_order() -> None:
    second = b'{"role":"model","parts":[{"text":"","a":-0}]}'
    body = build(a_turn(), a_turn(second, "c \u00e9", "finish"))
    response = '"response":{"observation":{"a":"\u00e9","b":0.5},"tick":1}}}],"role":"user"}'
    first = '{"parts":[{"functionResponse":{"name":"wait",' + response
    named = '{"parts":[{"functionResponse":{"id":"c \u00e9","name":"finish",' + response
    assert OPAQUE + b"," + first.encode() + b"," + second + b"," + named.encode() + b"]" in body
    assert [one["role"] for one in json.loads(body)["contents"]] == ["user", *["model", "user"] * 2]


@pytest.mark.parametrize("content", [b"{},{}", b'{"a":1', b"", b" {} "])
def test_broken_bytes_are_never_sent(content: bytes) -> None:
    with pytest.raises(ContinuationChanged):
        build(a_turn(content))


def test_changed_bytes_are_never_sent() -> None:
    with pytest.raises(ContinuationChanged):
        build(Turn(Continuation(OPAQUE.replace(b"1.00e0", b"1.0"), sha256(OPAQUE)), "", "{}", "wait"))


@pytest.mark.parametrize("turns", [(), (a_turn(),)])
def test_the_limit_counts_contents_system_and_tools_and_equality_passes(turns: tuple[Turn, ...]) -> None:
    body = build(*turns)
    contents = body[body.index(b'"contents":') : body.index(b',"generationConfig"')]
    system = body[body.index(b'"systemInstruction":') : body.index(b',"toolConfig"')]
    size = len(b"{" + contents + b"," + system + b"," + body[body.index(b'"tools":') : -1] + b"}")
    assert build(*turns, input_limit_bytes=size) == body
    with pytest.raises(InputLimitExceeded) as caught:
        build(*turns, input_limit_bytes=size - 1)
    assert (caught.value.measured_bytes, caught.value.limit_bytes) == (size, size - 1)


@pytest.mark.parametrize(
    "options",
    [
        {"contents": []},
        {"system_instruction": {}},
        {"cachedContent": "x"},
        {"generation_config": {}},
        {"generationConfig": []},
        {"generationConfig": None},
        {"generationConfig": {"maxOutputTokens": 1}},
        {"generationConfig": {"max_output_tokens": 1}},
        {"generationConfig": {"candidateCount": 2}},
        {"generationConfig": {"stopSequences": ["x"]}},
    ],
)
def test_an_option_may_not_set_what_is_set_here(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidRoute) as caught:
        build(request_options=json.dumps(options).encode())
    assert caught.value.metadata == {"field": "request_options"}
