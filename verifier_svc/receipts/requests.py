"""The request that an episode's turn must have sent, byte for byte (docs/formats.md, Conversation)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from countersign.kit.canonical import canonical_json
from verifier_svc.receipts.conversations import Conversation
from verifier_svc.receipts.slices import raw_elements, raw_slice, written_object
from verifier_svc.receipts.strict import Limits, read
from verifier_svc.receipts.verdicts import Inadmissible
from verifier_svc.receipts.wire import WireFormat

_SETTINGS = "generationConfig"
_AUTO: Mapping[WireFormat, tuple[str, Any]] = {
    WireFormat.CHAT_COMPLETIONS: ("tool_choice", "auto"),
    WireFormat.MESSAGES: ("tool_choice", {"type": "auto"}),
    WireFormat.RESPONSES: ("tool_choice", "auto"),
    WireFormat.GENERATE_CONTENT: ("toolConfig", {"functionCallingConfig": {"mode": "AUTO"}}),
}
"""How each format says that the model may choose between a text and a call."""
_STREAMED: Mapping[WireFormat, Mapping[str, Any]] = {
    WireFormat.CHAT_COMPLETIONS: {"stream": True, "stream_options": {"include_usage": True}},
    WireFormat.MESSAGES: {"stream": True},
    WireFormat.RESPONSES: {"stream": True},
    WireFormat.GENERATE_CONTENT: {},
}
"""What asks for a stream; generate_content asks by its path."""


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """What a route's profile puts in each request; `options` are its own further members.

    `output_cap_member` names the cap's member in chat completions; the other formats have one name for it.
    """

    model: str
    output_cap: int
    output_cap_member: str = "max_tokens"
    options: Mapping[str, Any] = field(default_factory=dict)
    wire_format: WireFormat = WireFormat.CHAT_COMPLETIONS
    streamed: bool = False


@dataclass(frozen=True, slots=True)
class RequestDifference:
    """A member of a request that is not what it must be."""

    field: str
    expected: str
    actual: str


def request_differences(request: bytes, plan: RequestPlan, said: Conversation) -> list[RequestDifference]:
    """What in `request` is not as it must be, member by member and turn by turn; empty where all is."""
    expected = {**{name: canonical_json(value) for name, value in _plain_members(plan).items()}, **said.members}
    if request == written_object(expected):
        return []
    try:
        stated = read(request, Limits())
    except Inadmissible as fault:
        return [RequestDifference("request", "strict JSON", fault.unknown.reason)]
    if not isinstance(stated, dict):
        return [RequestDifference("request", "an object", type(stated).__name__)]
    found = _differing_members(request, stated, expected, said)
    return found or [RequestDifference("request", "canonical JSON", "another spelling")]


def _plain_members(plan: RequestPlan) -> dict[str, Any]:
    """Everything but the conversation; what the format sets stands before the route's options."""
    choice, auto = _AUTO[plan.wire_format]
    return {**plan.options, **_capped(plan), choice: auto, **(_STREAMED[plan.wire_format] if plan.streamed else {})}


def _capped(plan: RequestPlan) -> dict[str, Any]:
    """The model and the output cap, as the format places them."""
    if plan.wire_format is WireFormat.GENERATE_CONTENT:
        settings = plan.options.get(_SETTINGS)
        return {_SETTINGS: {**(settings if isinstance(settings, dict) else {}), "maxOutputTokens": plan.output_cap}}
    if plan.wire_format is WireFormat.RESPONSES:
        return {"model": plan.model, "max_output_tokens": plan.output_cap, "store": False}
    member = plan.output_cap_member if plan.wire_format is WireFormat.CHAT_COMPLETIONS else "max_tokens"
    return {"model": plan.model, member: plan.output_cap}


def _differing_members(
    request: bytes, stated: Mapping[str, Any], expected: Mapping[str, bytes], said: Conversation
) -> list[RequestDifference]:
    found = []
    for name in sorted({*expected, *stated}):
        actual = raw_slice(request, (name,))
        if actual == expected.get(name):
            continue
        if name == said.list_name and isinstance(stated.get(name), list) and actual is not None:
            found.extend(_differing_elements(name, raw_elements(actual), said.elements))
        else:
            found.append(RequestDifference(name, _shown(expected.get(name)), _shown(actual)))
    return found


def _differing_elements(name: str, actual: Sequence[bytes], expected: Sequence[bytes]) -> list[RequestDifference]:
    found = []
    for index in range(max(len(actual), len(expected))):
        want = expected[index] if index < len(expected) else None
        got = actual[index] if index < len(actual) else None
        if want != got:
            found.append(RequestDifference(f"{name}/{index}", _shown(want), _shown(got)))
    return found


def _shown(value: bytes | None) -> str:
    return "absent" if value is None else value.decode("utf-8", "backslashreplace")
