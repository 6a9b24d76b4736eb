"""The bytes of a chat_completions request (docs/formats.md, Conversation)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from adapter_svc.admission import Continuation
from adapter_svc.routes.errors import ContinuationChanged, InputLimitExceeded
from adapter_svc.routes.profile import Route
from countersign.kit.canonical import canonical_json, sha256

_OPENING_MESSAGES = 2
_MESSAGES_PER_TURN = 2


class _SentMessages(msgspec.Struct):
    messages: list[msgspec.Raw]


_sent_decoder = msgspec.json.Decoder(_SentMessages)


@dataclass(frozen=True, slots=True)
class Turn:
    """A past turn: the assistant's message as it came, its call's id as it came, and the event's result text."""

    continuation: Continuation
    tool_call_id: str
    result: str


def build_chat_request(
    route: Route, system_message: str, packet: bytes, tools: Sequence[Mapping[str, Any]], turns: Sequence[Turn]
) -> bytes:
    """The request's body: canonical JSON but for the assistants' messages, which go back byte for byte.

    `packet` is the public packet's canonical JSON; each of `tools` has name, description and parameters.

    Raises InputLimitExceeded where `{"messages":[...],"tools":[...]}` is over the route's limit, and
    ContinuationChanged where a continuation is not what its digest says.
    """
    messages = _array(_messages(system_message, packet, turns))
    offered = canonical_json([{"function": dict(tool), "type": "function"} for tool in tools])
    measured = len(_object({"messages": messages, "tools": offered}))
    if measured > route.input_limit_bytes:
        raise InputLimitExceeded(measured, route.input_limit_bytes)
    body = _object({**_settings(route), "messages": messages, "tools": offered})
    _require_unchanged(body, turns)
    return body


def _messages(system_message: str, packet: bytes, turns: Sequence[Turn]) -> Iterable[bytes]:
    yield canonical_json({"content": system_message, "role": "system"})
    yield canonical_json({"content": packet.decode("utf-8"), "role": "user"})
    for turn in turns:
        yield turn.continuation.message
        yield canonical_json({"content": turn.result, "role": "tool", "tool_call_id": turn.tool_call_id})


def _settings(route: Route) -> dict[str, bytes]:
    settings: dict[str, Any] = {
        **route.options,
        route.output_cap_member.value: route.output_cap,
        "model": route.model,
        "tool_choice": "auto",
    }
    return {name: canonical_json(value) for name, value in settings.items()}


def _array(items: Iterable[bytes]) -> bytes:
    return b"[" + b",".join(items) + b"]"


def _object(members: Mapping[str, bytes]) -> bytes:
    pairs = (canonical_json(name) + b":" + members[name] for name in sorted(members))
    return b"{" + b",".join(pairs) + b"}"


def _require_unchanged(body: bytes, turns: Sequence[Turn]) -> None:
    """Read the finished body again: what a provider will find there must be what it sent (I9)."""
    try:
        sent = _sent_decoder.decode(body).messages
    except msgspec.DecodeError:
        raise ContinuationChanged("a continuation is not one JSON value") from None
    returned = [sha256(bytes(message)) for message in sent[_OPENING_MESSAGES::_MESSAGES_PER_TURN]]
    if returned != [turn.continuation.digest for turn in turns]:
        raise ContinuationChanged("a continuation's bytes do not match its digest")
