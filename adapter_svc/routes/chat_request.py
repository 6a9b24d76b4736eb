"""Requests of chat_completions (docs/formats.md, Conversation (chat_completions))."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from adapter_svc.admission.raw_json import compose_array, items, part
from adapter_svc.routes.profile import Route
from adapter_svc.routes.request_form import RequestForm, Turn
from countersign.kit.canonical import canonical_json

_OPENING_MESSAGES = 2
_MESSAGES_PER_TURN = 2


def _conversation(system_message: str, packet: bytes, turns: Sequence[Turn]) -> Mapping[str, bytes]:
    return {"messages": compose_array(_messages(system_message, packet, turns))}


def _messages(system_message: str, packet: bytes, turns: Sequence[Turn]) -> Iterator[bytes]:
    yield canonical_json({"content": system_message, "role": "system"})
    yield canonical_json({"content": packet.decode("utf-8"), "role": "user"})
    for turn in turns:
        yield turn.continuation.message
        yield canonical_json({"content": turn.result, "role": "tool", "tool_call_id": turn.tool_call_id})


def _tools(tools: Sequence[Mapping[str, Any]]) -> Any:
    return [{"function": dict(tool), "type": "function"} for tool in tools]


def _settings(route: Route) -> Mapping[str, Any]:
    settings: dict[str, Any] = {
        route.output_cap_member.value: route.output_cap,
        "model": route.model,
        "tool_choice": "auto",
    }
    if route.streamed:
        settings |= {"stream": True, "stream_options": {"include_usage": True}}
    return settings


def _returned(body: bytes, turns: Sequence[Turn]) -> Sequence[bytes]:
    return items(part(body, "messages"))[_OPENING_MESSAGES::_MESSAGES_PER_TURN]


CHAT_FORM = RequestForm(_conversation, _tools, _settings, _returned)
