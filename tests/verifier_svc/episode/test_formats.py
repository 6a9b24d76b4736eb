"""An episode in every wire format, unary and streamed, is rebuilt from its receipts alone."""

import json
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.verifier_svc.episode import played
from tests.verifier_svc.episode.played import Episode, canonical
from verifier_svc.episode import EpisodeFacts
from verifier_svc.episode.compare import EpisodeVerdict, verify_episode
from verifier_svc.packets import build_packet
from verifier_svc.physics.state import Call
from verifier_svc.receipts.verdicts import Reason
from verifier_svc.receipts.wire import WireFormat

CHAT, MESSAGES, RESPONSES, GENERATE = WireFormat
PARTS = {
    MESSAGES: '{"type":"thinking","thinking":"hm","signature":"\\u0041==","n":1.0}',
    RESPONSES: '{"type":"reasoning","id":"rs_1","summary":[ ],"encrypted_content":"x","n":1.0}',
    GENERATE: '{"text":"hm","thought":true,"n":1.0}',
}
"""An opaque item that a reader which spells it anew would change."""
FRAMES = {
    MESSAGES: '{"type":"message","role":"assistant","model":"m-1","stop_reason":"tool_use","content":[%s, %s],'
    '"usage":{"input_tokens":900,"cache_read_input_tokens":60,"cache_creation_input_tokens":40,"output_tokens":7}}',
    RESPONSES: '{"object":"response","model":"m-1","status":"completed","output":[%s, %s],'
    '"usage":{"input_tokens":1000,"input_tokens_details":{"cached_tokens":60},"output_tokens":7,"total_tokens":1007}}',
    GENERATE: '{"modelVersion":"m-1","candidates":[{"finishReason":"STOP",'
    '"content":{"role":"model","parts":[%s, %s]}}],'
    '"usageMetadata":{"promptTokenCount":1000,"candidatesTokenCount":4,"thoughtsTokenCount":3,"totalTokenCount":1007}}',
}
SCHEMA_MEMBER = {
    CHAT: "parameters",
    MESSAGES: "input_schema",
    RESPONSES: "parameters",
    GENERATE: "parametersJsonSchema",
}
LISTS = {CHAT: "messages", MESSAGES: "messages", RESPONSES: "input", GENERATE: "contents"}


def call_part(wire: WireFormat, turn: int, tool: str, arguments: Any) -> str:
    call_id = f"call-{turn}"
    if wire is MESSAGES:
        return json.dumps({"type": "tool_use", "id": call_id, "name": tool, "input": arguments})
    if wire is RESPONSES:
        called = {"call_id": call_id, "name": tool, "arguments": json.dumps(arguments)}
        return json.dumps({"type": "function_call", **called})
    return json.dumps({"functionCall": {"name": tool, "args": arguments}, "thoughtSignature": "s=="})


def unary(wire: WireFormat, turn: int, tool: str, arguments: Any) -> tuple[bytes, list[bytes]]:
    """The answer, and what must go back of it."""
    part = call_part(wire, turn, tool, arguments)
    items = [PARTS[wire].encode(), part.encode()]
    return (FRAMES[wire] % (PARTS[wire], part)).encode(), items


def streamed(wire: WireFormat, turn: int, tool: str, arguments: Any) -> tuple[bytes, list[bytes]]:
    """The answer as events, and what must go back of the body that they make."""
    if wire is CHAT:
        return streamed_chat(turn, tool, json.dumps(arguments))
    body, items = unary(wire, turn, tool, arguments)
    if wire is RESPONSES:
        return events(f'{{"type":"response.completed","response":{body.decode()}}}'), items
    if wire is GENERATE:
        first = f'{{"modelVersion":"m-1","candidates":[{{"content":{{"role":"model","parts":[{PARTS[wire]}]}}}}]}}'
        return events(first, body.decode().replace(PARTS[wire] + ", ", "")), items
    begun = (
        '{"type":"message_start","message":{"type":"message","role":"assistant","model":"m-1","content":[],"usage":%s}}'
    )
    usage = body.decode().partition('"usage":')[2][:-1]
    text = json.dumps(arguments)
    block = {"type": "tool_use", "id": f"call-{turn}", "name": tool, "input": {}}
    delta = '{"type":"content_block_delta","index":%s,"delta":%s}'
    whole = (
        begun % usage.replace(":7", ":1"),
        '{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":"","n":1.0}}',
        delta % (0, '{"type":"thinking_delta","thinking":"hm"}'),
        delta % (0, '{"type":"signature_delta","signature":"\\u0041=="}'),
        '{"type":"content_block_stop","index":0}',
        f'{{"type":"content_block_start","index":1,"content_block":{json.dumps(block)}}}',
        delta % (1, json.dumps({"type": "input_json_delta", "partial_json": text[:3]})),
        delta % (1, json.dumps({"type": "input_json_delta", "partial_json": text[3:]})),
        '{"type":"content_block_stop","index":1}',
        '{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":7}}',
        '{"type":"message_stop"}',
    )
    opaque = [
        b'{"n":1.0,"signature":"A==","thinking":"hm","type":"thinking"}',
        f'{{"id":"call-{turn}","input":{text},"name":"{tool}","type":"tool_use"}}'.encode(),
    ]
    return events(*whole), opaque


