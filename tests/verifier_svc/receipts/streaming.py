"""Streams made of unary answers, as each format's providers would send them."""

import json
from collections.abc import Iterator
from typing import Any

Body = dict[str, Any]
DONE = b"data: [DONE]\n\n"


def event(data: Any, name: str = "") -> bytes:
    named = f"event: {name}\n" if name else ""
    return f"{named}data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def typed(kind: str, **data: Any) -> bytes:
    return event({"type": kind, **data}, kind)


def pieces(text: str, count: int = 3) -> list[str]:
    """The text in about `count` pieces; raises TypeError where it is none."""
    if not isinstance(text, str):
        raise TypeError
    size = len(text) // count + 1
    return [text[at : at + size] for at in range(0, len(text), size)] or [""]


def streamed(wire_format: str, body: Body) -> bytes:
    """The events of an answer, joined."""
    return b"".join(ENCODERS[wire_format](body))


def chat(body: Body) -> Iterator[bytes]:
    head: Body = {key: body[key] for key in ("id", "model", "provider", "error") if key in body}
    head["object"] = "error" if body.get("object") == "error" else "chat.completion.chunk"
    for index, choice in enumerate(body.get("choices") or []):
        for delta in deltas(choice.get("message") or {}):
            yield event({**head, "choices": [{"index": index, "delta": delta, "finish_reason": None}]})
        reasons = {key: choice[key] for key in ("finish_reason", "native_finish_reason") if key in choice}
        yield event({**head, "choices": [{"index": index, "delta": {}, **reasons}]})
    yield event({**head, "choices": [], "usage": body.get("usage")})
    yield DONE


def deltas(message: Body) -> Iterator[Body]:
    for key, value in message.items():
        if key in ("content", "reasoning", "reasoning_content", "refusal") and isinstance(value, str):
            yield from ({key: piece} for piece in pieces(value))
        elif key == "tool_calls" and isinstance(value, list) and value:
            for index, call in enumerate(value):
                function = call["function"]
                whole = {name: value for name, value in function.items() if name != "arguments"}
                yield {key: [{**call, "index": index, "function": whole}]}
                for piece in pieces(function["arguments"]) if "arguments" in function else ():
                    yield {key: [{"index": index, "function": {"arguments": piece}}]}
        else:
            yield {key: value}


def messages(body: Body) -> Iterator[bytes]:
    if body.get("type") == "error":
        yield event(body, "error")
        return
    usage = body.get("usage") or {}
    begun = {**body, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield typed("message_start", message=begun)
    for index, block in enumerate(body["content"]):
        empty = {"text": "", "thinking": "", "signature": "", "input": {}}
        yield typed(
            "content_block_start",
            index=index,
            content_block={key: empty.get(key, value) for key, value in block.items()},
        )
        yield typed("ping")
        for delta in block_deltas(block):
            yield typed("content_block_delta", index=index, delta=delta)
        yield typed("content_block_stop", index=index)
    yield typed("message_delta", delta={"stop_reason": body["stop_reason"], "stop_sequence": None}, usage=usage)
    yield typed("message_stop")


def block_deltas(block: Body) -> Iterator[Body]:
    for key, kind in (("text", "text_delta"), ("thinking", "thinking_delta"), ("signature", "signature_delta")):
        if key in block:
            yield from ({"type": kind, key: piece} for piece in pieces(block[key]))
    if "input" in block:
        text = json.dumps(block["input"], ensure_ascii=False)
        yield from ({"type": "input_json_delta", "partial_json": piece} for piece in pieces(text))


def responses(body: Body) -> Iterator[bytes]:
    begun = {**body, "status": "in_progress", "output": [], "incomplete_details": None}
    yield typed("response.created", response=begun)
    for index, item in enumerate(body.get("output") or []):
        begun = {name: item[name] for name in ("id", "type") if name in item}
        yield typed("response.output_item.added", output_index=index, item=begun)
        for number, part in enumerate(item.get("content") or []):
            if item["type"] == "message" and part["type"] == "output_text":
                for piece in pieces(part["text"]):
                    yield typed("response.output_text.delta", output_index=index, content_index=number, delta=piece)
        if item["type"] == "function_call":
            for piece in pieces(item["arguments"]):
                yield typed("response.function_call_arguments.delta", output_index=index, delta=piece)
        yield typed("response.output_item.done", output_index=index, item=item)
    yield typed(f"response.{body['status']}", response=body)


def generate(body: Body) -> Iterator[bytes]:
    candidates = body.get("candidates") or []
    if not candidates:
        yield event(body)
        return
    for index, candidate in enumerate(candidates):
        content = candidate.get("content") or {}
        parts = content.get("parts") or []
        for part in parts[:-1]:
            begun = {"content": {**content, "parts": [part]}, "index": index}
            yield event({"candidates": [begun], "modelVersion": body.get("modelVersion", "")})
        last = {**candidate, "index": index}
        if "content" in candidate:
            last["content"] = {**content, "parts": parts[-1:]}
        yield event({**body, "candidates": [last]})


ENCODERS = {"chat_completions": chat, "messages": messages, "responses": responses, "generate_content": generate}
