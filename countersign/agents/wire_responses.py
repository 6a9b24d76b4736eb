"""The responses format as a provider sees it: reading a request, writing an answer, whole or as events."""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import groupby
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

INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Chat completions' reasons that make a response incomplete, in this format's words."""
COMPLETED = frozenset({"stop", "tool_calls"})
_RESULT = "function_call_output"
_CREATED = 1_700_000_000
"""A constant in place of a clock: equal requests get equal bytes."""
_PIECE_CHARS = 7


def read(_: re.Match[str], raw: bytes) -> ChatRequest:
    """Read a request. Raises BadChatRequestError where it is not one."""
    try:
        body = json.loads(raw)
        model, streamed = str(body["model"]), bool(body.get("stream"))
        messages = ({"role": "system", "content": body.get("instructions")}, *_chat_messages(body["input"]))
        tools = tuple(str(tool["name"]) for tool in body.get("tools", []))
        cap = body.get("max_output_tokens")
    except (ValueError, TypeError, KeyError, AttributeError):
        raise BadChatRequestError("the body is not a request of the responses format") from None
    return ChatRequest(raw, body, model, messages, tools, read_cap(cap), WireName.RESPONSES, streamed)


def _chat_messages(given: list[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The items as messages: what an answer was made of, between the user's items and the results, is one of them."""
    for answered, items in groupby(given, lambda item: item.get("role") != "user" and item.get("type") != _RESULT):
        if answered:
            calls = [
                {"id": item["call_id"], "function": {"name": item["name"]}}
                for item in items
                if item["type"] == "function_call"
            ]
            yield {"role": "assistant", "tool_calls": calls}
            continue
        for item in items:
            if item.get("type") == _RESULT:
                yield {"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]}
            else:
                yield {"role": "user", "content": item["content"]}


def write(completion: Completion, chat: ChatRequest) -> bytes:
    """The answer as one body."""
    return _response(completion, chat, [*_opaque_items(completion), *map(json.dumps, _items(completion))]).encode()


def _response(completion: Completion, chat: ChatRequest, items: list[str]) -> str:
    reason = completion.finish_reason
    ending = {
        **_head(completion, chat),
        "status": "completed" if reason in COMPLETED else "incomplete" if reason in INCOMPLETE else reason,
        "incomplete_details": {"reason": INCOMPLETE[reason]} if reason in INCOMPLETE else None,
    }
    counted = f',"usage":{json.dumps(_usage(completion, chat))}' if completion.with_usage else ""
    return f'{json.dumps(ending)[:-1]},"output" : [ {" ,".join(items)}]{counted}}}'


def _head(completion: Completion, chat: ChatRequest) -> dict[str, Any]:
    name = f"resp_{sha256(chat.raw).hex()[:24]}"
    created = _CREATED + chat.turn
    return {"id": name, "object": "response", "created_at": created, "error": None, "model": completion.model}


def _usage(completion: Completion, chat: ChatRequest) -> dict[str, Any]:
    asked, output = input_tokens(chat), output_tokens(completion, chat.output_cap)
    return {
        "input_tokens": asked,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": asked + output,
    }


def _reasoning(turn: int) -> str:
    return (
        f'{{"type" : "reasoning","id":"rs_{turn}","summary":[ ],"encrypted_content":"Z0FB{turn}\\u002b==",'
        f'"new":{{"z":[],"a":0.10,"turn":{turn}.0,"b":-0, "scale":2E+5}}, "tags":[] }}'
    )


def opaque(turn: int, streamed: bool) -> tuple[str, ...]:
    """What must come back of the opaque item: all of its bytes, which the last event of a stream has too."""
    del streamed
    return (_reasoning(turn),)


def _opaque_items(completion: Completion) -> list[str]:
    return [] if completion.opaque_turn is None else [_reasoning(completion.opaque_turn)]


def _items(completion: Completion) -> Iterator[dict[str, Any]]:
    if completion.content is not None:
        part = {"type": "output_text", "text": completion.content, "annotations": []}
        message = {"type": "message", "id": "msg_0", "role": "assistant", "status": "completed"}
        yield {**message, "content": [part]}
    for call in completion.tool_calls:
        yield _call_item(call)


def _call_item(call: ToolCall) -> dict[str, Any]:
    about = {"type": "function_call", "id": f"fc_{call.id}", "call_id": call.id, "name": call.name}
    return {**about, "arguments": call.arguments, "status": "completed"}


def events(completion: Completion, chat: ChatRequest) -> bytes:
    """The answer as events: every item begun, its text in pieces, and ended; the whole response in the last."""
    begun = json.dumps({**_head(completion, chat), "status": "in_progress", "output": []})
    told: list[tuple[str, str]] = [
        (name, f'"response":{begun}') for name in ("response.created", "response.in_progress")
    ]
    opaque_items = _opaque_items(completion)
    for index, item in enumerate(opaque_items):
        told += _whole(index, item)
    for index, made in enumerate(_items(completion), start=len(opaque_items)):
        told += _in_pieces(index, made)
    ending = "response.incomplete" if completion.finish_reason in INCOMPLETE else "response.completed"
    told.append((ending, f'"response":{write(completion, chat).decode()}'))
    return "".join(_event(number, name, members) for number, (name, members) in enumerate(told)).encode()


def _event(number: int, name: str, members: str) -> str:
    return event(f'{{"type":"{name}","sequence_number":{number},{members}}}', name)


def _whole(index: int, item: str) -> list[tuple[str, str]]:
    members = f'"output_index":{index},"item":{item}'
    return [(f"response.output_item.{step}", members) for step in ("added", "done")]


def _in_pieces(index: int, item: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    begun = {**item, "status": "in_progress", **({"arguments": ""} if "arguments" in item else {"content": []})}
    yield _whole(index, json.dumps(begun))[0]
    place: dict[str, Any] = {"output_index": index, "item_id": item["id"]}
    if "arguments" in item:
        yield from _text("response.function_call_arguments", place, "arguments", item["arguments"])
    else:
        place["content_index"] = 0
        yield from _text("response.output_text", place, "text", item["content"][0]["text"])
        yield "response.content_part.done", json.dumps({**place, "part": item["content"][0]})[1:-1]
    yield _whole(index, json.dumps(item))[1]


def _text(name: str, place: Mapping[str, Any], member: str, text: str) -> Iterator[tuple[str, str]]:
    for start in range(0, len(text), _PIECE_CHARS):
        yield f"{name}.delta", json.dumps({**place, "delta": text[start : start + _PIECE_CHARS]})[1:-1]
    yield f"{name}.done", json.dumps({**place, member: text})[1:-1]


RESPONSES_WIRE = Wire(WireName.RESPONSES, re.compile("/v1/responses"), read, write, events, opaque)
"""The responses format."""
