"""Unary answers cut into the events that the same answer would have had as a stream."""

import json
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from tests.adapter_svc.admission.responses_helpers import numbered, written

CHAT_TEXTS = ("content", "reasoning", "reasoning_content", "refusal")
DETAIL_TEXTS = ("text", "summary", "data", "signature")
RESPONSE_ENDS = {
    "incomplete": "response.incomplete",
    "failed": "response.failed",
    "cancelled": "response.failed",
}
PART_TEXTS = {"output_text": "text", "refusal": "refusal", "reasoning_text": "text", "summary_text": "text"}
TEXT_EVENTS = {
    ("content", "output_text"): "response.output_text",
    ("content", "refusal"): "response.refusal",
    ("content", "reasoning_text"): "response.reasoning_text",
    ("summary", "summary_text"): "response.reasoning_summary_text",
}


def pieces(text: str, rng: Random) -> list[str]:
    """The text in a few pieces, some of them empty."""
    cuts = sorted(rng.randint(0, len(text)) for _ in range(rng.randint(0, 4)))
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def chat_stream(body: Mapping[str, Any], rng: Random) -> bytes:
    """The chunks of a chat_completions body with one choice that has a message."""
    (choice,) = body["choices"]
    head = {name: body[name] for name in ("id", "created", "model", "provider") if name in body}
    chunks: list[dict[str, Any]] = [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in chat_deltas(choice["message"], rng)
    ]
    reasons = {name: choice[name] for name in ("finish_reason", "native_finish_reason") if name in choice}
    chunks.append({**head, "choices": [{"index": 0, "delta": {}, **reasons}]})
    if "error" in choice:
        chunks[-1]["choices"][0]["error"] = choice["error"]
    chunks.append({**head, "choices": [], **{name: body[name] for name in ("usage", "error") if name in body}})
    lines = (f"data: {json.dumps(chunk, ensure_ascii=rng.random() < 0.5)}\n\n" for chunk in chunks)
    return ("".join(lines) + "data: [DONE]\n\n").encode("utf-8", "surrogatepass")


def chat_deltas(message: Mapping[str, Any], rng: Random) -> Iterator[dict[str, Any]]:
    """The deltas of a message: texts in pieces, calls by index, everything else whole."""
    yield {"role": message["role"]} if "role" in message else {}
    for name, value in message.items():
        if name in CHAT_TEXTS and isinstance(value, str):
            yield from ({name: piece} for piece in pieces(value, rng))
        elif name == "tool_calls" and isinstance(value, list) and value:
            for index, call in enumerate(value):
                yield from ({name: [part]} for part in call_fragments(index, call, rng))
        elif name == "reasoning_details" and isinstance(value, list):
            for element in value:
                yield from ({name: [part]} for part in detail_fragments(element, rng))
        elif isinstance(value, list) and value:
            yield from ({name: [element]} for element in value)
        elif name != "role":
            yield {name: value}


def call_fragments(index: int, call: Any, rng: Random) -> Iterator[Any]:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), str) or rng.random() < 0.2:
        yield {**call, "index": index} if isinstance(call, dict) else call
        return
    yield {**call, "index": index, "function": {**function, "arguments": ""}}
    for piece in pieces(function["arguments"], rng):
        yield {"index": index, "function": {"arguments": piece}}


def detail_fragments(element: Any, rng: Random) -> Iterator[Any]:
    text = element.get("text") if isinstance(element, dict) else None
    if not isinstance(text, str) or type(element.get("index")) is not int or not isinstance(element.get("type"), str):
        yield element
        return
    rest = {name: value for name, value in element.items() if name != "text"}
    yield {**rest, "text": ""}
    yield from ({"index": element["index"], "type": element["type"], "text": piece} for piece in pieces(text, rng))


def response_stream(raw: str, rng: Random) -> bytes:
    """The events of a responses body that is over; its own bytes stand in the last event."""
    body = json.loads(raw)
    head = {**body, "status": "in_progress", "output": [], "usage": None, "error": None, "incomplete_details": None}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": head},
        {"type": "response.in_progress", "response": head},
    ]
    for index, item in enumerate(body["output"]):
        events += item_events(index, item, rng)
    end = RESPONSE_ENDS.get(body["status"], "response.completed")
    last = f'event: {end}\ndata: {{"type":"{end}","sequence_number":{len(events)},"response":{raw}}}\n\n'
    return written(numbered(events)) + last.encode("utf-8", "surrogatepass")


def item_events(index: int, item: Mapping[str, Any], rng: Random) -> Iterator[dict[str, Any]]:
    about = {"output_index": index, "item_id": item.get("id")}
    begun = {**item, "status": "in_progress", "content": [], "arguments": ""}
    yield {"type": "response.output_item.added", "output_index": index, "item": begun}
    for group in ("content", "summary"):
        for position, part in enumerate(item.get(group) or []):
            name = TEXT_EVENTS[group, part["type"]]
            place = {**about, f"{group}_index": position}
            yield from text_events(name, PART_TEXTS[part["type"]], part, place, rng)
            if group == "content":
                yield {"type": "response.content_part.done", **place, "part": part}
    if item["type"] == "function_call":
        yield from text_events("response.function_call_arguments", "arguments", item, about, rng)
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def text_events(
    name: str, member: str, holder: Mapping[str, Any], place: Mapping[str, Any], rng: Random
) -> Iterator[dict[str, Any]]:
    yield from ({"type": f"{name}.delta", **place, "delta": piece} for piece in pieces(holder[member], rng))
    yield {"type": f"{name}.done", **place, member: holder[member]}
