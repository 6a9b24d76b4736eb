"""Chat completions as a provider sees them: reading a request, writing a complete response."""

import json
from typing import Any

from countersign.agents.errors import BadChatRequestError
from countersign.agents.http_server import Response
from countersign.agents.wire import (
    ChatRequest,
    Completion,
    ToolCall,
    WireName,
    input_tokens,
    output_tokens,
    read_cap,
)
from countersign.kit.canonical import sha256

CHAT_PATH = "/v1/chat/completions"
_CREATED = 1_700_000_000
"""A constant in place of a clock: equal requests get equal bytes."""


def read_chat_request(raw: bytes) -> ChatRequest:
    """Read a unary request. Raises BadChatRequestError where it is not one."""
    chat = read_body(raw)
    if chat.streamed:
        raise BadChatRequestError("only unary requests are served")
    return chat


def read_body(raw: bytes) -> ChatRequest:
    """Read a request, for a whole answer or for events. Raises BadChatRequestError where it is not one."""
    try:
        body = json.loads(raw)
    except ValueError:
        raise BadChatRequestError("the body is not JSON") from None
    if not isinstance(body, dict) or not isinstance(body.get("model"), str):
        raise BadChatRequestError("the body is not an object that names a model")
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(item, dict) for item in messages):
        raise BadChatRequestError("messages is not a nonempty list of objects")
    cap = read_cap(body.get("max_completion_tokens", body.get("max_tokens")))
    tools = _tool_names(body.get("tools", []))
    return ChatRequest(
        raw, body, body["model"], tuple(messages), tools, cap, WireName.CHAT_COMPLETIONS, bool(body.get("stream"))
    )


def _tool_names(tools: Any) -> tuple[str, ...]:
    try:
        names = tuple(tool["function"]["name"] for tool in tools)
    except (TypeError, KeyError):
        names = (None,)
    if not all(isinstance(name, str) for name in names):
        raise BadChatRequestError("tools is not a list of named functions")
    return names


def call_id(raw: bytes, ordinal: int = 0) -> str:
    """A tool-call id for the answer to the request `raw`: equal for equal bytes, so new in each turn."""
    return f"call_{sha256(raw + b'#' + str(ordinal).encode()).hex()[:24]}"


def render(completion: Completion, chat: ChatRequest) -> bytes:
    """Write `completion` as the whole body of the answer to `chat`."""
    head = head_of(completion, chat, "chat.completion")
    choice = (
        f'{{"index":0,"message":{_message(completion)},"logprobs":null,'
        f'"finish_reason":{json.dumps(completion.finish_reason)}}}'
    )
    usage = f',"usage":{json.dumps(usage_of(completion, chat))}' if completion.with_usage else ""
    return f'{json.dumps(head)[:-1]},"choices":[{choice}]{usage}}}'.encode()


def head_of(completion: Completion, chat: ChatRequest, kind: str) -> dict[str, Any]:
    """The members that a whole answer and its chunks have alike, but for `object`, which is `kind`."""
    return {
        "id": f"chatcmpl-{sha256(chat.raw).hex()[:24]}",
        "object": kind,
        "created": _CREATED + chat.turn,
        "model": completion.model,
        "provider": completion.provider,
    }


def _message(completion: Completion) -> str:
    message: dict[str, Any] = {"role": "assistant", "content": completion.content, "refusal": None}
    if completion.tool_calls:
        message["tool_calls"] = [tool_call_json(call) for call in completion.tool_calls]
    extras = "" if completion.opaque_turn is None else f",{reasoning_of(completion.opaque_turn)}"
    return f"{json.dumps(message, ensure_ascii=False)[:-1]}{extras}}}"


def reasoning_of(turn: int) -> str:
    """The opaque message members that an answer has in `turn`: to be sent back to the byte, odd as they are."""
    return (
        f'"reasoning": "turn {turn}: the inventory is \\u0041 trusted source\\/way \\u00e9 \u00e9",'
        ' "reasoning_details" : [ {"type":"reasoning.text","text":"","index":0,"weight":1.50,"scale":2E+5,'
        f'"bias":-0,"signature":"c2ln{turn}==","tags":[],"nested":{{"b":[[],{{}}],"a":1e-3}}}},'
        ' {"type":"reasoning.encrypted","data":"ZW5j","format":null} ],'
        '"reasoning_unknown":{"z":[],"a":0.10}, "annotations":[]'
    )


def tool_call_json(call: ToolCall) -> dict[str, Any]:
    """The wire form of one call."""
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def usage_of(completion: Completion, chat: ChatRequest) -> dict[str, Any]:
    """What the answer says that it took."""
    prompt, output = input_tokens(chat), output_tokens(completion, chat.output_cap)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


def error_response(status: int, message: str, kind: str = "invalid_request_error") -> Response:
    """A refusal in chat completions' shape, whatever the format: its status is what counts."""
    return Response(status, json.dumps({"error": {"message": message, "type": kind, "code": None}}).encode())
