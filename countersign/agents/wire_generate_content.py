"""The generate_content format as a provider sees it: reading a request, writing an answer, whole or as events."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

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

FINISH_REASONS = {"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}
"""Chat completions' reasons in this format's words; another reason is `OTHER`, none is left out."""
CACHED_TOKENS = 8
_TARGET = re.compile(r"/v1/models/(?P<model>[^/:?]+):(?:generateContent|(?P<streamed>streamGenerateContent\?alt=sse))")


def read(target: re.Match[str], raw: bytes) -> ChatRequest:
    """Read a request. Raises BadChatRequestError where it is not one."""
    model, streamed = unquote(target["model"]), target["streamed"] is not None
    try:
        body = json.loads(raw)
        messages = tuple(_chat_messages(body["contents"]))
        tools = tuple(str(one["name"]) for tool in body.get("tools", []) for one in tool["functionDeclarations"])
        cap = body.get("generationConfig", {}).get("maxOutputTokens")
    except (ValueError, TypeError, KeyError, AttributeError):
        raise BadChatRequestError("the body is not a request of the generate_content format") from None
    return ChatRequest(raw, body, model, messages, tools, read_cap(cap), WireName.GENERATE_CONTENT, streamed)


def _chat_messages(contents: list[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for content in contents:
        parts = content["parts"]
        if content["role"] == "model":
            called = [part["functionCall"] for part in parts if "functionCall" in part]
            calls = [{"id": _identity(call), "function": {"name": call["name"]}} for call in called]
            yield {"role": "assistant", "tool_calls": calls}
            continue
        for part in parts:
            answered = part.get("functionResponse")
            if answered is None:
                yield {"role": "user", "content": part["text"]}
            else:
                result = json.dumps(answered["response"])
                yield {"role": "tool", "tool_call_id": _identity(answered), "content": result}


def _identity(call: Mapping[str, Any]) -> str:
    """What names a call for the policies: its id, or its function where it has none."""
    return str(call.get("id") or call["name"])


def write(completion: Completion, chat: ChatRequest) -> bytes:
    """The answer as one body."""
    return _body(completion, chat, list(_parts(completion)), last=True).encode()


def events(completion: Completion, chat: ChatRequest) -> bytes:
    """The answer as events: a chunk for each part, the last one with the reason."""
    parts = list(_parts(completion))
    chunks = [_body(completion, chat, [part], last=False) for part in parts[:-1]]
    return "".join(map(event, [*chunks, _body(completion, chat, parts[-1:], last=True)])).encode()


def _body(completion: Completion, chat: ChatRequest, parts: list[str], *, last: bool) -> str:
    reason = _finish_reason(completion) if last else None
    finish = f',"finishReason":"{reason}"' if reason is not None else ""
    candidate = f'{{"content":{{"parts":[{",".join(parts)}],"role":"model"}},"index":0{finish}}}'
    usage = f',"usageMetadata":{json.dumps(_usage(completion, chat))}' if completion.with_usage else ""
    return f'{{"candidates":[{candidate}]{usage},"modelVersion":{json.dumps(completion.model)}}}'


def _finish_reason(completion: Completion) -> str | None:
    return None if completion.finish_reason is None else FINISH_REASONS.get(completion.finish_reason, "OTHER")


def _usage(completion: Completion, chat: ChatRequest) -> dict[str, int]:
    prompt, output = input_tokens(chat), output_tokens(completion, chat.output_cap)
    thoughts = output // 2
    return {
        "promptTokenCount": prompt,
        "cachedContentTokenCount": min(CACHED_TOKENS, prompt),
        "candidatesTokenCount": output - thoughts,
        "thoughtsTokenCount": thoughts,
        "totalTokenCount": prompt + output,
    }


def _parts(completion: Completion) -> Iterator[str]:
    turn = completion.opaque_turn
    if turn is not None:
        yield _thought(turn)
    if completion.content is not None:
        # Two parts: pieces of a text are parts of their own, in a stream and after it.
        half = len(completion.content) // 2
        yield json.dumps({"text": completion.content[:half]})
        yield json.dumps({"text": completion.content[half:]})
    for call in completion.tool_calls:
        yield _call_part(call, turn)


def _thought(turn: int) -> str:
    return (
        f'{{ "thought" : true,"text":"turn {turn}: a trusted \\u0041 source\\/way \u00e9",'
        f'"x_unknown":{{"z":[ ],"a":0.10,"turn":{turn}.0,"b":-0,"scale":2E+5}}, "tags":[] }}'
    )


def _signature(turn: int) -> str:
    return f'"thoughtSignature" : "c2lnbmF0dXJl{turn}\\/+\\u003d"'


def _call_part(call: ToolCall, turn: int | None) -> str:
    """A call; beside opaque items it has a signature and, as most of this format's traffic, no id."""
    named = f'"name":{json.dumps(call.name)},"args":{call.arguments}'
    if turn is None:
        return f'{{"functionCall":{{"id":{json.dumps(call.id)},{named}}}}}'
    return f'{{"functionCall":{{{named}}},{_signature(turn)} ,"weight":1.50}}'


def opaque(turn: int, streamed: bool) -> tuple[str, ...]:
    """What must come back of the opaque parts: all of their bytes, streamed or not."""
    del streamed
    return _thought(turn), f'{_signature(turn)} ,"weight":1.50}}'


GENERATE_CONTENT_WIRE = Wire(WireName.GENERATE_CONTENT, _TARGET, read, write, events, opaque)
"""The generate_content format."""
