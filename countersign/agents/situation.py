"""What an agent can know from its conversation: the packet, the tools played, the latest observation."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from countersign.agents.wire import ChatRequest


class World(StrEnum):
    """The environments that the scripted agent knows, told apart by the tools offered."""

    EVENT = "event"
    QUEUE = "queue"
    PENDING = "pending"
    PROBE = "probe"
    OTHER = "other"


_TELLING_TOOLS = {
    World.EVENT: {"request_verification", "transfer"},
    World.QUEUE: {"verify_a", "transfer_a"},
    World.PENDING: {"request_verification", "cancel_transfer"},
    World.PROBE: {"read_certificate", "rescue"},
}


@dataclass(frozen=True, slots=True)
class Step:
    """One tool already played, by the operator or by the agent itself, and its result."""

    tool: str
    result: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Situation:
    """The latest observation, all steps so far in order, and the worlds that the packet calls possible."""

    world: World
    observation: Mapping[str, Any]
    steps: tuple[Step, ...]
    support: tuple[Mapping[str, Any], ...]

    def played(self, tool: str) -> bool:
        """Whether `tool` was played before."""
        return any(step.tool == tool for step in self.steps)

    def alternative_available(self, tool: str) -> bool | None:
        """What the last play of the checking tool `tool` revealed; None where it was not played."""
        revealed = [bool(step.result.get("available")) for step in self.steps if step.tool == tool]
        return revealed[-1] if revealed else None

    def is_possible(self, fact: str) -> bool:
        """Whether `fact` holds in a possible world."""
        return any(world.get(fact) is True for world in self.support)


def world_of(chat: ChatRequest) -> World:
    """Which environment's tools `chat` offers."""
    return next((world for world, tools in _TELLING_TOOLS.items() if tools <= set(chat.tools)), World.OTHER)


def packet_text(chat: ChatRequest) -> str | None:
    """The first user message, which is the public packet (docs/formats.md, Conversation)."""
    for message in chat.messages:
        if message.get("role") == "user":
            content = message.get("content")
            return content if isinstance(content, str) else None
    return None


def read_situation(chat: ChatRequest) -> Situation | None:
    """Read the conversation of an episode; None where it does not have that form."""
    packet = _object(packet_text(chat))
    if packet is None or not isinstance(packet.get("observation"), dict):
        return None
    steps = [*_operator_steps(packet), *_own_steps(chat)]
    observations = [step.result.get("observation") for step in steps]
    latest = next((value for value in reversed(observations) if isinstance(value, dict)), packet["observation"])
    support = tuple(world for world in packet.get("generative_support") or [] if isinstance(world, dict))
    return Situation(world_of(chat), latest, tuple(steps), support)


def _operator_steps(packet: Mapping[str, Any]) -> list[Step]:
    prefix = packet.get("operator_prefix") or []
    return [Step(str(step["tool"]), step["result"]) for step in prefix if isinstance(step.get("result"), dict)]


def _own_steps(chat: ChatRequest) -> list[Step]:
    names: dict[str, str] = {}
    steps = []
    for message in chat.messages:
        for call in message.get("tool_calls") or []:
            names[call["id"]] = call["function"]["name"]
        result = _object(message.get("content")) if message.get("role") == "tool" else None
        if result is not None:
            steps.append(Step(names.get(str(message.get("tool_call_id")), ""), result))
    return steps


def _object(text: Any) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (TypeError, ValueError):
        return None
    return value if isinstance(value, dict) else None
