"""What the agents' servers have in common across wire formats: a request as a policy sees it, an answer to write.

A policy sees every conversation in one shape, that of chat completions: the reader of each format makes it. An answer
is a `Completion` with chat completions' reasons; the writer of each format says it in the format's own words.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from countersign.agents.errors import BadChatRequestError

PROVIDER = "Scripted"
"""The provider name that scripted completions carry."""


class WireName(StrEnum):
    """The wire formats that the scripted agent speaks."""

    CHAT_COMPLETIONS = "chat_completions"
    MESSAGES = "messages"
    RESPONSES = "responses"
    GENERATE_CONTENT = "generate_content"


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """The parts of a request that an agent looks at; `raw` is the body as it came, `body` the same parsed.

    `messages` are chat completions' in every format: roles system, user, assistant (with `tool_calls` of `id` and
    `function.name`) and tool (with `tool_call_id`). `streamed` asks for the answer as events.
    """

    raw: bytes
    body: Mapping[str, Any]
    model: str
    messages: tuple[Mapping[str, Any], ...]
    tools: tuple[str, ...]
    output_cap: int | None
    wire: WireName = WireName.CHAT_COMPLETIONS
    streamed: bool = False

    @property
    def turn(self) -> int:
        """How many times the assistant has spoken already."""
        return sum(message.get("role") == "assistant" for message in self.messages)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call as the wire holds it: `arguments` is JSON text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer, with chat completions' `finish_reason`.

    `opaque_turn` asks for the opaque items that the format writes in that turn, to be sent back to the byte.
    """

    model: str
    content: str | None
    finish_reason: str | None
    tool_calls: tuple[ToolCall, ...] = ()
    provider: str = PROVIDER
    opaque_turn: int | None = None
    with_usage: bool = True


@dataclass(frozen=True, slots=True)
class Wire:
    """How one wire format is spoken.

    - `target` is what a request's whole target (path and query) looks like.
    - `read` reads a request's body, given the target's match; raises BadChatRequestError.
    - `write` writes an answer as one body, `events` as server-sent events; None where the format is not streamed.
    - `opaque` says what must stand in every later request after an answer with opaque items in the given turn,
      which was streamed or not.
    """

    name: WireName
    target: re.Pattern[str]
    read: Callable[[re.Match[str], bytes], ChatRequest]
    write: Callable[[Completion, ChatRequest], bytes]
    events: Callable[[Completion, ChatRequest], bytes] | None
    opaque: Callable[[int, bool], tuple[str, ...]]


def output_tokens(completion: Completion, cap: int | None) -> int:
    """About a quarter of the bytes; at the cap when truncated and only then, as an honest count would be."""
    written = len(completion.content or "") + sum(len(call.name + call.arguments) for call in completion.tool_calls)
    tokens = max(1, written // 4)
    if cap is None:
        return tokens
    return cap if completion.finish_reason == "length" else min(tokens, max(1, cap - 1))


def input_tokens(chat: ChatRequest) -> int:
    """About a quarter of the request's bytes."""
    return max(1, len(chat.raw) // 4)


def read_cap(cap: Any) -> int | None:
    """A request's output cap, None where it has none. Raises BadChatRequestError unless it is a positive integer."""
    if cap is not None and (not isinstance(cap, int) or isinstance(cap, bool) or cap < 1):
        raise BadChatRequestError("the output cap is not a positive integer")
    return cap


def event(data: str, name: str = "") -> str:
    """One server-sent event of one line of data."""
    return (f"event: {name}\n" if name else "") + f"data: {data}\n\n"
