"""Requests of the messages format (docs/formats.md, Conversation (messages))."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from adapter_svc.admission.raw_json import compose_array, compose_object, items, part
from adapter_svc.routes.profile import Route
from adapter_svc.routes.request_form import RequestForm, Turn
from countersign.kit.canonical import canonical_json

_OPENING_MESSAGES = 1
_MESSAGES_PER_TURN = 2


def _conversation(system_message: str, packet: bytes, turns: Sequence[Turn]) -> Mapping[str, bytes]:
    return {"messages": compose_array(_messages(packet, turns)), "system": canonical_json(system_message)}


def _messages(packet: bytes, turns: Sequence[Turn]) -> Iterator[bytes]:
    yield canonical_json({"content": packet.decode("utf-8"), "role": "user"})
    for turn in turns:
        yield compose_object({"content": turn.continuation.message, "role": canonical_json("assistant")})
        result = {"content": turn.result, "tool_use_id": turn.tool_call_id, "type": "tool_result"}
        yield canonical_json({"content": [result], "role": "user"})


def _tools(tools: Sequence[Mapping[str, Any]]) -> Any:
    return [
        {"description": tool["description"], "input_schema": tool["parameters"], "name": tool["name"]} for tool in tools
    ]


def _settings(route: Route) -> Mapping[str, Any]:
    settings: dict[str, Any] = {
        "max_tokens": route.output_cap,
        "model": route.model,
        "tool_choice": {"type": "auto"},
    }
    return settings | {"stream": True} if route.streamed else settings


def _returned(body: bytes, turns: Sequence[Turn]) -> Sequence[bytes]:
    said = items(part(body, "messages"))[_OPENING_MESSAGES::_MESSAGES_PER_TURN]
    return [part(message, "content") for message in said]


MESSAGES_FORM = RequestForm(_conversation, _tools, _settings, _returned)
