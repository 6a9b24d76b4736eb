"""The one tool call of a chat completion's tool stop (design/admission.md, Order of checks, step 8)."""

from typing import Any

from verifier_svc.receipts import rules
from verifier_svc.receipts.verdicts import Action, Inadmissible, Reason
from verifier_svc.receipts.wire import Turn


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


def single_action(message: dict[str, Any], where: str, turn: Turn) -> Action:
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
    rules.check_unseen(turn, call_id, f"{place}/id")
    tool = rules.offered_name(turn, function.get("name"), f"{place}/function/name")
    at_arguments = f"{place}/function/arguments"
    arguments = rules.arguments_from_text(function.get("arguments"), at_arguments, turn.route.limits)
    return rules.fitting_action(turn, tool, call_id, arguments, at_arguments)


def _well_formed(call: Any, place: str) -> tuple[str, dict[str, Any]]:
    if not isinstance(call, dict):
        raise Inadmissible(Reason.INVALID_TOOL_CALL, place)
    if call.get("type", "function") != "function":
        raise Inadmissible(Reason.INVALID_TOOL_CALL, f"{place}/type")
    call_id = rules.required_id(call, "id", place)
    function = call.get("function")
    if not isinstance(function, dict):
        raise Inadmissible(Reason.INVALID_TOOL_CALL, f"{place}/function")
    return call_id, function
