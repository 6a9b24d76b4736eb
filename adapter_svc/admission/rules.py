"""The checks that every wire format shares (design/admission.md, Order of checks); each raises Inadmissible.

What differs between formats is where a thing stands and what it is called: that comes in as arguments.
"""

from adapter_svc.admission.request import AdmissionRequest, ExpectedIdentity, OfferedTool
from adapter_svc.admission.schemas import arguments_valid
from adapter_svc.admission.strict_json import JsonValue, read_strict
from adapter_svc.admission.verdict import Action, Inadmissible, Reason
from countersign.kit.canonical import canonical_json

JsonObject = dict[str, JsonValue]


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
    for tool in request.tools:
        if tool.name == name:
            return tool
    raise Inadmissible(Reason.UNKNOWN_TOOL, where)


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
