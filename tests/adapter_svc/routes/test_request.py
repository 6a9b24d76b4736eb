"""The request's bytes (docs/formats.md, Conversation)."""

import json
from typing import Any

import pytest

from adapter_svc.admission import Continuation
from adapter_svc.routes import ContinuationChanged, InputLimitExceeded, OutputCapMember, Route, Turn, build_request
from countersign.kit.canonical import canonical_json, sha256
from tests.adapter_svc.routes.helpers import a_route

TOOLS = [{"name": "wait", "description": "Wait.", "parameters": {"type": "object", "properties": {}}}]
OPAQUE = b'{ "role":"assistant", "n":1.00e0, "empty":[ ],"text":"\\u00e9\xc3\xa9",\n"tool_calls":[] }'


def a_turn(message: bytes = OPAQUE, call_id: str = "functions.wait:0") -> Turn:
    return Turn(Continuation(message, sha256(message)), call_id, '{"tick":1}', "wait")


def build(*turns: Turn, route: Route | None = None, **changes: Any) -> bytes:
    return build_request(route or a_route(**changes), "Be good. é", b'{"a":1}', TOOLS, turns)


def test_the_first_request_is_canonical_and_complete() -> None:
    body = build(request_options=b'{"zeta": 1.0, "provider": {"allow_fallbacks": false, "order": ["x"]}}')
    assert body == (
        b'{"max_tokens":512,'
        b'"messages":[{"content":"Be good. \xc3\xa9","role":"system"},{"content":"{\\"a\\":1}","role":"user"}],'
        b'"model":"m","provider":{"allow_fallbacks":false,"order":["x"]},"tool_choice":"auto",'
        b'"tools":[{"function":{"description":"Wait.","name":"wait","parameters":{"properties":{},"type":"object"}},'
        b'"type":"function"}],"zeta":1.0}'
    )
    assert body == canonical_json(json.loads(body))


def test_the_output_cap_has_the_member_that_the_route_names() -> None:
    body = json.loads(build(output_cap_member=OutputCapMember.MAX_COMPLETION_TOKENS))
    assert body["max_completion_tokens"] == 512
    assert "max_tokens" not in body


def test_past_turns_go_back_byte_for_byte_and_in_order() -> None:
    second = b'{"role":"assistant","z":0,"a":0}'
    body = build(a_turn(), a_turn(second, "x"))
    result = b'{"content":"{\\"tick\\":1}","role":"tool","tool_call_id":"functions.wait:0"}'
    assert OPAQUE + b"," + result + b"," + second + b"," in body
    assert [message["role"] for message in json.loads(body)["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
    ]


def test_the_same_inputs_give_the_same_bytes() -> None:
    assert build(a_turn()) == build(a_turn())


@pytest.mark.parametrize(
    "turn",
    [
        Turn(Continuation(OPAQUE, sha256(OPAQUE + b" ")), "c", "{}", "wait"),
        Turn(Continuation(OPAQUE.replace(b"1.00e0", b"1.0"), sha256(OPAQUE)), "c", "{}", "wait"),
        Turn(Continuation(b'{"a":1},{"b":2}', sha256(b'{"a":1},{"b":2}')), "c", "{}", "wait"),
        Turn(Continuation(b'{"a":1', sha256(b'{"a":1')), "c", "{}", "wait"),
        Turn(Continuation(b"", sha256(b"")), "c", "{}", "wait"),
        Turn(Continuation(b" {} ", sha256(b" {} ")), "c", "{}", "wait"),
    ],
)
def test_changed_or_broken_bytes_are_never_sent(turn: Turn) -> None:
    with pytest.raises(ContinuationChanged):
        build(turn)


@pytest.mark.parametrize("turns", [(), (a_turn(),), (a_turn(), a_turn(call_id="é"))])
def test_the_limit_counts_messages_and_tools_and_equality_passes(turns: tuple[Turn, ...]) -> None:
    body = build(*turns)
    start, end = body.index(b'"messages":'), body.index(b',"model"')
    tools = body[body.index(b'"tools":') : -1]
    size = len(b"{" + body[start:end] + b"," + tools + b"}")
    assert build(*turns, input_limit_bytes=size) == body
    with pytest.raises(InputLimitExceeded) as caught:
        build(*turns, input_limit_bytes=size - 1)
    assert (caught.value.measured_bytes, caught.value.limit_bytes) == (size, size - 1)


def test_the_limit_does_not_count_the_routes_own_options() -> None:
    size = len(build())
    assert len(build(request_options=b'{"note":"' + b"x" * 500 + b'"}', input_limit_bytes=size)) > size


def test_a_streamed_route_asks_for_a_stream_with_usage() -> None:
    streamed = {**json.loads(build()), "stream": True, "stream_options": {"include_usage": True}}
    assert json.loads(build(streamed=True)) == streamed
