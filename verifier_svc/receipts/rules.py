"""The rules that all wire formats have in common (design/admission.md, Order of checks)."""

from typing import Any, TypeGuard

from verifier_svc.receipts.schema import accepts
from verifier_svc.receipts.strict import Limits, child, read
from verifier_svc.receipts.verdicts import Action, Inadmissible, Reason
from verifier_svc.receipts.wire import Expectation, Turn

_KNOWN_COUNTS = ("tool_calls_executed", "web_search_requests")
"""Counters of tools that a provider ran itself, by the names in which gateways report them."""
_REQUESTED = "tool_calls_requested"
"""Asked for by the model is not run by the provider."""


def check_status(http_status: int) -> None:
    """Step 1; raises Inadmissible."""
    if not 200 <= http_status <= 299:
        raise Inadmissible(Reason.HTTP_STATUS)


def read_object(data: bytes, limits: Limits) -> dict[str, Any]:
    """Step 2: the strict JSON object that `data` spells; raises Inadmissible."""
    found = read(data, limits)
    if not isinstance(found, dict):
        raise Inadmissible(Reason.MALFORMED_JSON)
    return found


def check_no_error(response: dict[str, Any], kind_member: str | None) -> None:
    """Step 3: neither an `error` nor, where the format names the object's kind in `kind_member`, the kind `error`."""
    if response.get("error") is not None:
        raise Inadmissible(Reason.PROVIDER_ERROR, "/error")
    if kind_member is not None and response.get(kind_member) == "error":
        raise Inadmissible(Reason.PROVIDER_ERROR, f"/{kind_member}")


def check_model(response: dict[str, Any], member: str, route: Expectation) -> None:
    """Step 4: the model as served is the route's, or one of its aliases; raises Inadmissible."""
    model = response.get(member)
    if model is None or model == "":
        raise Inadmissible(Reason.IDENTITY_MISSING, f"/{member}")
    served_as_asked = route.model is None or model == route.model or model in tuple(route.model_aliases)
    if not isinstance(model, str) or not served_as_asked:
        raise Inadmissible(Reason.IDENTITY_MISMATCH, f"/{member}")


def check_provider(response: dict[str, Any], route: Expectation) -> None:
    """Step 4 for a route that names its provider, in a format with a place for the name; raises Inadmissible."""
    if route.provider_name is None:
        return
    provider = response.get("provider")
    if provider is None or provider == "":
        raise Inadmissible(Reason.IDENTITY_MISSING, "/provider")
    if provider != route.provider_name:
        raise Inadmissible(Reason.IDENTITY_MISMATCH, "/provider")


def check_server_counts(usage: Any) -> None:
    """Refuse usage that counts tools which the provider ran itself."""
    for key in ("server_tool_use_details", "server_tool_use"):
        counts = usage.get(key) if isinstance(usage, dict) else None
        if isinstance(counts, dict):
            _check_counts(counts, f"/usage/{key}")


def _check_counts(counts: dict[str, Any], where: str) -> None:
    """Refuse any count of something done; a counter that the format does not know is not named, only its group."""
    done = [name for name, count in counts.items() if count is not None and count != 0 and name != _REQUESTED]
    for name in _KNOWN_COUNTS:
        if name in done:
            raise Inadmissible(Reason.SERVER_TOOL_USED, child(where, name))
    if done:
        raise Inadmissible(Reason.SERVER_TOOL_USED, where)


def required_id(holder: dict[str, Any], member: str, place: str) -> str:
    """A call's id in a format that requires one; raises Inadmissible where it is absent, empty or no text."""
    call_id = holder.get(member)
    if not isinstance(call_id, str) or not call_id:
        raise Inadmissible(Reason.INVALID_TOOL_CALL, f"{place}/{member}")
    return call_id


def check_unseen(turn: Turn, call_id: str, place: str) -> None:
    """Step 8: no earlier call of the episode had this id; raises Inadmissible."""
    if call_id in turn.seen_ids:
        raise Inadmissible(Reason.DUPLICATE_TOOL_CALL_ID, place)


def offered_name(turn: Turn, name: Any, place: str) -> str:
    """Step 8: the name of an offered tool; raises Inadmissible for anything else."""
    if not isinstance(name, str) or name not in turn.tools:
        raise Inadmissible(Reason.UNKNOWN_TOOL, place)
    return name


def fitting_action(turn: Turn, tool: str, call_id: str, arguments: Any, place: str) -> Action:
    """Step 8: the action of an offered tool with arguments as an object that fits its schema; raises Inadmissible."""
    if not isinstance(arguments, dict):
        raise Inadmissible(Reason.MALFORMED_ARGUMENTS, place)
    if not accepts(turn.tools[tool], arguments):
        raise Inadmissible(Reason.INVALID_ARGUMENTS, place)
    return Action(tool, arguments, call_id)


def arguments_from_text(text: Any, place: str, limits: Limits) -> Any:
    """The value that a text of arguments spells; raises Inadmissible where it is no text or no strict JSON."""
    if not isinstance(text, str):
        raise Inadmissible(Reason.MALFORMED_ARGUMENTS, place)
    try:
        return read(text.encode("utf-8"), limits)
    except Inadmissible:
        raise Inadmissible(Reason.MALFORMED_ARGUMENTS, place) from None


def check_cap(spent: Any, output_cap: int | None, place: str) -> None:
    """Step 9: fewer tokens than the cap asked for were spent, as far as the usage says; raises Inadmissible."""
    if output_cap is not None and is_number(spent) and spent >= output_cap:
        raise Inadmissible(Reason.TRUNCATED, place)


def is_number(value: Any) -> TypeGuard[int | float]:
    """Whether a JSON value is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def member_of(value: Any, name: str) -> Any:
    """The member of an object, None where it has none or is no object."""
    return value.get(name) if isinstance(value, dict) else None
