"""The request that an episode's turn must have sent, byte for byte (docs/formats.md, Conversation)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from countersign.kit.canonical import canonical_json
from verifier_svc.physics.environments import offered_tools
from verifier_svc.receipts.slices import raw_elements, raw_slice
from verifier_svc.receipts.strict import Limits, read
from verifier_svc.receipts.verdicts import Inadmissible


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """What a route's profile puts in each request; `options` are its own further members."""

    model: str
    output_cap: int
    output_cap_member: str = "max_tokens"
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Exchange:
    """An earlier turn: the assistant's message as it came, its call's id as it came, the result that went back."""

    assistant_message: bytes
    call_id: str
    result: bytes


@dataclass(frozen=True, slots=True)
class RequestDifference:
    """A member of a request that is not what it must be."""

    field: str
    expected: str
    actual: str


def expected_messages(wording: Mapping[str, Any], packet: bytes, earlier: Sequence[Exchange]) -> list[bytes]:
    """The bytes of each message: system, packet, then each earlier answer unchanged and the result it got."""
    system = canonical_json({"content": wording["system_message"], "role": "system"})
    user = canonical_json({"content": packet.decode("utf-8"), "role": "user"})
    turns = [part for exchange in earlier for part in (exchange.assistant_message, _tool_message(exchange))]
    return [system, user, *turns]


def _tool_message(exchange: Exchange) -> bytes:
    content = exchange.result.decode("utf-8")
    return canonical_json({"content": content, "role": "tool", "tool_call_id": exchange.call_id})


def expected_tools(wording: Mapping[str, Any], environment: str) -> bytes:
    """The canonical JSON of the `tools` member; raises UnsupportedEnvironment."""
    return canonical_json([{"function": tool, "type": "function"} for tool in offered_tools(environment, wording)])


def input_bytes(messages: Sequence[bytes], tools: bytes) -> int:
    """How many bytes of {messages, tools} count against a route's input limit."""
    return len(_joined({"messages": _array(messages), "tools": tools}))


def request_differences(
    request: bytes, plan: RequestPlan, messages: Sequence[bytes], tools: bytes
) -> list[RequestDifference]:
    """What in `request` is not as it must be, member by member and message by message; empty where all is."""
    expected = {
        **{name: canonical_json(value) for name, value in plan.options.items()},
        plan.output_cap_member: canonical_json(plan.output_cap),
        "messages": _array(messages),
        "model": canonical_json(plan.model),
        "tool_choice": b'"auto"',
        "tools": tools,
    }
    if request == _joined(expected):
        return []
    try:
        stated = read(request, Limits())
    except Inadmissible as fault:
        return [RequestDifference("request", "strict JSON", fault.unknown.reason)]
    if not isinstance(stated, dict):
        return [RequestDifference("request", "an object", type(stated).__name__)]
    found = _differing_members(request, stated, expected, messages)
    return found or [RequestDifference("request", "canonical JSON", "another spelling")]


def _differing_members(
    request: bytes, stated: Mapping[str, Any], expected: Mapping[str, bytes], messages: Sequence[bytes]
) -> list[RequestDifference]:
    found = []
    for name in sorted({*expected, *stated}):
        actual = raw_slice(request, (name,))
        if actual == expected.get(name):
            continue
        if name == "messages" and isinstance(stated.get(name), list) and actual is not None:
            found.extend(_differing_messages(raw_elements(actual), messages))
        else:
            found.append(RequestDifference(name, _shown(expected.get(name)), _shown(actual)))
    return found


def _differing_messages(actual: Sequence[bytes], expected: Sequence[bytes]) -> list[RequestDifference]:
    found = []
    for index in range(max(len(actual), len(expected))):
        want = expected[index] if index < len(expected) else None
        got = actual[index] if index < len(actual) else None
        if want != got:
            found.append(RequestDifference(f"messages/{index}", _shown(want), _shown(got)))
    return found


def _shown(value: bytes | None) -> str:
    return "absent" if value is None else value.decode("utf-8", "backslashreplace")


def _array(elements: Sequence[bytes]) -> bytes:
    return b"[" + b",".join(elements) + b"]"


def _joined(members: Mapping[str, bytes]) -> bytes:
    parts = (canonical_json(name) + b":" + members[name] for name in sorted(members))
    return b"{" + b",".join(parts) + b"}"
