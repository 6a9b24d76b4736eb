"""Requests of the generate_content format (docs/formats.md, Conversation (generate_content)).

The model and whether the answer is streamed are in the path: `Route.endpoint`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from adapter_svc.admission.raw_json import compose_array, items, part
from adapter_svc.routes.profile import Route
from adapter_svc.routes.request_form import RequestForm, Turn
from countersign.kit.canonical import canonical_json

_OPENING_CONTENTS = 1
_CONTENTS_PER_TURN = 2


def _conversation(system_message: str, packet: bytes, turns: Sequence[Turn]) -> Mapping[str, bytes]:
    system = canonical_json({"parts": [{"text": system_message}]})
    return {"contents": compose_array(_contents(packet, turns)), "systemInstruction": system}


def _contents(packet: bytes, turns: Sequence[Turn]) -> Iterator[bytes]:
    yield canonical_json({"parts": [{"text": packet.decode("utf-8")}], "role": "user"})
    for turn in turns:
        yield turn.continuation.message
        response: dict[str, Any] = {"name": turn.tool, "response": json.loads(turn.result)}
        if turn.tool_call_id:
            response["id"] = turn.tool_call_id
        yield canonical_json({"parts": [{"functionResponse": response}], "role": "user"})


def _tools(tools: Sequence[Mapping[str, Any]]) -> Any:
    declarations = [
        {"description": tool["description"], "name": tool["name"], "parametersJsonSchema": tool["parameters"]}
        for tool in tools
    ]
    return [{"functionDeclarations": declarations}]


def _settings(route: Route) -> Mapping[str, Any]:
    option = route.options.get("generationConfig")
    own = option if isinstance(option, dict) else {}
    return {
        "generationConfig": {**own, "maxOutputTokens": route.output_cap},
        "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
    }


def _returned(body: bytes, turns: Sequence[Turn]) -> Sequence[bytes]:
    return items(part(body, "contents"))[_OPENING_CONTENTS::_CONTENTS_PER_TURN]


GENERATE_CONTENT_FORM = RequestForm(_conversation, _tools, _settings, _returned)
