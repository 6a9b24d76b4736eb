"""What each format's request must hold, byte for byte (docs/formats.md, Conversation)."""

import json
from dataclasses import replace
from typing import Any

import pytest

from verifier_svc.receipts.conversations import Conversation, Exchange, conversation, input_bytes
from verifier_svc.receipts.requests import RequestPlan, request_differences
from verifier_svc.receipts.wire import WireFormat

CHAT, MESSAGES, RESPONSES, GENERATE = WireFormat
PACKET = '{"a":"é \\"q\\""}'.encode()
RESULT = '{"executed":true,"observation":{"note":"é"}}'.encode()
OPAQUE = {
    CHAT: b'{ "role":"assistant","n":1.0,"content":null}',
    MESSAGES: b'[ {"type":"thinking","n":1e2},{"type":"tool_use"} ]',
    RESPONSES: b'[ {"type":"reasoning","n":1.0} , {"type":"function_call", "x":[ ]}]',
    GENERATE: b'{"role":"model", "parts":[ {"functionCall":{"name":"wait"},"n":1E0} ]}',
}
every = pytest.mark.parametrize("wire", list(WireFormat))


def canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def system(wording: dict[str, Any]) -> Any:
    return wording["system_message"]


def said(wording: dict[str, Any], wire: WireFormat, *call_ids: str) -> Conversation:
    earlier = [Exchange(OPAQUE[wire], "wait", call_id, RESULT) for call_id in call_ids]
    return conversation(wire, wording, "event", PACKET, earlier)


def expected(wording: dict[str, Any], wire: WireFormat, call_id: str) -> tuple[bytes, dict[str, Any]]:
    """The list of turns after one action, and the first tool, as docs/formats.md spells them."""
    packet, result, name = PACKET.decode(), RESULT.decode(), "request_verification"
    about = wording["environments"]["event"]["tools"][name]
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    opaque = OPAQUE[wire]
    if wire is CHAT:
        first = (
            canonical({"content": system(wording), "role": "system"}),
            canonical({"content": packet, "role": "user"}),
        )
        reply = canonical({"content": result, "role": "tool", "tool_call_id": call_id})
        function = {"description": about, "name": name, "parameters": schema}
        return b"[" + b",".join([*first, opaque, reply]) + b"]", {"function": function, "type": "function"}
    if wire is MESSAGES:
        block = {"content": result, "tool_use_id": call_id, "type": "tool_result"}
        turns = [
            canonical({"content": packet, "role": "user"}),
            b'{"content":' + opaque + b',"role":"assistant"}',
            canonical({"content": [block], "role": "user"}),
        ]
        return b"[" + b",".join(turns) + b"]", {"description": about, "input_schema": schema, "name": name}
    if wire is RESPONSES:
        turns = [
            canonical({"content": packet, "role": "user"}),
            b'{"type":"reasoning","n":1.0}',
            b'{"type":"function_call", "x":[ ]}',
            canonical({"call_id": call_id, "output": result, "type": "function_call_output"}),
        ]
        tool = {"description": about, "name": name, "parameters": schema, "type": "function"}
        return b"[" + b",".join(turns) + b"]", tool
    response = {"id": call_id, "name": "wait", "response": json.loads(result)}
    turns = [
        canonical({"parts": [{"text": packet}], "role": "user"}),
        opaque,
        canonical({"parts": [{"functionResponse": response}], "role": "user"}),
    ]
    return b"[" + b",".join(turns) + b"]", {"description": about, "name": name, "parametersJsonSchema": schema}


LISTS = {CHAT: "messages", MESSAGES: "messages", RESPONSES: "input", GENERATE: "contents"}
COUNTED = {
    CHAT: {"messages", "tools"},
    MESSAGES: {"messages", "system", "tools"},
    RESPONSES: {"input", "instructions", "tools"},
    GENERATE: {"contents", "systemInstruction", "tools"},
}


@every
def test_the_turns_and_the_tools(wire: WireFormat, wording: dict[str, Any]) -> None:
    turns, tool = expected(wording, wire, "call-é")
    found = said(wording, wire, "call-é")
    tools = json.loads(found.members["tools"])
    assert found.members[LISTS[wire]] == turns
    assert (tools[0]["functionDeclarations"] if wire is GENERATE else tools)[0] == tool
    assert found.members["tools"] == canonical(tools)
    assert found.members.keys() == COUNTED[wire]


@every
def test_the_input_limit_counts_the_members_that_are_said(wire: WireFormat, wording: dict[str, Any]) -> None:
    found = said(wording, wire, "c1")
    body = b"{" + b",".join(canonical(key) + b":" + found.members[key] for key in sorted(COUNTED[wire])) + b"}"
    assert input_bytes(found) == len(body)


def test_the_system_message_has_its_own_member_but_in_chat_completions(wording: dict[str, Any]) -> None:
    text = canonical(system(wording))
    assert said(wording, MESSAGES).members["system"] == text
    assert said(wording, RESPONSES).members["instructions"] == text
    assert said(wording, GENERATE).members["systemInstruction"] == b'{"parts":[{"text":' + text + b"}]}"


