"""The rules of unary chat_completions, in the design's order: the first failure wins (design/admission.md,
Order of checks).

Check 1 (HTTP status), and the reading of check 2, are `admit`'s. Decided here by analogy, each pinned by a
test:

- `error` that is anything but null, or `object: "error"`, is an in-band error.
- `content` of another type than null, string or list, and `tool_calls` that is neither null nor a list,
  are `INVALID_MESSAGE` (check 5).
- An empty `refusal` string is a placeholder and counts as absent. A malformed refusal is invalid under a
  tool stop too.
- A provider-run tool is found after the stop reason (check 6) and before the message is judged. Any counter of
  tools that the provider ran counts, known or not; what was only requested was not run.
- A call without a function object is no function call: found before its id is compared. A missing name was not offered.
- The output cap is compared with any number, a whole one or not: it need not be one that can be billed.
"""

from collections.abc import Iterator

from adapter_svc.admission.chat_stops import classify
from adapter_svc.admission.request import AdmissionRequest, Allowance
from adapter_svc.admission.rules import (
    JsonObject,
    action_of,
    offered_tool,
    read_arguments_text,
    require_below_cap,
    require_call_id,
    require_model,
    require_nothing_counted,
    require_object,
    require_provider,
    require_unseen,
)
from adapter_svc.admission.stop_table import StopClass
from adapter_svc.admission.strict_json import JsonValue
from adapter_svc.admission.verdict import Action, Inadmissible, Reason, TextFinish

_CHOICE = "/choices/0"
_MESSAGE = "/choices/0/message"
_CALLS = "/choices/0/message/tool_calls"
_CALL = "/choices/0/message/tool_calls/0"
_ARGUMENTS = "/choices/0/message/tool_calls/0/function/arguments"

_SERVER_TOOL_FIELD = "executed_tools"
"""Groq's list of the tools that it ran itself."""
_SERVER_TOOL_ANNOTATION = "url_citation"
"""An annotation that only a provider's own web search makes; a parsed input file is none."""


def judge(body: JsonValue, request: AdmissionRequest) -> Action | TextFinish:
    """Judge a body that was read as strict JSON.

    Raises Inadmissible with the first check that fails.
    """
    body = require_object(body)
    _require_no_error(body)
    require_model(body.get("model"), request.expected, "/model")
    require_provider(body, request.expected)
    choice = _only_choice(body)
    message = _assistant_message(choice)
    text = _text_of(message)
    stop = classify(choice.get("finish_reason"), choice.get("native_finish_reason"))
    _require_no_server_tool(body, message)
    calls = _calls_of(message)
    if stop is StopClass.TEXT and calls and Allowance.TOOL_CALLS_WITH_STOP in request.allowances:
        stop = StopClass.TOOL
    verdict = (
        _judge_call(message, calls, text, request) if stop is StopClass.TOOL else _judge_text(message, calls, text)
    )
    usage = body.get("usage")
    spent = usage.get("completion_tokens") if isinstance(usage, dict) else None
    require_below_cap(spent, request.output_cap, "/usage/completion_tokens")
    return verdict


def _require_no_error(body: JsonObject) -> None:
    if body.get("error") is not None:
        raise Inadmissible(Reason.PROVIDER_ERROR, "/error")
    if body.get("object") == "error":
        raise Inadmissible(Reason.PROVIDER_ERROR, "/object")
    choices = body.get("choices")
    for position, choice in enumerate(choices if isinstance(choices, list) else []):
        if isinstance(choice, dict) and choice.get("error") is not None:
            raise Inadmissible(Reason.PROVIDER_ERROR, f"/choices/{position}/error")


def _only_choice(body: JsonObject) -> JsonObject:
    choices = body.get("choices")
    if not isinstance(choices, list) or len(choices) != 1:
        raise Inadmissible(Reason.INVALID_CHOICES, "/choices")
    choice = choices[0]
    if not isinstance(choice, dict):
        raise Inadmissible(Reason.INVALID_CHOICES, _CHOICE)
    return choice


def _assistant_message(choice: JsonObject) -> JsonObject:
    message = choice.get("message")
    if not isinstance(message, dict):
        raise Inadmissible(Reason.INVALID_MESSAGE, _MESSAGE)
    if message.get("role") != "assistant":
        raise Inadmissible(Reason.INVALID_MESSAGE, f"{_MESSAGE}/role")
    calls = message.get("tool_calls")
    if calls is not None and not isinstance(calls, list):
        raise Inadmissible(Reason.INVALID_MESSAGE, _CALLS)
    return message


