"""Requests of the messages format (docs/formats.md, Conversation (messages))."""

import json
from typing import Any

import pytest

from adapter_svc.admission import Continuation, WireFormat
from adapter_svc.routes import ContinuationChanged, InputLimitExceeded, InvalidRoute, Turn, build_request
from countersign.kit.canonical import canonical_json, sha256
from tests.adapter_svc.routes.helpers import a_route

TOOLS = [{"name": "wait", "description": "Wait.", "parameters": {"type": "object", "properties": {}}}]
OPAQUE = b'[ {"type":"thinking", "n":1.00e0,"signature":"\\u003d"},\n{"name":"wait","id":"toolu:1"}, {"z":[ ]} ]'


def a_turn(content: bytes = OPAQUE, call_id: str = "toolu:1 \u00e9") -> Turn:
    return Turn(Continuation(content, sha256(content)), call_id, '{"tick":1}', "wait")


def build(*turns: Turn, **changes: Any) -> bytes:
    route = a_route(**{"wire_format": WireFormat.MESSAGES, **changes})
    return build_request(route, "Be good. \u00e9", b'{"a":1}', TOOLS, turns)


def test_the_first_request_is_canonical_and_complete() -> None:
    body = build(request_options=b'{"thinking": {"type": "enabled", "budget_tokens": 100}, "temperature": 1.0}')
    assert body == (
        b'{"max_tokens":512,"messages":[{"content":"{\\"a\\":1}","role":"user"}],"model":"m",'
        b'"system":"Be good. \xc3\xa9","temperature":1.0,"thinking":{"budget_tokens":100,"type":"enabled"},'
        b'"tool_choice":{"type":"auto"},'
        b'"tools":[{"description":"Wait.","input_schema":{"properties":{},"type":"object"},"name":"wait"}]}'
    )
    assert body == canonical_json(json.loads(body))


def test_a_streamed_request_says_so() -> None:
    assert build(streamed=True).replace(b'"stream":true,', b"") == build()


def test_past_turns_go_back_byte_for_byte_and_in_order() -> None:
    second = b'[{"z":0,"a":-0}]'
    body = build(a_turn(), a_turn(second, "x"))
    result = (
        '{"content":[{"content":"{\\"tick\\":1}","tool_use_id":"toolu:1 \u00e9","type":"tool_result"}],"role":"user"}'
    )
    said = b'{"content":' + OPAQUE + b',"role":"assistant"},' + result.encode()
    assert said + b',{"content":' + second + b',"role":"assistant"},' in body
    assert [one["role"] for one in json.loads(body)["messages"]] == ["user", *["assistant", "user"] * 2]


@pytest.mark.parametrize(
    "content",
    [b"[1],[2]", b"[1", b"", b" [] ", b'[],"role":"user"', b'[]},{"content":[]'],
)
def test_broken_bytes_are_never_sent(content: bytes) -> None:
    with pytest.raises(ContinuationChanged):
        build(a_turn(content))


def test_changed_bytes_are_never_sent() -> None:
    with pytest.raises(ContinuationChanged):
        build(Turn(Continuation(OPAQUE.replace(b"1.00e0", b"1.0"), sha256(OPAQUE)), "c", "{}", "wait"))


@pytest.mark.parametrize("turns", [(), (a_turn(),)])
def test_the_limit_counts_messages_system_and_tools_and_equality_passes(turns: tuple[Turn, ...]) -> None:
    body = build(*turns)
    start, end = body.index(b'"messages":'), body.index(b',"model"')
    system = body[body.index(b'"system":') : body.index(b',"tool_choice"')]
    size = len(b"{" + body[start:end] + b"," + system + b"," + body[body.index(b'"tools":') : -1] + b"}")
    assert build(*turns, input_limit_bytes=size, streamed=True, request_options=b'{"note":"x"}') != b""
    with pytest.raises(InputLimitExceeded) as caught:
        build(*turns, input_limit_bytes=size - 1)
    assert (caught.value.measured_bytes, caught.value.limit_bytes) == (size, size - 1)


@pytest.mark.parametrize("name", ["system", "messages", "tools", "stream", "stop_sequences", "mcp_servers"])
def test_an_option_may_not_set_what_is_set_here(name: str) -> None:
    with pytest.raises(InvalidRoute) as caught:
        build(request_options=json.dumps({name: 1}).encode())
    assert caught.value.metadata == {"field": "request_options"}


def test_requests_are_posted_to_messages() -> None:
    route = a_route(wire_format=WireFormat.MESSAGES, base_url="https://example.test/v1")
    assert route.endpoint == "https://example.test/v1/messages"