def test_a_call_without_an_id_is_answered_without_one(wording: dict[str, Any]) -> None:
    reply = said(wording, GENERATE, "").elements[-1]
    assert reply == (b'{"parts":[{"functionResponse":{"name":"wait","response":' + RESULT + b'}}],"role":"user"}')


PLAIN: dict[WireFormat, dict[str, Any]] = {
    CHAT: {"max_tokens": 512, "model": "m-1", "temperature": 0, "tool_choice": "auto"},
    MESSAGES: {"max_tokens": 512, "model": "m-1", "temperature": 0, "tool_choice": {"type": "auto"}},
    RESPONSES: {"max_output_tokens": 512, "model": "m-1", "store": False, "temperature": 0, "tool_choice": "auto"},
    GENERATE: {
        "generationConfig": {"maxOutputTokens": 512, "temperature": 0},
        "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
    },
}
STREAMED: dict[WireFormat, dict[str, Any]] = {
    CHAT: {"stream": True, "stream_options": {"include_usage": True}},
    MESSAGES: {"stream": True},
    RESPONSES: {"stream": True},
    GENERATE: {},
}


def plan(wire: WireFormat, streamed: bool = False) -> RequestPlan:
    options: dict[str, Any] = {"temperature": 0}
    return RequestPlan(
        "m-1",
        512,
        options={"generationConfig": options} if wire is GENERATE else options,
        wire_format=wire,
        streamed=streamed,
    )


def request(found: Conversation, plain: dict[str, Any]) -> bytes:
    members = {**found.members, **{key: canonical(value) for key, value in plain.items()}}
    return b"{" + b",".join(canonical(key) + b":" + members[key] for key in sorted(members)) + b"}"


@every
@pytest.mark.parametrize("streamed", [False, True])
def test_a_request_that_is_as_it_must_be(wire: WireFormat, streamed: bool, wording: dict[str, Any]) -> None:
    found = said(wording, wire, "c1", "c2")
    sent = request(found, {**PLAIN[wire], **(STREAMED[wire] if streamed else {})})
    assert request_differences(sent, plan(wire, streamed), found) == []
    if wire is not GENERATE:
        fields = {item.field for item in request_differences(sent, plan(wire, not streamed), found)}
        assert fields == STREAMED[wire].keys()


@every
def test_every_member_is_compared(wire: WireFormat, wording: dict[str, Any]) -> None:
    found = said(wording, wire, "c1")
    for name in PLAIN[wire]:
        changed = request(found, {**PLAIN[wire], name: "other"})
        assert [item.field for item in request_differences(changed, plan(wire), found)] == [name]
    more = request(found, {**PLAIN[wire], "n": 2})
    assert [(item.field, item.expected) for item in request_differences(more, plan(wire), found)] == [("n", "absent")]
    for name in COUNTED[wire] - {LISTS[wire]}:
        other = replace(found, others={**found.others, name: b'"x"'})
        differing = request_differences(request(other, PLAIN[wire]), plan(wire), found)
        assert [item.field for item in differing] == [name]


@every
def test_a_turn_that_was_spelled_anew_is_named(wire: WireFormat, wording: dict[str, Any]) -> None:
    found = said(wording, wire, "c1")
    at = next(index for index, turn in enumerate(found.elements) if b'"n":1' in turn)
    tidied = canonical(json.loads(found.elements[at]))
    changed = replace(found, elements=(*found.elements[:at], tidied, *found.elements[at + 1 :]))
    differing = request_differences(request(changed, PLAIN[wire]), plan(wire), found)
    assert [item.field for item in differing] == [f"{LISTS[wire]}/{at}"]
    shorter = replace(found, elements=found.elements[:-1])
    missing = request_differences(request(shorter, PLAIN[wire]), plan(wire), found)
    assert [(item.field, item.actual) for item in missing] == [(f"{LISTS[wire]}/{len(found.elements) - 1}", "absent")]


def test_only_chat_completions_name_the_cap_by_the_route(wording: dict[str, Any]) -> None:
    for wire in (CHAT, MESSAGES):
        named = replace(plan(wire), output_cap_member="max_completion_tokens")
        sent = request(said(wording, wire), PLAIN[wire])
        fields = [item.field for item in request_differences(sent, named, said(wording, wire))]
        assert fields == (["max_completion_tokens", "max_tokens"] if wire is CHAT else [])


def test_an_option_never_takes_the_place_of_what_the_format_sets(wording: dict[str, Any]) -> None:
    replaced = {"store": True, "max_output_tokens": 9, "tool_choice": "required", "temperature": 0}
    sent = request(said(wording, RESPONSES), PLAIN[RESPONSES])
    assert request_differences(sent, replace(plan(RESPONSES), options=replaced), said(wording, RESPONSES)) == []
