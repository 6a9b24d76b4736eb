"""Chat-completions responses to start from, written out by hand."""

import json
from typing import Any

CLAIM = {"type": "string", "enum": ["saved", "not_saved", "unknown"]}
TOOLS: dict[str, dict[str, Any]] = {
    "wait": {"type": "object", "properties": {}, "additionalProperties": False},
    "finish": {"type": "object", "properties": {"claim": CLAIM}, "required": ["claim"], "additionalProperties": False},
}


def tool_call(name: str = "wait", arguments: Any = "{}", call_id: Any = "call_1", **more: Any) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def text_response(content: Any = "Done.", finish_reason: Any = "stop", **message: Any) -> dict[str, Any]:
    choice = {
        "index": 0,
        "finish_reason": finish_reason,
        "message": {"role": "assistant", "content": content, **message},
    }
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return {"id": "x", "object": "chat.completion", "model": "m-1", "choices": [choice], "usage": usage}


def tool_response(*tool_calls: Any, **message: Any) -> dict[str, Any]:
    return text_response(**{"content": None, "finish_reason": "tool_calls", "tool_calls": list(tool_calls), **message})


def without(response: dict[str, Any], *path: Any) -> dict[str, Any]:
    """`response` without the member at `path`."""
    copy: dict[str, Any] = json.loads(json.dumps(response))
    holder: Any = copy
    for step in path[:-1]:
        holder = holder[step]
    del holder[path[-1]]
    return copy


def having(response: dict[str, Any], *path: Any) -> dict[str, Any]:
    """`response` with the last of `path` as the value of the member that the rest names."""
    copy: dict[str, Any] = json.loads(json.dumps(response))
    holder: Any = copy
    for step in path[:-2]:
        holder = holder[step]
    holder[path[-2]] = path[-1]
    return copy
