"""What a turn's request says to the model, in each wire format (docs/formats.md, Conversation)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from countersign.kit.canonical import canonical_json
from verifier_svc.physics.environments import offered_tools
from verifier_svc.receipts.slices import raw_elements, written_array, written_object
from verifier_svc.receipts.wire import WireFormat


@dataclass(frozen=True, slots=True)
class Exchange:
    """An earlier turn: the opaque items as they came, the call as it came, the result that went back.

    `call_id` is empty where the call had none.
    """

    continuation: bytes
    tool: str
    call_id: str
    result: bytes


@dataclass(frozen=True, slots=True)
class Conversation:
    """The members that count against the input limit, as JSON texts: the list of turns, and the others."""

    list_name: str
    elements: tuple[bytes, ...]
    others: Mapping[str, bytes]

    @property
    def members(self) -> dict[str, bytes]:
        """All of them by name."""
        return {self.list_name: written_array(self.elements), **self.others}


Tool = Mapping[str, Any]


def conversation(
    wire_format: WireFormat, wording: Mapping[str, Any], environment: str, packet: bytes, earlier: Sequence[Exchange]
) -> Conversation:
    """The conversation after `earlier` turns; raises UnsupportedEnvironment."""
    tools = offered_tools(environment, wording)
    return _BUILDERS[wire_format](wording["system_message"], tools, packet.decode("utf-8"), earlier)


def input_bytes(said: Conversation) -> int:
    """How many bytes of a conversation count against a route's input limit."""
    return len(written_object(said.members))


def _chat(system: str, tools: Sequence[Tool], packet: str, earlier: Sequence[Exchange]) -> Conversation:
    messages = [_json(content=system, role="system"), _json(content=packet, role="user")]
    for turn in earlier:
        messages += [turn.continuation, _json(content=_text(turn), role="tool", tool_call_id=turn.call_id)]
    offered = canonical_json([{"function": tool, "type": "function"} for tool in tools])
    return Conversation("messages", tuple(messages), {"tools": offered})


def _messages(system: str, tools: Sequence[Tool], packet: str, earlier: Sequence[Exchange]) -> Conversation:
    messages = [_json(content=packet, role="user")]
    for turn in earlier:
        result = {"content": _text(turn), "tool_use_id": turn.call_id, "type": "tool_result"}
        answer = written_object({"content": turn.continuation, "role": canonical_json("assistant")})
        messages += [answer, _json(content=[result], role="user")]
    offered = canonical_json([_renamed(tool, "input_schema") for tool in tools])
    return Conversation("messages", tuple(messages), {"system": canonical_json(system), "tools": offered})


def _responses(system: str, tools: Sequence[Tool], packet: str, earlier: Sequence[Exchange]) -> Conversation:
    items = [_json(content=packet, role="user")]
    for turn in earlier:
        output = _json(call_id=turn.call_id, output=_text(turn), type="function_call_output")
        items += [*raw_elements(turn.continuation), output]
    offered = canonical_json([{**tool, "type": "function"} for tool in tools])
    return Conversation("input", tuple(items), {"instructions": canonical_json(system), "tools": offered})


def _generate(system: str, tools: Sequence[Tool], packet: str, earlier: Sequence[Exchange]) -> Conversation:
    contents = [_json(parts=[{"text": packet}], role="user")]
    for turn in earlier:
        response = {"name": canonical_json(turn.tool), "response": turn.result}
        if turn.call_id:
            response["id"] = canonical_json(turn.call_id)
        part = written_object({"functionResponse": written_object(response)})
        reply = written_object({"parts": written_array([part]), "role": canonical_json("user")})
        contents += [turn.continuation, reply]
    declared = [_renamed(tool, "parametersJsonSchema") for tool in tools]
    others = {
        "systemInstruction": _json(parts=[{"text": system}]),
        "tools": canonical_json([{"functionDeclarations": declared}]),
    }
    return Conversation("contents", tuple(contents), others)


_BUILDERS: Mapping[WireFormat, Callable[[str, Sequence[Tool], str, Sequence[Exchange]], Conversation]] = {
    WireFormat.CHAT_COMPLETIONS: _chat,
    WireFormat.MESSAGES: _messages,
    WireFormat.RESPONSES: _responses,
    WireFormat.GENERATE_CONTENT: _generate,
}


def _json(**members: Any) -> bytes:
    return canonical_json(members)


def _text(turn: Exchange) -> str:
    return turn.result.decode("utf-8")


def _renamed(tool: Tool, schema_member: str) -> dict[str, Any]:
    return {"description": tool["description"], "name": tool["name"], schema_member: tool["parameters"]}
