"""What a recorded request offered, had seen and asked for, by wire format; whatever has no such form is left out.

Real clients spell the same thing in more than one way: Google's libraries write snake case too, and one tool without a
list around it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

Sent = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Declared:
    """A function as a request declares it: `parameters` is its JSON schema."""

    name: str
    description: str
    parameters: Any


@dataclass(frozen=True, slots=True)
class RequestReader:
    """How one format's requests are read: the functions offered, the ids of the calls so far, the output cap."""

    tools: Callable[[Sent], Iterator[Declared]]
    seen_ids: Callable[[Sent], Iterator[str]]
    output_cap: Callable[[Sent], int | None]


_GOOGLE_TYPES = ("STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL")


def _objects(value: Any) -> list[Sent]:
    """The objects of a list, or the one object that stands in its place."""
    items = value if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, dict)]


def _declared(function: Sent, parameters: Any) -> Declared:
    return Declared(str(function.get("name") or ""), str(function.get("description") or ""), parameters or {})


def _cap(*values: Any) -> int | None:
    return next((value for value in values if type(value) is int and 0 < value < 2**32), None)


def _texts(values: Iterator[Any]) -> Iterator[str]:
    return (value for value in values if isinstance(value, str))


def _chat_tools(sent: Sent) -> Iterator[Declared]:
    for tool in _objects(sent.get("tools")):
        function = tool.get("function")
        if isinstance(function, dict):
            yield _declared(function, function.get("parameters"))


def _chat_ids(sent: Sent) -> Iterator[str]:
    calls = (call for message in _objects(sent.get("messages")) for call in _objects(message.get("tool_calls")))
    return _texts(call.get("id") for call in calls)


def _messages_tools(sent: Sent) -> Iterator[Declared]:
    """The client's own functions; a provider's tools have a type and no schema."""
    for tool in _objects(sent.get("tools")):
        if isinstance(tool.get("input_schema"), dict):
            yield _declared(tool, tool["input_schema"])


def _messages_ids(sent: Sent) -> Iterator[str]:
    blocks = (block for message in _objects(sent.get("messages")) for block in _objects(message.get("content")))
    return _texts(block.get("id") for block in blocks if block.get("type") == "tool_use")


def _responses_tools(sent: Sent) -> Iterator[Declared]:
    """The functions on their own; those of a namespace are offered under its name, a provider's tools not at all."""
    for tool in _objects(sent.get("tools")):
        if tool.get("type") == "function":
            yield _declared(tool, tool.get("parameters"))


def _responses_ids(sent: Sent) -> Iterator[str]:
    calls = (item for item in _objects(sent.get("input")) if item.get("type") == "function_call")
    return _texts(call.get("call_id") for call in calls)


def _generate_content_tools(sent: Sent) -> Iterator[Declared]:
    for tool in _objects(sent.get("tools")):
        for function in _objects(_first(tool, "functionDeclarations", "function_declarations")):
            schema = _first(function, "parametersJsonSchema", "parameters_json_schema")
            yield _declared(function, schema if schema is not None else _json_schema(function.get("parameters")))


def _json_schema(schema: Any) -> Any:
    """Google's own form of a schema as JSON schema: the same but for the spelling of types."""
    if isinstance(schema, list):
        return [_json_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    read = {name: _json_schema(value) for name, value in schema.items()}
    return read | {"type": read["type"].lower()} if read.get("type") in _GOOGLE_TYPES else read


def _first(value: Sent, *names: str) -> Any:
    return next((value[name] for name in names if name in value), None)


def _generate_content_ids(sent: Sent) -> Iterator[str]:
    parts = (part for content in _objects(sent.get("contents")) for part in _objects(content.get("parts")))
    calls = (_first(part, "functionCall", "function_call") for part in parts)
    return _texts(call.get("id") for call in calls if isinstance(call, dict))


def _generate_content_cap(sent: Sent) -> int | None:
    config = _first(sent, "generationConfig", "generation_config")
    return _cap(_first(config, "maxOutputTokens", "max_output_tokens")) if isinstance(config, dict) else None


REQUEST_READERS: Mapping[str, RequestReader] = MappingProxyType(
    {
        "chat_completions": RequestReader(
            _chat_tools, _chat_ids, lambda sent: _cap(sent.get("max_completion_tokens"), sent.get("max_tokens"))
        ),
        "messages": RequestReader(_messages_tools, _messages_ids, lambda sent: _cap(sent.get("max_tokens"))),
        "responses": RequestReader(_responses_tools, _responses_ids, lambda sent: _cap(sent.get("max_output_tokens"))),
        "generate_content": RequestReader(_generate_content_tools, _generate_content_ids, _generate_content_cap),
    }
)
"""By the format's name."""

_MODEL_IN_PATH = re.compile(r"/models/([^/:]+)")


def asked_model(line: Mapping[str, Any]) -> str:
    """The model that an exchange's request asked for, in its body or (generate_content) its path; empty where neither
    names one.
    """
    sent = line.get("request")
    model = sent.get("model") if isinstance(sent, dict) else None
    if isinstance(model, str):
        return model
    found = _MODEL_IN_PATH.search(str(line.get("path") or ""))
    return found[1] if found is not None else ""
