"""The messages format as a provider sees it: reading a request, writing an answer, whole or as events."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from countersign.agents.errors import BadChatRequestError
from countersign.agents.wire import (
    ChatRequest,
    Completion,
    ToolCall,
    Wire,
    WireName,
    event,
    input_tokens,
    output_tokens,
    read_cap,
)
from countersign.kit.canonical import sha256

STOP_REASONS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"}
"""Chat completions' reasons in this format's words; another reason stands as it is."""
CACHE_READ_TOKENS = 8
CACHE_WRITE_TOKENS = 5
_PIECE_CHARS = 7


def read(_: re.Match[str], raw: bytes) -> ChatRequest:
    """Read a request. Raises BadChatRequestError where it is not one."""
    try:
        body = json.loads(raw)
        model, streamed = str(body["model"]), bool(body.get("stream"))
        messages = tuple(_chat_messages(body["messages"]))
        tools = tuple(str(tool["name"]) for tool in body.get("tools", []))
        cap = body["max_tokens"]
    except (ValueError, TypeError, KeyError, AttributeError):
        raise BadChatRequestError("the body is not a request of the messages format") from None
    return ChatRequest(raw, body, model, messages, tools, read_cap(cap), WireName.MESSAGES, streamed)


def _chat_messages(messages: list[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for message in messages:
        content = message["content"]
        if isinstance(content, str):
            yield {"role": message["role"], "content": content}
        elif message["role"] == "assistant":
            calls = [
                {"id": block["id"], "function": {"name": block["name"]}}
                for block in content
                if block["type"] == "tool_use"
            ]
            yield {"role": "assistant", "tool_calls": calls}
        else:
            for block in content:
                yield {"role": "tool", "tool_call_id": block["tool_use_id"], "content": block["content"]}


def write(completion: Completion, chat: ChatRequest) -> bytes:
    """The answer as one body."""
    head, usage = _head(completion, chat), _usage(completion, chat) if completion.with_usage else None
    blocks = [*_opaque_blocks(completion), *_text_blocks(completion), *map(_call_block, completion.tool_calls)]
    tail = {"stop_reason": _stop_reason(completion), "stop_sequence": None}
    counted = f',"usage":{json.dumps(usage)}' if usage is not None else ""
    return f'{json.dumps(head)[:-1]},"content":[{",".join(blocks)}],{json.dumps(tail)[1:-1]}{counted}}}'.encode()


def _head(completion: Completion, chat: ChatRequest) -> dict[str, Any]:
    name = f"msg_{sha256(chat.raw).hex()[:24]}"
    return {"id": name, "type": "message", "role": "assistant", "model": completion.model}


def _stop_reason(completion: Completion) -> str | None:
    return None if completion.finish_reason is None else STOP_REASONS.get(completion.finish_reason, "error")


def _usage(completion: Completion, chat: ChatRequest) -> dict[str, int]:
    cached = min(CACHE_READ_TOKENS + CACHE_WRITE_TOKENS, input_tokens(chat) - 1)
    return {
        "input_tokens": input_tokens(chat) - cached,
        "cache_read_input_tokens": min(CACHE_READ_TOKENS, cached),
        "cache_creation_input_tokens": max(0, cached - CACHE_READ_TOKENS),
        "output_tokens": output_tokens(completion, chat.output_cap),
    }


def _odd_members(turn: int) -> str:
    return f'"x_unknown" : {{"z":[ ],"a":0.10,"turn":{turn}.0,"b":-0,"scale":2E+5, "t":"\\u0041\\/\u00e9"}},"tags":[]'


def _thought(turn: int) -> str:
    return f"turn {turn}: the inventory is a trusted source, \u00e9"


def _signature(turn: int) -> str:
    return f"c2lnbmF0dXJl{turn}+/=="


def _redacted(turn: int) -> str:
    return (
        f'{{ "type" : "redacted_thinking","data":"ZW5j{turn}\\u003d",'
        '"weight":1.50, "nested":{"b":[[],{}],"a":1e-3} }'
    )


def _thinking(turn: int) -> str:
    return (
        f'{{"type":"thinking","thinking":{json.dumps(_thought(turn))},'
        f'"signature":"{_signature(turn)}",{_odd_members(turn)} }}'
    )


def _opaque_blocks(completion: Completion) -> list[str]:
    turn = completion.opaque_turn
    return [] if turn is None else [_thinking(turn), _redacted(turn)]


def _text_blocks(completion: Completion) -> list[str]:
    return [json.dumps({"type": "text", "text": completion.content})] if completion.content is not None else []


def _call_block(call: ToolCall) -> str:
    return f'{{"type":"tool_use","id":{json.dumps(call.id)},"name":{json.dumps(call.name)},"input":{call.arguments}}}'


def opaque(turn: int, streamed: bool) -> tuple[str, ...]:
    """What must come back of the opaque blocks: all of their bytes, or of a streamed one what was not joined."""
    if not streamed:
        return _thinking(turn), _redacted(turn)
    odd = _odd_members(turn).replace('"x_unknown" : ', '"x_unknown":').removesuffix(',"tags":[]')
    return odd, f'"signature":"{_signature(turn)}"', _redacted(turn)


def events(completion: Completion, chat: ChatRequest) -> bytes:
    """The answer as events: every block begun, its texts in pieces, and ended."""
    usage = _usage(completion, chat) if completion.with_usage else {}
    opening = {name: 1 if name == "output_tokens" else count for name, count in usage.items()}
    message = {**_head(completion, chat), "content": [], "stop_reason": None, "usage": opening}
    lines = [_event("message_start", message=json.dumps(message)), _event("ping")]
    for index, (start, deltas) in enumerate(_streamed_blocks(completion)):
        lines.append(_event("content_block_start", index=str(index), content_block=start))
        lines += [_event("content_block_delta", index=str(index), delta=json.dumps(delta)) for delta in deltas]
        lines.append(_event("content_block_stop", index=str(index)))
    delta = json.dumps({"stop_reason": _stop_reason(completion), "stop_sequence": None})
    counted = json.dumps({name: usage[name] for name in usage if name == "output_tokens"})
    lines += [_event("message_delta", delta=delta, usage=counted), _event("message_stop")]
    return "".join(lines).encode()


def _event(name: str, **members: str) -> str:
    texts = [f'"type":"{name}"', *(f'"{member}":{text}' for member, text in members.items())]
    return event(f"{{{','.join(texts)}}}", name)


def _streamed_blocks(completion: Completion) -> Iterator[tuple[str, list[dict[str, str]]]]:
    turn = completion.opaque_turn
    if turn is not None:
        thoughts = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(_thought(turn))]
        signed = {"type": "signature_delta", "signature": _signature(turn)}
        yield f'{{"type":"thinking","thinking":"","signature":"",{_odd_members(turn)}}}', [*thoughts, signed]
        yield _redacted(turn), []
    if completion.content is not None:
        texts = [{"type": "text_delta", "text": piece} for piece in _pieces(completion.content)]
        yield '{"type":"text","text":""}', texts
    for call in completion.tool_calls:
        start = _call_block(ToolCall(call.id, call.name, "{}"))
        parts = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *_pieces(call.arguments))]
        yield start, parts


def _pieces(text: str) -> list[str]:
    return [text[start : start + _PIECE_CHARS] for start in range(0, len(text), _PIECE_CHARS)]


MESSAGES_WIRE = Wire(WireName.MESSAGES, re.compile("/v1/messages"), read, write, events, opaque)
"""The messages format."""
