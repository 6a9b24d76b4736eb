"""The one tool call of a tool stop (design/admission.md, Order of checks, step 8)."""

from collections.abc import Collection, Mapping
from typing import Any

from verifier_svc.receipts.schema import accepts
from verifier_svc.receipts.strict import Limits, read
from verifier_svc.receipts.verdicts import Action, Inadmissible, Reason


def listed(message: dict[str, Any], where: str) -> list[Any]:
    """The message's tool calls, none where the field is absent or null; raises Inadmissible where it is no
    list."""
    found = message.get("tool_calls")
    if found is None:
        return []
    if not isinstance(found, list):
        raise Inadmissible(Reason.INVALID_MESSAGE, f"{where}/tool_calls")
    return found


def has_legacy_call(message: dict[str, Any]) -> bool:
    """Whether the legacy `function_call` is a real one; a placeholder without name and arguments counts as
    absent."""
    legacy = message.get("function_call")
    if isinstance(legacy, dict):
        return any(legacy.get(key) not in (None, "") for key in ("name", "arguments"))
    return legacy is not None


def single_action(
    message: dict[str, Any],
    where: str,
    tools: Mapping[str, Mapping[str, Any]],
    seen_ids: Collection[str],
    limits: Limits,
) -> Action:
    """The action of exactly one well-formed call to an offered tool; raises Inadmissible."""
    found = listed(message, where)
    if len(found) > 1:
        raise Inadmissible(Reason.MULTIPLE_TOOL_CALLS, f"{where}/tool_calls")
    if has_legacy_call(message):
        raise Inadmissible(Reason.INVALID_TOOL_CALL, f"{where}/function_call")
    if not found:
        raise Inadmissible(Reason.AMBIGUOUS_TERMINATION, f"{where}/tool_calls")
    place = f"{where}/tool_calls/0"
    call_id, function = _well_formed(found[0], place)
    if call_id in seen_ids:
        raise Inadmissible(Reason.DUPLICATE_TOOL_CALL_ID, f"{place}/id")
    name = function.get("name")
    if not isinstance(name, str) or name not in tools:
        raise Inadmissible(Reason.UNKNOWN_TOOL, f"{place}/function/name")
    arguments = _arguments(function.get("arguments"), f"{place}/function/arguments", limits)
    if not accepts(tools[name], arguments):
        raise Inadmissible(Reason.INVALID_ARGUMENTS, f"{place}/function/arguments")
    return Action(name, arguments, call_id)


def _well_formed(call: Any, place: str) -> tuple[str, dict[str, Any]]:
    if not isinstance(call, dict):
        raise Inadmissible(Reason.INVALID_TOOL_CALL, place)
    if call.get("type", "function") != "function":
        raise Inadmissible(Reason.INVALID_TOOL_CALL, f"{place}/type")
    call_id = call.get("id")
    if not isinstance(call_id, str) or not call_id:
        raise Inadmissible(Reason.INVALID_TOOL_CALL, f"{place}/id")
    function = call.get("function")
    if not isinstance(function, dict):
        raise Inadmissible(Reason.INVALID_TOOL_CALL, f"{place}/function")
    return call_id, function


def _arguments(text: Any, place: str, limits: Limits) -> dict[str, Any]:
    if not isinstance(text, str):
        raise Inadmissible(Reason.MALFORMED_ARGUMENTS, place)
    try:
        arguments = read(text.encode("utf-8"), limits)
    except Inadmissible:
        raise Inadmissible(Reason.MALFORMED_ARGUMENTS, place) from None
    if not isinstance(arguments, dict):
        raise Inadmissible(Reason.MALFORMED_ARGUMENTS, place)
    return arguments