def _text_of(message: JsonObject) -> str:
    """The message's text, empty where there is none; a list's text parts are joined, thinking is left out."""
    content = message.get("content")
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise Inadmissible(Reason.INVALID_MESSAGE, f"{_MESSAGE}/content")
    return "".join(_text_parts(content))


def _text_parts(parts: list[JsonValue]) -> Iterator[str]:
    for position, part in enumerate(parts):
        if isinstance(part, dict) and part.get("type") == "thinking":
            continue
        text = part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None
        if not isinstance(text, str):
            raise Inadmissible(Reason.INVALID_MESSAGE, f"{_MESSAGE}/content/{position}")
        yield text


def _calls_of(message: JsonObject) -> list[JsonValue]:
    calls = message.get("tool_calls")
    return calls if isinstance(calls, list) else []


def _require_no_server_tool(body: JsonObject, message: JsonObject) -> None:
    if message.get(_SERVER_TOOL_FIELD) not in (None, []):
        raise Inadmissible(Reason.SERVER_TOOL_USED, f"{_MESSAGE}/{_SERVER_TOOL_FIELD}")
    annotations = message.get("annotations")
    for position, annotation in enumerate(annotations if isinstance(annotations, list) else []):
        if isinstance(annotation, dict) and annotation.get("type") == _SERVER_TOOL_ANNOTATION:
            raise Inadmissible(Reason.SERVER_TOOL_USED, f"{_MESSAGE}/annotations/{position}")
    require_nothing_counted(body.get("usage"))


def _judge_text(message: JsonObject, calls: list[JsonValue], text: str) -> TextFinish:
    if calls:
        raise Inadmissible(Reason.AMBIGUOUS_TERMINATION, _CALLS)
    if _has_legacy_call(message):
        raise Inadmissible(Reason.AMBIGUOUS_TERMINATION, f"{_MESSAGE}/function_call")
    refusal = _refusal_of(message)
    if text.strip():
        return TextFinish(text)
    if refusal.strip():
        raise Inadmissible(Reason.STRUCTURED_REFUSAL, f"{_MESSAGE}/refusal")
    raise Inadmissible(Reason.EMPTY_TEXT, f"{_MESSAGE}/content")


def _refusal_of(message: JsonObject) -> str:
    refusal = message.get("refusal")
    if refusal is None:
        return ""
    if not isinstance(refusal, str):
        raise Inadmissible(Reason.INVALID_MESSAGE, f"{_MESSAGE}/refusal")
    return refusal


def _has_legacy_call(message: JsonObject) -> bool:
    legacy = message.get("function_call")
    if isinstance(legacy, dict):
        # Some servers send the field empty with every answer.
        return any(legacy.get(key) not in (None, "") for key in ("name", "arguments"))
    return legacy is not None


def _judge_call(message: JsonObject, calls: list[JsonValue], text: str, request: AdmissionRequest) -> Action:
    _refusal_of(message)
    function, call_id = _only_call(message, calls)
    require_unseen(call_id, request, f"{_CALL}/id")
    tool = offered_tool(function.get("name"), request, f"{_CALL}/function/name")
    arguments = read_arguments_text(function.get("arguments"), request, _ARGUMENTS)
    return action_of(tool, arguments, call_id, text, _ARGUMENTS)


def _only_call(message: JsonObject, calls: list[JsonValue]) -> tuple[JsonObject, str]:
    """The function of the one well-formed call, and the call's id."""
    if len(calls) > 1:
        raise Inadmissible(Reason.MULTIPLE_TOOL_CALLS, _CALLS)
    if _has_legacy_call(message):
        raise Inadmissible(Reason.INVALID_TOOL_CALL, f"{_MESSAGE}/function_call")
    if not calls:
        raise Inadmissible(Reason.AMBIGUOUS_TERMINATION, _CALLS)
    call = calls[0]
    if not isinstance(call, dict):
        raise Inadmissible(Reason.INVALID_TOOL_CALL, _CALL)
    if call.get("type", "function") != "function":
        raise Inadmissible(Reason.INVALID_TOOL_CALL, f"{_CALL}/type")
    call_id = require_call_id(call.get("id"), f"{_CALL}/id")
    function = call.get("function")
    if not isinstance(function, dict):
        raise Inadmissible(Reason.INVALID_TOOL_CALL, f"{_CALL}/function")
    return function, call_id
