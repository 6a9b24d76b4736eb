"""Provider answers to read: good ones of every wire format, and one chat answer spoilt in the ways that matter."""

import base64
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from adapter_svc.admission import OfferedTool, WireFormat

MODEL = "gpt-5-mini-2025-08-07"
TOOL = "finish"
ARGUMENTS = {"claim": "saved"}
TOOLS = (
    OfferedTool.of(
        TOOL,
        {
            "type": "object",
            "properties": {"claim": {"type": "string", "enum": ["saved", "not_saved", "unknown"]}},
            "required": ["claim"],
            "additionalProperties": False,
        },
    ),
    OfferedTool.of("wait", {"type": "object", "properties": {}, "additionalProperties": False}),
)
PROSE = "The operation was accepted at tick 12 and the deadline is at tick 40; nothing has been confirmed since. " * 9


@dataclass(frozen=True, slots=True)
class Sample:
    """A response's body as it came, of a wire format, whole or streamed."""

    name: str
    wire_format: WireFormat
    streamed: bool
    body: bytes


def good_samples() -> tuple[Sample, ...]:
    """An answer that calls `TOOL` with `ARGUMENTS`, in every form."""
    chat, reasoning = _chat(), _chat(reasoning_details=[_detail(number) for number in range(8)])
    whole = (
        (f"chat call, {_size(chat)}", WireFormat.CHAT_COMPLETIONS, chat),
        (f"chat, opaque reasoning, {_size(reasoning)}", WireFormat.CHAT_COMPLETIONS, reasoning),
        ("messages", WireFormat.MESSAGES, _messages()),
        ("responses", WireFormat.RESPONSES, _responses()),
        ("generate_content", WireFormat.GENERATE_CONTENT, _generate_content()),
    )
    streamed = _stream()
    name = f"chat, streamed, {streamed.count(b'data: ')} events"
    stream = Sample(name, WireFormat.CHAT_COMPLETIONS, True, streamed)
    samples = [
        Sample(f"{name}, {_size(body)}" if ", " not in name else name, wire_format, False, body)
        for name, wire_format, body in whole
    ]
    return (*samples[:2], stream, *samples[2:])


def _size(body: bytes) -> str:
    return f"{len(body) / 1000:.1f} kB"


def _opaque(seed: str, count: int) -> str:
    """`count` bytes that nobody can read, as base64."""
    return base64.b64encode(hashlib.shake_256(seed.encode()).digest(count)).decode()


def _detail(number: int) -> dict[str, Any]:
    return {"type": "reasoning.encrypted", "id": f"rs_{number}", "index": number, "data": _opaque(f"{number}", 4_500)}


def _chat(**message: Any) -> bytes:
    """Indented, as OpenAI sends it."""
    call = {
        "id": "call_Xo2mfhkk1rUGh8bwcOPHcF1c",
        "type": "function",
        "function": {"name": TOOL, "arguments": json.dumps(ARGUMENTS)},
    }
    said = {"role": "assistant", "content": PROSE, "tool_calls": [call], "refusal": None, "annotations": [], **message}
    usage = {
        "prompt_tokens": 812,
        "completion_tokens": 96,
        "total_tokens": 908,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 64,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }
    whole = {
        "id": "chatcmpl-CBqk2cXwL0mX0sWq9XkN6tTt5Yz1e",
        "object": "chat.completion",
        "created": 1764547200,
        "model": MODEL,
        "choices": [{"index": 0, "message": said, "logprobs": None, "finish_reason": "tool_calls"}],
        "usage": usage,
        "service_tier": "default",
        "system_fingerprint": "fp_44709d6fcb",
    }
    return json.dumps(whole, indent=2).encode()


def _messages() -> bytes:
    content = [
        {"type": "thinking", "thinking": PROSE, "signature": _opaque("thinking", 600)},
        {"type": "tool_use", "id": "toolu_01T1x1fJ34qAmk2tNTrN7Up6", "name": TOOL, "input": ARGUMENTS},
    ]
    usage = {
        "input_tokens": 812,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": 96,
        "service_tier": "standard",
    }
    whole = {
        "model": MODEL,
        "id": "msg_01XFDUDYJgAACzvnptvVoYEL",
        "type": "message",
        "role": "assistant",
        "content": content,
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": usage,
    }
    return json.dumps(whole).encode()


def _responses() -> bytes:
    reasoning = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": _opaque("reasoning", 600)}
    call = {
        "id": "fc_1",
        "type": "function_call",
        "status": "completed",
        "call_id": "call_Xo2mfhkk1rUGh8bwcOPHcF1c",
        "name": TOOL,
        "arguments": json.dumps(ARGUMENTS),
    }
    usage = {
        "input_tokens": 812,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 96,
        "output_tokens_details": {"reasoning_tokens": 64},
        "total_tokens": 908,
    }
    whole = {
        "id": "resp_68c3",
        "object": "response",
        "created_at": 1764547200,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "model": MODEL,
        "output": [reasoning, call],
        "parallel_tool_calls": False,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [
            {"type": "function", "name": tool.name, "parameters": json.loads(tool.schema), "strict": True}
            for tool in TOOLS
        ],
        "top_p": 1.0,
        "usage": usage,
        "metadata": {},
    }
    return json.dumps(whole, indent=2).encode()


