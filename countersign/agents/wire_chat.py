"""Chat completions as the scripted agent speaks them: an answer as chunks, and the entry of the format's table.

`countersign.agents.chat` reads the requests and writes whole answers.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from countersign.agents.chat import CHAT_PATH, head_of, read_body, reasoning_of, render, tool_call_json, usage_of
from countersign.agents.wire import ChatRequest, Completion, ToolCall, Wire, WireName, event

_PIECE_CHARS = 7
_END = event("[DONE]")


def events(completion: Completion, chat: ChatRequest) -> bytes:
    """The answer as chunks: its texts in pieces, a chunk with the finish reason, one with the usage, the end mark."""
    head = json.dumps(head_of(completion, chat, "chat.completion.chunk"))[:-1]
    chunks = [_chunk(head, delta) for delta in _deltas(completion)]
    chunks.append(_chunk(head, "{}", completion.finish_reason))
    if completion.with_usage:
        chunks.append(f'{head},"choices":[],"usage":{json.dumps(usage_of(completion, chat))}}}')
    return ("".join(event(chunk) for chunk in chunks) + _END).encode()


def _chunk(head: str, delta: str, reason: str | None = None) -> str:
    return f'{head},"choices":[{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{json.dumps(reason)}}}]}}'


def _deltas(completion: Completion) -> Iterator[str]:
    yield json.dumps({"role": "assistant", "content": None, "refusal": None})
    if completion.opaque_turn is not None:
        yield from _opaque_deltas(completion.opaque_turn)
    if completion.content is not None:
        yield from (json.dumps({"content": piece}) for piece in ("", *_pieces(completion.content)))
    for index, call in enumerate(completion.tool_calls):
        yield from (json.dumps({"tool_calls": [fragment]}) for fragment in _fragments(index, call))


def _fragments(index: int, call: ToolCall) -> Iterator[dict[str, Any]]:
    yield {"index": index, **tool_call_json(ToolCall(call.id, call.name, ""))}
    yield from ({"index": index, "function": {"arguments": piece}} for piece in _pieces(call.arguments))


def _pieces(text: str) -> list[str]:
    return [text[start : start + _PIECE_CHARS] for start in range(0, len(text), _PIECE_CHARS)]


def _encrypted(turn: int) -> str:
    return f'{{ "type":"reasoning.encrypted","data":"ZW5j{turn}\\u003d","format":null, "scale":2E+5 }}'


def _unknown(turn: int) -> str:
    return f'{{ "z":[ ],"a":0.10,"turn":{turn}.0, "b":-0 }}'


def _opaque_deltas(turn: int) -> Iterator[str]:
    """The opaque members in pieces: a text of which one comes escaped, a detail in two, and others whole."""
    detail = '"type":"reasoning.text","index":0'
    yield f'{{"reasoning":"turn {turn}: \\u0041 trusted","reasoning_unknown":{_unknown(turn)}}}'
    yield f'{{"reasoning":"\\/source","reasoning_details":[{{{detail},"text":"a","weight":1.50,"signature":""}}]}}'
    yield f'{{"reasoning":null,"reasoning_details":[{{{detail},"text":"b","signature":"c2ln{turn}=="}}]}}'
    yield f'{{"reasoning_details":[{_encrypted(turn)}]}}'


def opaque(turn: int, streamed: bool) -> tuple[str, ...]:
    """What must come back: all of a whole answer's bytes; of a streamed one the joined texts, the rest as it came."""
    if not streamed:
        return (reasoning_of(turn),)
    merged = f'{{"index":0,"signature":"c2ln{turn}==","text":"ab","type":"reasoning.text","weight":1.50}}'
    return (
        f'"reasoning":"turn {turn}: A trusted/source"',
        f'"reasoning_details":[{merged},{_encrypted(turn)}]',
        f'"reasoning_unknown":{_unknown(turn)}',
    )


CHAT_WIRE = Wire(
    WireName.CHAT_COMPLETIONS, re.compile(re.escape(CHAT_PATH)), lambda _, raw: read_body(raw), render, events, opaque
)
"""Chat completions."""
