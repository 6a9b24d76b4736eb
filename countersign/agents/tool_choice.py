"""From a chat-completions request with tools to a constrained choice, and from the choice back to a tool call.

Pure translation; `tool_front` does the sending, and its docstring says what the result does and does not stand for.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from countersign.agents.chat import call_id, tool_call_json
from countersign.agents.errors import BadChatRequestError, ChoiceNotHonouredError
from countersign.agents.wire import ChatRequest, ToolCall

_REPLACED_KEYS = frozenset({"messages", "parallel_tool_calls", "response_format", "tool_choice", "tools"})


def constrained_body(chat: ChatRequest) -> dict[str, Any]:
    """The request to send upstream: no tools, the same options, and an output that must be one of the choices.

    A request that offers no tools, or says `tool_choice: none`, keeps its own output format.
    Raises BadChatRequestError where the conversation or the tool choice has a form that cannot be translated.
    """
    body = {key: value for key, value in chat.body.items() if key not in _REPLACED_KEYS}
    tools = offered_tools(chat)
    body["cache_prompt"] = True
    body["messages"] = upstream_messages(chat, tools)
    if tools:
        schema = choice_schema(tools, may_answer=_may_answer(chat))
        named = {"name": "choice", "strict": True, "schema": schema}
        body["response_format"] = {"type": "json_schema", "json_schema": named}
    elif "response_format" in chat.body:
        body["response_format"] = chat.body["response_format"]
    return body


def offered_tools(chat: ChatRequest) -> list[Mapping[str, Any]]:
    """The functions that may be chosen, as `tool_choice` leaves them. Raises BadChatRequestError."""
    functions = [tool["function"] for tool in chat.body.get("tools", [])]
    choice = chat.body.get("tool_choice", "auto")
    if choice == "none":
        return []
    if choice in ("auto", "required"):
        return functions
    try:
        chosen = [function for function in functions if function["name"] == choice["function"]["name"]]
    except (TypeError, KeyError):
        chosen = []
    if not chosen:
        raise BadChatRequestError("tool_choice names no tool that is offered")
    return chosen


def _may_answer(chat: ChatRequest) -> bool:
    return bool(chat.body.get("tool_choice", "auto") == "auto")


def choice_schema(tools: Sequence[Mapping[str, Any]], *, may_answer: bool) -> dict[str, Any]:
    """One alternative for each tool, in order, and with `may_answer` one for an ordinary text answer."""
    alternatives = [_tool_alternative(tool) for tool in tools]
    if may_answer:
        alternatives.append(_closed_object({"answer": {"type": "string", "minLength": 1}}))
    return {"anyOf": alternatives}


def _tool_alternative(tool: Mapping[str, Any]) -> dict[str, Any]:
    properties: dict[str, Any] = {"tool": {"const": tool["name"]}}
    parameters = tool.get("parameters") or {}
    if parameters.get("properties"):
        properties["arguments"] = parameters
    return _closed_object(properties)


def _closed_object(properties: dict[str, Any]) -> dict[str, Any]:
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def upstream_messages(chat: ChatRequest, tools: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """The conversation in the three roles that the model's template knows, tools explained to it first.

    A call made earlier becomes the text of its choice, a tool's result a user message. Nothing is left out but
    reasoning members, which this model does not write. Raises BadChatRequestError for a message of no such form.
    """
    names: dict[str, str] = {}
    messages = [_upstream_message(message, names) for message in chat.messages]
    if tools:
        explanation = _explanation(tools, may_answer=_may_answer(chat))
        if messages[0]["role"] == "system":
            messages[0] = {"role": "system", "content": f"{messages[0]['content']}\n\n{explanation}"}
        else:
            messages.insert(0, {"role": "system", "content": explanation})
    return messages


def _upstream_message(message: Mapping[str, Any], names: dict[str, str]) -> dict[str, str]:
    role = message.get("role")
    if role in ("system", "developer"):
        return {"role": "system", "content": _text(message)}
    if role == "user":
        return {"role": "user", "content": _text(message)}
    if role == "tool":
        name = names.get(str(message.get("tool_call_id")), "the tool")
        return {"role": "user", "content": f"Result of {name}: {_text(message)}"}
    if role == "assistant":
        return {"role": "assistant", "content": _assistant_text(message, names)}
    raise BadChatRequestError(f"a message of role {role!r} is not understood")


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if not isinstance(content, str):
        raise BadChatRequestError("a message's content is not text")
    return content


def _assistant_text(message: Mapping[str, Any], names: dict[str, str]) -> str:
    calls = message.get("tool_calls") or []
    if not calls:
        return _text(message)
    try:
        (call,) = calls
        name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
        names[call["id"]] = name
    except (TypeError, KeyError, ValueError):
        raise BadChatRequestError("an assistant's message does not hold one complete tool call") from None
    return json.dumps({"tool": name, "arguments": arguments} if arguments else {"tool": name})


def _explanation(tools: Sequence[Mapping[str, Any]], *, may_answer: bool) -> str:
    lines = ["Reply with one JSON object and nothing else. To use a tool, name it:"]
    lines += [f"{_example(tool)} - {tool.get('description', '')}" for tool in tools]
    if may_answer:
        lines.append('To stop with an ordinary text answer: {"answer": TEXT}')
    return "\n".join(lines)


def _example(tool: Mapping[str, Any]) -> str:
    properties = (tool.get("parameters") or {}).get("properties") or {}
    name = json.dumps(tool["name"])
    if not properties:
        return f'{{"tool": {name}}}'
    arguments = ", ".join(f"{json.dumps(key)}: {_values(schema)}" for key, schema in properties.items())
    return f'{{"tool": {name}, "arguments": {{{arguments}}}}}'


def _values(schema: Mapping[str, Any]) -> str:
    values = schema.get("enum")
    return " or ".join(json.dumps(value) for value in values) if values else "VALUE"


def answer_body(chat: ChatRequest, upstream: Mapping[str, Any]) -> dict[str, Any]:
    """The completion that answers `chat`: the model server's envelope and usage, and its choice as a tool call.

    An answer that did not end normally keeps its reason and its text, never repaired. Raises
    ChoiceNotHonouredError where the server's answer is not a completion, or ended normally with something that
    was not among the choices.
    """
    try:
        (choice,) = upstream["choices"]
        reason, text = choice["finish_reason"], choice["message"]["content"]
    except (TypeError, KeyError, ValueError):
        raise ChoiceNotHonouredError("the model server's answer is not a chat completion") from None
    if reason != "stop" or not offered_tools(chat):
        return {**upstream, "choices": [_choice(text, None, reason)]}
    call, answer = _read_choice(chat, text)
    if call is not None:
        return {**upstream, "choices": [_choice(None, call, "tool_calls")]}
    return {**upstream, "choices": [_choice(answer, None, "stop")]}


def _read_choice(chat: ChatRequest, text: Any) -> tuple[ToolCall | None, str | None]:
    try:
        choice = json.loads(text)
        if _may_answer(chat) and list(choice) == ["answer"] and isinstance(choice["answer"], str):
            return None, choice["answer"]
        name, arguments = choice["tool"], choice.get("arguments", {})
        known = name in [tool["name"] for tool in offered_tools(chat)]
    except (TypeError, KeyError, ValueError, AttributeError):
        known = False
    if not known or not isinstance(arguments, dict):
        raise ChoiceNotHonouredError("the model server did not keep to the choices")
    return ToolCall(call_id(chat.raw), name, json.dumps(arguments, separators=(",", ":"))), None


def _choice(content: Any, call: ToolCall | None, reason: Any) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if call is not None:
        message["tool_calls"] = [tool_call_json(call)]
    return {"index": 0, "message": message, "finish_reason": reason}
