"""Requests of responses (docs/formats.md, Conversation (responses))."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from adapter_svc.admission.raw_json import compose_array, items, part
from adapter_svc.admission.verdict import Inadmissible
from adapter_svc.routes.errors import ContinuationChanged
from adapter_svc.routes.profile import Route
from adapter_svc.routes.request_form import RequestForm, Turn
from countersign.kit.canonical import canonical_json

_OPENING_ITEMS = 1
_RESULTS_PER_TURN = 1


def _conversation(system_message: str, packet: bytes, turns: Sequence[Turn]) -> Mapping[str, bytes]:
    return {
        "input": compose_array(_input(packet, turns)),
        "instructions": canonical_json(system_message),
    }


def _input(packet: bytes, turns: Sequence[Turn]) -> Iterator[bytes]:
    yield canonical_json({"content": packet.decode("utf-8"), "role": "user"})
    for turn in turns:
        yield from _output_items(turn)
        yield canonical_json({"call_id": turn.tool_call_id, "output": turn.result, "type": "function_call_output"})


def _output_items(turn: Turn) -> list[bytes]:
    try:
        return items(turn.continuation.message)
    except Inadmissible:
        raise ContinuationChanged("a continuation is not one array") from None


def _tools(tools: Sequence[Mapping[str, Any]]) -> Any:
    return [{**tool, "type": "function"} for tool in tools]


def _settings(route: Route) -> Mapping[str, Any]:
    settings: dict[str, Any] = {
        "max_output_tokens": route.output_cap,
        "model": route.model,
        "store": False,
        "tool_choice": "auto",
    }
    return {**settings, "stream": True} if route.streamed else settings


def _returned(body: bytes, turns: Sequence[Turn]) -> Sequence[bytes]:
    """Every turn's array as it came where each of its items stands in the input, else the array that stands there."""
    sent = items(part(body, "input"))
    returned, start = [], _OPENING_ITEMS
    for turn in turns:
        came = _output_items(turn)
        found = sent[start : start + len(came)]
        returned.append(turn.continuation.message if found == came else compose_array(found))
        start += len(came) + _RESULTS_PER_TURN
    return returned


RESPONSES_FORM = RequestForm(_conversation, _tools, _settings, _returned)
