"""Requests of responses (docs/formats.md, Conversation (responses))."""

import json
from random import Random
from typing import Any

import pytest

from adapter_svc.admission import Action, Continuation, WireFormat
from adapter_svc.routes import ContinuationChanged, InputLimitExceeded, Turn, build_request
from countersign.kit.canonical import canonical_json, sha256
from tests.adapter_svc.admission.responses_helpers import judge
from tests.adapter_svc.admission.splitting import response_stream
from tests.adapter_svc.routes.helpers import a_route

TOOLS = [{"name": "wait", "description": "Wait.", "parameters": {"type": "object", "properties": {}}}]
REASONING = b'{"type":"reasoning","id":"rs_1","encrypted_content":"gA\\u002b==","summary":[ ],"n":1.00E0,"new":{}}'
CALL = b'{"type" : "function_call","id":"fc_1","call_id":"c:0","name":"wait","arguments":"{ }"}'
OUTPUT = b"[ %b ,\n%b ]" % (REASONING, CALL)


def a_turn(output: bytes = OUTPUT, call_id: str = "c:0") -> Turn:
    return Turn(Continuation(output, sha256(output)), call_id, '{"tick":1}', "wait")


def build(*turns: Turn, **changes: Any) -> bytes:
    route = a_route(wire_format=WireFormat.RESPONSES, **changes)
    return build_request(route, "Be good. é", b'{"a":1}', TOOLS, turns)


def test_the_first_request_is_canonical_and_complete() -> None:
    body = build(request_options=b'{"zeta": 1.0, "reasoning": {"effort": "low"}, "include": ["x"]}')
    assert body == (
        b'{"include":["x"],"input":[{"content":"{\\"a\\":1}","role":"user"}],'
        b'"instructions":"Be good. \xc3\xa9","max_output_tokens":512,"model":"m","reasoning":{"effort":"low"},'
        b'"store":false,"tool_choice":"auto",'
        b'"tools":[{"description":"Wait.","name":"wait","parameters":{"properties":{},"type":"object"},'
        b'"type":"function"}],"zeta":1.0}'
    )
    assert body == canonical_json(json.loads(body))


def test_a_streamed_route_asks_for_a_stream() -> None:
    assert {**json.loads(build()), "stream": True} == json.loads(build(streamed=True))


RESULT = b'{"call_id":"c:0","output":"{\\"tick\\":1}","type":"function_call_output"}'


def test_every_item_goes_back_byte_for_byte_and_in_order() -> None:
    second = b'[{"type":"function_call","call_id":"\\u0078","z":0,"a":[]}]'
    body = build(a_turn(), a_turn(second, "x"))
    last = RESULT.replace(b"c:0", b"x")
    assert b",".join([REASONING, CALL, RESULT, second[1:-1], last]) + b'],"instructions"' in body
    assert [item.get("type") for item in json.loads(body)["input"]] == [
        *(None, "reasoning", "function_call", "function_call_output", "function_call", "function_call_output")
    ]


def test_what_a_stream_gave_goes_back_as_its_last_event_had_it() -> None:
    raw = f'{{"model":"m", "output" : {OUTPUT.decode()} ,"status":"completed"}}'.replace("\n", "")
    admission = judge(response_stream(raw, Random(3)), streamed=True)
    assert isinstance(admission.verdict, Action)
    assert admission.continuation is not None
    turn = Turn(admission.continuation, admission.verdict.tool_call_id, '{"tick":1}', "wait")
    assert b",".join([REASONING, CALL, RESULT]) in build(turn)


@pytest.mark.parametrize(
    "turn",
    [
        Turn(Continuation(OUTPUT, sha256(OUTPUT + b" ")), "c", "{}", "wait"),
        Turn(Continuation(OUTPUT.replace(b"1.00E0", b"1.0"), sha256(OUTPUT)), "c", "{}", "wait"),
        a_turn(b'{"a":1}'),
        a_turn(b'[{"a":1}],[]'),
        a_turn(b"[{]"),
        a_turn(b""),
    ],
)
def test_changed_or_broken_bytes_are_never_sent(turn: Turn) -> None:
    with pytest.raises(ContinuationChanged):
        build(turn)


@pytest.mark.parametrize("turns", [(), (a_turn(),), (a_turn(), a_turn(call_id="é"))])
def test_the_limit_counts_input_instructions_and_tools(turns: tuple[Turn, ...]) -> None:
    body = build(*turns)
    shown, tools = body[: body.index(b',"max_output_tokens"')], body[body.index(b'"tools":') :]
    size = len(shown + b"," + tools)
    assert build(*turns, input_limit_bytes=size) == body
    with pytest.raises(InputLimitExceeded) as caught:
        build(*turns, input_limit_bytes=size - 1)
    assert (caught.value.measured_bytes, caught.value.limit_bytes) == (size, size - 1)
    assert build(*turns, input_limit_bytes=size, streamed=True) != body