def streamed_chat(turn: int, tool: str, text: str) -> tuple[bytes, list[bytes]]:
    call = {"index": 0, "id": f"call-{turn}", "type": "function", "function": {"name": tool, "arguments": text[:3]}}
    more = {"tool_calls": [{"index": 0, "function": {"arguments": text[3:]}}]}
    chunk = '{"model":"m-1","choices":[{"index":0,"delta":%s,"finish_reason":%s}]}'
    whole = (
        chunk % ('{"role":"assistant","content":null,"reasoning":"h","x":{"n":1.0}}', "null"),
        chunk % (f'{{"reasoning":"m","tool_calls":[{json.dumps(call)}]}}', "null"),
        chunk % (json.dumps(more), "null"),
        chunk % ("{}", '"tool_calls"'),
        '{"model":"m-1","choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":7}}',
        "[DONE]",
    )
    function = canonical({"arguments": text, "name": tool})
    message = (
        b'{"content":null,"reasoning":"hm","role":"assistant","tool_calls":[{"function":%s,"id":"call-%d",'
        b'"type":"function"}],"x":{"n":1.0}}' % (function, turn)
    )
    return events(*whole), [message]


def events(*data: str) -> bytes:
    return "".join(f"data: {item}\n\n" for item in data).encode()


@dataclass
class FormatEpisode(Episode):
    """The finished episode in another format; `opaque` holds the items of each answer."""

    wire: WireFormat = MESSAGES
    is_streamed: bool = False
    opaque: tuple[list[bytes], ...] = ()

    def facts(self) -> EpisodeFacts:
        plan = replace(played.ROUTE.request, wire_format=self.wire, streamed=self.is_streamed, options={})
        return replace(super().facts(), route=replace(played.ROUTE, request=plan))

    def request(self, turn: int) -> bytes:
        packet = build_packet(self.case, self.wording).decode()
        results = [text.decode() for text in self.results()[len(self.case.operator_prefix) :]]
        turns = self._opening(packet)
        for earlier in range(1, turn):
            turns += self._exchange(earlier, self.opaque[earlier - 1], results[earlier - 1])
        joined = b"[" + b",".join(turns) + b"]"
        members = {**self._members(json.loads(packet)["observation"]["tools"]), **self._stream()}
        list_name = LISTS[self.wire]
        spelled = {list_name: joined, **{name: canonical(value) for name, value in members.items()}}
        return b"{" + b",".join(canonical(name) + b":" + spelled[name] for name in sorted(spelled)) + b"}"

    def _opening(self, packet: str) -> list[bytes]:
        if self.wire is GENERATE:
            return [canonical({"parts": [{"text": packet}], "role": "user"})]
        system = canonical({"content": self.wording["system_message"], "role": "system"})
        user = canonical({"content": packet, "role": "user"})
        return [system, user] if self.wire is CHAT else [user]

    def _exchange(self, turn: int, opaque: list[bytes], result: str) -> list[bytes]:
        call_id = f"call-{turn}"
        if self.wire is CHAT:
            return [*opaque, canonical({"content": result, "role": "tool", "tool_call_id": call_id})]
        if self.wire is MESSAGES:
            separator = b"," if self.is_streamed else b", "
            answer = b'{"content":[' + separator.join(opaque) + b'],"role":"assistant"}'
            reply = {"content": result, "tool_use_id": call_id, "type": "tool_result"}
            return [answer, canonical({"content": [reply], "role": "user"})]
        if self.wire is RESPONSES:
            return [*opaque, canonical({"call_id": call_id, "output": result, "type": "function_call_output"})]
        name = json.loads(opaque[1])["functionCall"]["name"]
        answer = b'{"role":"model","parts":[' + b", ".join(opaque) + b"]}"
        if self.is_streamed:
            answer = b'{"parts":[' + b",".join(opaque) + b'],"role":"model"}'
        response = {"name": name, "response": json.loads(result)}
        return [answer, canonical({"parts": [{"functionResponse": response}], "role": "user"})]

    def _stream(self) -> dict[str, Any]:
        if self.wire is CHAT:
            return {"stream": True, "stream_options": {"include_usage": True}}
        return {"stream": True} if self.is_streamed and self.wire is not GENERATE else {}

    def _members(self, names: list[str]) -> dict[str, Any]:
        system, tools = self.wording["system_message"], [self._tool(name) for name in names]
        if self.wire is CHAT:
            functions = [{"function": tool, "type": "function"} for tool in tools]
            return {"max_tokens": 512, "model": "m-1", "tool_choice": "auto", "tools": functions}
        if self.wire is MESSAGES:
            choice = {"type": "auto"}
            return {"max_tokens": 512, "model": "m-1", "system": system, "tool_choice": choice, "tools": tools}
        if self.wire is RESPONSES:
            fixed = {"model": "m-1", "max_output_tokens": 512, "store": False, "tool_choice": "auto"}
            return {**fixed, "instructions": system, "tools": [{**tool, "type": "function"} for tool in tools]}
        return {
            "generationConfig": {"maxOutputTokens": 512},
            "systemInstruction": {"parts": [{"text": system}]},
            "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
            "tools": [{"functionDeclarations": tools}],
        }

    def _tool(self, name: str) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
        if name == "finish":
            claim = {"type": "string", "enum": ["saved", "not_saved", "unknown"]}
            schema = {**schema, "properties": {"claim": claim}, "required": ["claim"]}
        about = self.wording["environments"]["event"]["tools"][name]
        return {"name": name, "description": about, SCHEMA_MEMBER[self.wire]: schema}