def _generate_content() -> bytes:
    call = {"functionCall": {"name": TOOL, "args": ARGUMENTS}, "thoughtSignature": _opaque("thought", 600)}
    candidate = {"content": {"parts": [{"text": PROSE}, call], "role": "model"}, "finishReason": "STOP", "index": 0}
    usage = {
        "promptTokenCount": 812,
        "candidatesTokenCount": 32,
        "totalTokenCount": 908,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 812}],
        "thoughtsTokenCount": 64,
    }
    whole = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": MODEL, "responseId": "4R3EaK-pNpqg"}
    return json.dumps(whole, indent=2).encode()


def _stream() -> bytes:
    """Prose and then a call, a few characters an event, the counts last."""
    return b"".join(b"data: " + data + b"\n\n" for data in (*_chunks(), b"[DONE]"))


def _chunks() -> Iterator[bytes]:
    yield _chunk({"role": "assistant", "content": "", "refusal": None})
    for word in PROSE.split(" ")[:84]:
        yield _chunk({"content": word + " "})
    begun = {"id": "call_1", "type": "function", "function": {"name": TOOL, "arguments": ""}}
    yield _chunk({"tool_calls": [{"index": 0, **begun}]})
    text = json.dumps(ARGUMENTS)
    for start in range(0, len(text), 2):
        yield _chunk({"tool_calls": [{"index": 0, "function": {"arguments": text[start : start + 2]}}]})
    yield _chunk({}, finish="tool_calls")
    usage = {"prompt_tokens": 812, "completion_tokens": 96, "total_tokens": 908}
    yield _encoded({"choices": [], "usage": usage})


def _chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return _encoded({"choices": [choice], "usage": None})


def _encoded(members: dict[str, Any]) -> bytes:
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1764547200, "model": MODEL, **members}
    return json.dumps(chunk, separators=(",", ":")).encode()


def spoilt_samples() -> Iterator[Sample]:
    """The chat answer, whole or streamed, with one fault each."""
    chat, stream = _chat(), _stream()
    escaped = json.dumps(json.dumps(ARGUMENTS)).encode()
    for name, old, new in (
        ("duplicate key in the body", b'"model":', b'"model": "another", "model":'),
        ("duplicate key in the arguments", escaped, rb'"{\"claim\": \"unknown\", \"claim\": \"saved\"}"'),
        ("NaN", b"1764547200", b"NaN"),
        ("Infinity", b"1764547200", b"Infinity"),
        ("number that no double holds (1e400)", b"1764547200", b"1e400"),
        ("lone surrogate", PROSE.encode(), rb"\ud800"),
        ("missing stop reason", b'"tool_calls"\n    }', b"null\n    }"),
        ("unknown stop reason", b'"finish_reason": "tool_calls"', b'"finish_reason": "tired"'),
        ("tool call with `stop`", b'"finish_reason": "tool_calls"', b'"finish_reason": "stop"'),
        ("unknown tool", b'"name": "finish"', b'"name": "launch"'),
        ("arguments against the schema", escaped, rb'"{\"claim\": \"victory\"}"'),
        ("arguments with an extra field", escaped, rb'"{\"claim\": \"saved\", \"force\": true}"'),
        ("another model", MODEL.encode(), b"gpt-3.5-turbo"),
        ("negative usage", b'"completion_tokens": 96', b'"completion_tokens": -96'),
    ):
        yield _whole(name, _replaced(chat, old, new))
    yield _whole("byte-order mark", b"\xef\xbb\xbf" + chat)
    yield _whole("trailing data", chat + b'{"model": "another"}')
    yield _whole("second tool call", _twice(chat))
    yield _whole("empty text", _text(chat))
    yield _streamed("cut stream (no [DONE])", _replaced(stream, b"data: [DONE]\n\n", b""))
    yield _streamed("stream cut before the stop reason", stream[: stream.index(b'"finish_reason":"tool_calls"')])
    error = b'data: {"error":{"message":"overloaded","code":502}}\n\n'
    yield _streamed("error event after a 200", _replaced(stream, b"data: [DONE]\n\n", error + b"data: [DONE]\n\n"))


def _replaced(body: bytes, old: bytes, new: bytes) -> bytes:
    if body.count(old) != 1:
        raise AssertionError(f"{old!r} stands {body.count(old)} times in the body")
    return body.replace(old, new)


def _twice(chat: bytes) -> bytes:
    whole = json.loads(chat)
    calls = whole["choices"][0]["message"]["tool_calls"]
    calls.append({**calls[0], "id": "call_2"})
    return json.dumps(whole).encode()


def _text(chat: bytes) -> bytes:
    whole = json.loads(chat)
    whole["choices"][0] = {"index": 0, "message": {"role": "assistant", "content": " "}, "finish_reason": "stop"}
    return json.dumps(whole).encode()


def _whole(name: str, body: bytes) -> Sample:
    return Sample(name, WireFormat.CHAT_COMPLETIONS, False, body)


def _streamed(name: str, body: bytes) -> Sample:
    return Sample(name, WireFormat.CHAT_COMPLETIONS, True, body)
