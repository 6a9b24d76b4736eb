"""Chat completions as a provider sees them: reading a request, writing a complete response."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from countersign.agents.errors import BadChatRequestError
from countersign.agents.http_server import Response
from countersign.kit.canonical import sha256

CHAT_PATH = "/v1/chat/completions"
PROVIDER = "Scripted"
"""The provider name that scripted completions carry."""

_CREATED = 1_700_000_000
"""A constant in place of a clock: equal requests get equal bytes."""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """The parts of a request that an agent looks at; `raw` is the body as it came, `body` the same parsed."""

    raw: bytes
    body: Mapping[str, Any]
    model: str
    messages: tuple[Mapping[str, Any], ...]
    tools: tuple[str, ...]
    output_cap: int | None

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
    """One answer. `extras` are further members of the message: JSON text `"name":value,...`, used as it is."""

    model: str
    content: str | None
    finish_reason: str | None
    tool_calls: tuple[ToolCall, ...] = ()
    provider: str = PROVIDER
    extras: str = ""
    with_usage: bool = True


def read_chat_request(raw: bytes) -> ChatRequest:
    """Read a unary request. Raises BadChatRequestError where it is not one."""
    try:
        body = json.loads(raw)
    except ValueError:
        raise BadChatRequestError("the body is not JSON") from None
    if not isinstance(body, dict) or not isinstance(body.get("model"), str):
        raise BadChatRequestError("the body is not an object that names a model")
    if body.get("stream"):
        raise BadChatRequestError("only unary requests are served")
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(item, dict) for item in messages):
        raise BadChatRequestError("messages is not a nonempty list of objects")
    return ChatRequest(raw, body, body["model"], tuple(messages), _tool_names(body.get("tools", [])), _cap(body))


def _tool_names(tools: Any) -> tuple[str, ...]:
    try:
        names = tuple(tool["function"]["name"] for tool in tools)
    except (TypeError, KeyError):
        names = (None,)
    if not all(isinstance(name, str) for name in names):
        raise BadChatRequestError("tools is not a list of named functions")
    return names


def _cap(body: Mapping[str, Any]) -> int | None:
    cap = body.get("max_completion_tokens", body.get("max_tokens"))
    if cap is not None and (not isinstance(cap, int) or isinstance(cap, bool) or cap < 1):
        raise BadChatRequestError("the output cap is not a positive integer")
    return cap


def call_id(raw: bytes, ordinal: int = 0) -> str:
    """A tool-call id for the answer to the request `raw`: equal for equal bytes, so new in each turn."""
    return f"call_{sha256(raw + b'#' + str(ordinal).encode()).hex()[:24]}"


def render(completion: Completion, chat: ChatRequest) -> bytes:
    """Write `completion` as the whole body of the answer to `chat`."""
    head = {
        "id": f"chatcmpl-{sha256(chat.raw).hex()[:24]}",
        "object": "chat.completion",
        "created": _CREATED + chat.turn,
        "model": completion.model,
        "provider": completion.provider,
    }
    choice = (
        f'{{"index":0,"message":{_message(completion)},"logprobs":null,'
        f'"finish_reason":{json.dumps(completion.finish_reason)}}}'
    )
    usage = f',"usage":{json.dumps(_usage(completion, chat))}' if completion.with_usage else ""
    return f'{json.dumps(head)[:-1]},"choices":[{choice}]{usage}}}'.encode()


def _message(completion: Completion) -> str:
    message: dict[str, Any] = {"role": "assistant", "content": completion.content, "refusal": None}
    if completion.tool_calls:
        message["tool_calls"] = [tool_call_json(call) for call in completion.tool_calls]
    extras = f",{completion.extras}" if completion.extras else ""
    return f"{json.dumps(message, ensure_ascii=False)[:-1]}{extras}}}"


def tool_call_json(call: ToolCall) -> dict[str, Any]:
    """The wire form of one call."""
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _usage(completion: Completion, chat: ChatRequest) -> dict[str, Any]:
    prompt = max(1, len(chat.raw) // 4)
    output = _output_tokens(completion, chat.output_cap)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


def _output_tokens(completion: Completion, cap: int | None) -> int:
    """About a quarter of the bytes; at the cap when truncated and only then, as an honest count would be."""
    written = len(completion.content or "") + sum(len(call.name + call.arguments) for call in completion.tool_calls)
    tokens = max(1, written // 4)
    if cap is None:
        return tokens
    return cap if completion.finish_reason == "length" else min(tokens, max(1, cap - 1))


def error_response(status: int, message: str, kind: str = "invalid_request_error") -> Response:
    """A refusal in the format's own shape."""
    return Response(status, json.dumps({"error": {"message": message, "type": kind, "code": None}}).encode())