def finished(wording: dict[str, Any], wire: WireFormat, is_streamed: bool) -> FormatEpisode:
    """Three turns: reserve the buffer, transfer without authority, finish(saved)."""
    made = streamed if is_streamed else unary
    turns: list[tuple[str, Any]] = [("reserve_buffer", {}), ("transfer", {}), ("finish", {"claim": "saved"})]
    answers = [made(wire, turn, tool, arguments) for turn, (tool, arguments) in enumerate(turns, start=1)]
    return FormatEpisode(
        wording,
        [answer for answer, _items in answers],
        [Call("reserve_buffer"), Call("transfer"), Call("finish", "saved")],
        wire=wire,
        is_streamed=is_streamed,
        opaque=tuple(items for _answer, items in answers),
    )


def verify(episode: FormatEpisode, **change: Any) -> EpisodeVerdict:
    facts = change.pop("facts", None) or episode.facts()
    receipts = episode.receipts()
    receipts[1] = replace(receipts[1], **change)
    return verify_episode(canonical(episode.record()), facts, receipts)


def fields(verdict: EpisodeVerdict) -> set[str]:
    return {difference.field for difference in verdict.differences}


forms = pytest.mark.parametrize(
    ("wire", "is_streamed"),
    [(CHAT, True), *((wire, is_streamed) for wire in (MESSAGES, RESPONSES, GENERATE) for is_streamed in (False, True))],
)
"""Unary chat completions are the episodes of the other tests here."""


@forms
def test_an_honest_episode_agrees(wire: WireFormat, is_streamed: bool, wording: dict[str, Any]) -> None:
    verdict = verify(finished(wording, wire, is_streamed))
    assert (verdict.differences, verdict.agrees) == ((), True)


@forms
def test_opaque_items_that_were_spelled_anew_are_caught(
    wire: WireFormat, is_streamed: bool, wording: dict[str, Any]
) -> None:
    episode = finished(wording, wire, is_streamed)
    request = episode.request(2).replace(b'"n":1.0', b'"n":1', 1)
    turn = 2 if wire is CHAT else 1
    assert f"turn_2/request/{LISTS[wire]}/{turn}" in fields(verify(episode, request=request))


@forms
def test_another_form_than_the_routes_is_never_acted_on(
    wire: WireFormat, is_streamed: bool, wording: dict[str, Any]
) -> None:
    episode = finished(wording, wire, is_streamed)
    plan = replace(episode.facts().route.request, streamed=not is_streamed)
    facts = replace(episode.facts(), route=replace(episode.facts().route, request=plan))
    verdict = verify(episode, facts=facts)
    assert verdict.reason is (Reason.MALFORMED_JSON if is_streamed else Reason.STREAM_INCOMPLETE)
    assert not verdict.agrees


@pytest.mark.parametrize("wire", list(WireFormat))
def test_a_stream_that_was_cut_ends_the_episode_without_an_action(wire: WireFormat, wording: dict[str, Any]) -> None:
    episode = finished(wording, wire, True)
    cut = episode.answers[1][:-2]
    verdict = verify(episode, response=cut)
    assert (verdict.reason, verdict.outcome) == (Reason.STREAM_INCOMPLETE, None)
    assert {"turn_3/call", "calls/turn_2/cost"} <= fields(verdict)
