"""Good answers of the messages and generate_content formats, to be spoilt one field at a time, and their events."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from adapter_svc.admission import Admission, WireFormat
from tests.adapter_svc.admission import helpers
from tests.adapter_svc.admission.helpers import fields

MESSAGES: dict[str, Any] = {"wire_format": WireFormat.MESSAGES}
GENERATE_CONTENT: dict[str, Any] = {"wire_format": WireFormat.GENERATE_CONTENT}

THINKING = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}


def a_use(**changes: Any) -> dict[str, Any]:
    """A tool_use block that claims."""
    good = {"type": "tool_use", "id": "toolu_1", "name": "finish", "input": {"claim": "saved"}}
    return fields(good, changes)


def a_text(text: Any = "all done", **changes: Any) -> dict[str, Any]:
    """A text block."""
    return fields({"type": "text", "text": text}, changes)


def message(*blocks: Any, stop: Any = None, **changes: Any) -> dict[str, Any]:
    """A message of these blocks, a text one if none; its stop reason fits them."""
    content = list(blocks) or [a_text()]
    reason = stop or ("tool_use" if any(a.get("type") == "tool_use" for a in content) else "end_turn")
    usage = {"input_tokens": 10, "output_tokens": 5}
    good = {"type": "message", "id": "msg_1", "role": "assistant", "model": "m", "content": content}
    return fields({**good, "stop_reason": reason, "stop_sequence": None, "usage": usage}, changes)


def part_of_call(**changes: Any) -> dict[str, Any]:
    """A part with a call that claims."""
    return {"functionCall": fields({"name": "finish", "args": {"claim": "saved"}}, changes)}


def candidate(*parts: Any, **changes: Any) -> dict[str, Any]:
    """A finished candidate of these parts, a text one if none."""
    content = {"parts": list(parts) or [{"text": "all done"}], "role": "model"}
    return fields({"content": content, "finishReason": "STOP", "index": 0}, changes)


def generated(*parts: Any, whole: Mapping[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """An answer of one candidate; `changes` are the candidate's, `whole` the body's."""
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    good = {"candidates": [candidate(*parts, **changes)], "modelVersion": "m", "usageMetadata": usage}
    return fields(good, whole or {})


def encoded(body: Any) -> bytes:
    """The body's bytes."""
    return json.dumps(body).encode()


def judged(body: Any, **changes: Any) -> Admission:
    """The admission of a body, or of events."""
    return helpers.judge(body if isinstance(body, bytes) else encoded(body), **changes)


def failure(body: Any, **changes: Any) -> tuple[str, str]:
    """The reason and place of a technical unknown."""
    reason, where = helpers.failure(body if isinstance(body, bytes) else encoded(body), **changes)
    return reason.value, where


def event(data: Any, name: str | None = None) -> str:
    """One event; its name is the data's type unless it is given."""
    text = data if isinstance(data, str) else json.dumps(data)
    named = data.get("type", "") if name is None and isinstance(data, dict) else name
    return (f"event: {named}\n" if named else "") + f"data: {text}\n\n"


def joined(events: Iterable[str]) -> bytes:
    """The stream of these events."""
    return "".join(events).encode()


def split_message(body: Mapping[str, Any], size: int = 5) -> list[str]:
    """The events that make up `body`: texts and arguments in pieces of `size` characters."""
    usage = body.get("usage")
    opening = {**usage, "output_tokens": 1} if isinstance(usage, dict) else usage
    late = ("stop_reason", "stop_sequence", "stop_details", "container")
    started = {**body, "content": [], "usage": opening, **{name: None for name in late if name in body}}
    events = [
        {"type": "message_start", "message": fields(started, {} if "usage" in body else {"usage": helpers.ABSENT})}
    ]
    for index, block in enumerate(body["content"]):
        events += _block_events(index, block, size)
    delta = {name: body[name] for name in late if name in body}
    events += [{"type": "message_delta", "delta": delta, "usage": usage}, {"type": "message_stop"}]
    return [event(one) for one in [events[0], {"type": "ping"}, *events[1:]]]


def _block_events(index: int, block: dict[str, Any], size: int) -> list[dict[str, Any]]:
    start, deltas = dict(block), []
    if block["type"] == "text":
        start["text"] = ""
        deltas += [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"], size)]
        if block.get("citations"):
            start["citations"] = []
            deltas += [{"type": "citations_delta", "citation": one} for one in block["citations"]]
    if block["type"] == "thinking":
        start |= {"thinking": "", "signature": ""}
        deltas += [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"], size)]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    if block["type"] in ("tool_use", "server_tool_use", "mcp_tool_use"):
        start["input"] = {}
        text = json.dumps(block["input"], ensure_ascii=False)
        deltas += [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *_pieces(text, size)]]
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def _pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def split_generated(body: Mapping[str, Any]) -> list[str]:
    """The chunks that make up `body`, one for each part; the last one says why it ended."""
    candidates = body.get("candidates") or [{}]
    content = candidates[0].get("content") or {}
    parts = content.get("parts") or []
    if len(parts) < 2:
        return [event(body)]
    head = {name: body[name] for name in ("modelVersion", "responseId") if name in body}
    counted = {"usageMetadata": {"promptTokenCount": 3, "thoughtsTokenCount": 999}}
    early = [
        {**head, **counted, "candidates": [{"content": {**content, "parts": [part]}, "index": 0}]}
        for part in parts[:-1]
    ]
    last = {**body, "candidates": [{**candidates[0], "content": {**content, "parts": parts[-1:]}}]}
    return [event(one) for one in [*early, last]]
