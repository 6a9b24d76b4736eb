"""The checks that every wire format shares (design/admission.md, Order of checks); each raises Inadmissible.

What differs between formats is where a thing stands and what it is called: that comes in as arguments.
"""

from adapter_svc.admission.request import AdmissionRequest, ExpectedIdentity, OfferedTool
from adapter_svc.admission.schemas import arguments_valid
from adapter_svc.admission.strict_json import JsonValue, read_strict
from adapter_svc.admission.verdict import Action, Inadmissible, Reason
from countersign.kit.canonical import canonical_json

JsonObject = dict[str, JsonValue]

_SERVER_TOOL_GROUPS = ("server_tool_use_details", "server_tool_use")
"""Counters under `usage` of tools that the provider or its gateway ran (OpenRouter, Anthropic)."""
_SERVER_TOOL_COUNTERS = ("tool_calls_executed", "web_search_requests")
"""Those that a pointer may name."""
_SERVER_TOOL_REQUESTS = "tool_calls_requested"
"""The one counter that says nothing of execution."""


def require_object(body: JsonValue) -> JsonObject:
    """Check 2's end: the body is an object, else `MALFORMED_JSON`."""
    if not isinstance(body, dict):
        raise Inadmissible(Reason.MALFORMED_JSON, "")
    return body


def require_model(served: JsonValue, expected: ExpectedIdentity, where: str) -> None:
    """Check 4: the served model is the route's, or an alias of it."""
    allowed = None if expected.model is None else {expected.model} | expected.aliases
    require_name(served, allowed, where)


def require_name(served: JsonValue, allowed: set[str] | None, where: str) -> None:
    """Check 4 for one name; `allowed` None asks only that there is one."""
    if served is None or served == "":
        raise Inadmissible(Reason.IDENTITY_MISSING, where)
    if not isinstance(served, str) or (allowed is not None and served not in allowed):
        raise Inadmissible(Reason.IDENTITY_MISMATCH, where)


def require_provider(body: JsonObject, expected: ExpectedIdentity) -> None:
    """Check 4 for the provider's name, in a format whose speakers may give one, for a route that names one."""
    if expected.provider_name is not None:
        require_name(body.get("provider"), {expected.provider_name}, "/provider")


def require_nothing_counted(usage: JsonValue) -> None:
    """No tool that the provider ran is counted, known or not, else `SERVER_TOOL_USED`; what was only requested was not
    run.
    """
    for group in _SERVER_TOOL_GROUPS:
        counters = usage.get(group) if isinstance(usage, dict) else None
        if isinstance(counters, dict):
            _require_no_executions(counters, f"/usage/{group}")


def _require_no_executions(counters: JsonObject, where: str) -> None:
    for name in _SERVER_TOOL_COUNTERS:
        if counters.get(name) not in (None, 0):
            raise Inadmissible(Reason.SERVER_TOOL_USED, f"{where}/{name}")
    if any(value not in (None, 0) for name, value in counters.items() if name != _SERVER_TOOL_REQUESTS):
        raise Inadmissible(Reason.SERVER_TOOL_USED, where)


def require_call_id(call_id: JsonValue, where: str) -> str:
    """Check 8's id, in a format that requires one: nonempty text, else `INVALID_TOOL_CALL`."""
    if not isinstance(call_id, str) or not call_id:
        raise Inadmissible(Reason.INVALID_TOOL_CALL, where)
    return call_id


def require_unseen(call_id: str, request: AdmissionRequest, where: str) -> None:
    """Check 8's id: not used before in this episode, else `DUPLICATE_TOOL_CALL_ID`."""
    if call_id in request.seen_tool_call_ids:
        raise Inadmissible(Reason.DUPLICATE_TOOL_CALL_ID, where)


def offered_tool(name: JsonValue, request: AdmissionRequest, where: str) -> OfferedTool:
    """Check 8's name: the tool offered under it with this request, else `UNKNOWN_TOOL`."""
    tool = next((offered for offered in request.tools if offered.name == name), None)
    if tool is None:
        raise Inadmissible(Reason.UNKNOWN_TOOL, where)
    return tool


def action_of(tool: OfferedTool, arguments: JsonObject, call_id: str, text: str, where: str) -> Action:
    """Check 8's end: arguments that satisfy the tool's schema, else `INVALID_ARGUMENTS` at `where`."""
    if not arguments_valid(tool, arguments):
        raise Inadmissible(Reason.INVALID_ARGUMENTS, where)
    return Action(tool.name, canonical_json(arguments), call_id, text)


def read_arguments_text(text: JsonValue, request: AdmissionRequest, where: str) -> JsonObject:
    """Arguments that come as JSON in a string; whatever is wrong with them is `MALFORMED_ARGUMENTS`."""
    if not isinstance(text, str):
        raise Inadmissible(Reason.MALFORMED_ARGUMENTS, where)
    try:
        arguments = read_strict(text.encode("utf-8"), request.limits)
    except Inadmissible:
        raise Inadmissible(Reason.MALFORMED_ARGUMENTS, where) from None
    return require_arguments_object(arguments, where)


def require_arguments_object(arguments: JsonValue, where: str) -> JsonObject:
    """Arguments that come as JSON: an object, else `MALFORMED_ARGUMENTS`."""
    if not isinstance(arguments, dict):
        raise Inadmissible(Reason.MALFORMED_ARGUMENTS, where)
    return arguments


def require_below_cap(spent: JsonValue, output_cap: int | None, where: str) -> None:
    """Check 9: any number at the cap that was asked for, a whole one or not, is `TRUNCATED`."""
    if output_cap is None or isinstance(spent, bool) or not isinstance(spent, int | float):
        return
    if spent >= output_cap:
        raise Inadmissible(Reason.TRUNCATED, where)
