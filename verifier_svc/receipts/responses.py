"""One response of the responses format, one verdict (design/admission.md, Order of checks and Wire formats, responses).

Decided by analogy:
- An `error` that is not null, an `object` or `type` that says `error`, and the statuses `failed` and `cancelled` are
  PROVIDER_ERROR, before anything else is looked at. A route that names its provider finds the name in `provider`.
- The form of the output comes before the status: a list of known items, each message of the assistant and made of
  `output_text` and `refusal` parts (INVALID_MESSAGE at the first other item or part).
- `completed` beside `incomplete_details` contradicts itself: the details' own class counts. Details without a reason
  are MISSING_STOP_REASON, details that are no object UNRECOGNIZED_STOP_REASON.
- Messages, reasoning and function calls have a status too, read where it is there and after the response's own: a cut
  item of a completed response is TRUNCATED, one in progress CONTINUATION_REQUIRED. A content filter that says `blocked`
  is FILTERED then.
- Items of hosted tools (`web_search_call`, `mcp_call`, ...) and every output of a tool, a shell call in the provider's
  container and a tool search that it executes, a `url_citation`, counters under `usage` and anything counted under
  `tool_usage` are SERVER_TOOL_USED: what they do is done outside the offered tools.
- Calls that wait for somebody and are not of function type (`custom_tool_call`, `computer_call`, `shell_call`, ...) are
  INVALID_TOOL_CALL; with another call they are MULTIPLE_TOOL_CALLS.
- A call with a `namespace` that is not its name calls what was not offered: UNKNOWN_TOOL.
- `completed` with a call is a tool stop whatever is said beside it; without one it is a text stop, all messages' texts
  joined. A refusal part counts where there is no text: STRUCTURED_REFUSAL.
- The cap is compared with `output_tokens`, reasoning included.
"""

from collections.abc import Mapping
from typing import Any

from verifier_svc.receipts import rules
from verifier_svc.receipts.verdicts import Action, Inadmissible, Reason, TextFinish, Verdict
from verifier_svc.receipts.wire import Turn

_COMPLETED = "completed"
_INCOMPLETE = "incomplete"
_FAILED = ("failed", "cancelled")
_STATUSES = {"queued": Reason.CONTINUATION_REQUIRED, "in_progress": Reason.CONTINUATION_REQUIRED}
_ITEM_STATUSES = {"incomplete": Reason.TRUNCATED, "in_progress": Reason.CONTINUATION_REQUIRED}
_INCOMPLETE_REASONS = {"max_output_tokens": Reason.TRUNCATED, "content_filter": Reason.FILTERED}
_CALLS = frozenset(
    (
        *("function_call", "custom_tool_call", "computer_call", "local_shell_call", "shell_call", "apply_patch_call"),
        *("tool_search_call", "mcp_approval_request"),
    )
)
"""Calls that wait for somebody else than the provider, unless they say otherwise."""
_PARTS = {"output_text": "text", "refusal": "refusal"}
"""Known parts of a message, and the member that holds the text."""
_SERVER_ITEMS = frozenset(
    (
        *("web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call"),
        *("mcp_call", "mcp_list_tools", "mcp_approval_response", "tool_search_output", "function_call_output"),
        *("custom_tool_call_output", "computer_call_output", "local_shell_call_output", "shell_call_output"),
        "apply_patch_call_output",
    )
)
_OWN_ITEMS = ("message", "reasoning", "function_call")
"""What the model itself made."""


def judge_response(response: dict[str, Any], turn: Turn) -> Verdict:
    """Steps 3 to 9 on a response; raises Inadmissible at the first that fails."""
    _check_no_error(response)
    rules.check_model(response, "model", turn.route)
    rules.check_provider(response, turn.route)
    items = _items(response)
    _check_status(response)
    _check_item_statuses(items)
    _check_filters(response)
    _check_server_tools(response, items)
    found = [index for index, item in enumerate(items) if item["type"] in _CALLS]
    verdict: Verdict = _admit_call(items, found, turn) if found else _admit_text(items)
    spent = rules.member_of(response.get("usage"), "output_tokens")
    rules.check_cap(spent, turn.route.output_cap, "/usage/output_tokens")
    return verdict


def _check_no_error(response: dict[str, Any]) -> None:
    rules.check_no_error(response, "object")
    if response.get("type") == "error":
        raise Inadmissible(Reason.PROVIDER_ERROR, "/type")
    if response.get("status") in _FAILED:
        raise Inadmissible(Reason.PROVIDER_ERROR, "/status")


def _items(response: dict[str, Any]) -> list[dict[str, Any]]:
    output = response.get("output")
    if not isinstance(output, list):
        raise Inadmissible(Reason.INVALID_MESSAGE, "/output")
    for index, item in enumerate(output):
        kind = rules.member_of(item, "type")
        if kind == "message":
            _check_message(item, f"/output/{index}")
        elif not isinstance(kind, str) or not (kind == "reasoning" or kind in _CALLS or kind in _SERVER_ITEMS):
            place = f"/output/{index}/type" if isinstance(item, dict) else f"/output/{index}"
            raise Inadmissible(Reason.INVALID_MESSAGE, place)
    return output


def _check_message(item: dict[str, Any], place: str) -> None:
    if item.get("role") != "assistant":
        raise Inadmissible(Reason.INVALID_MESSAGE, f"{place}/role")
    content = item.get("content")
    if not isinstance(content, list):
        raise Inadmissible(Reason.INVALID_MESSAGE, f"{place}/content")
    for number, part in enumerate(content):
        kind = rules.member_of(part, "type")
        member = _PARTS.get(kind) if isinstance(kind, str) else None
        if member is None or not isinstance(part.get(member), str):
            raise Inadmissible(Reason.INVALID_MESSAGE, f"{place}/content/{number}")


def _check_status(response: dict[str, Any]) -> None:
    status, details = response.get("status"), response.get("incomplete_details")
    if status != _INCOMPLETE:
        _check_value(status, "/status", _STATUSES)
    if not isinstance(details, dict | None):
        raise Inadmissible(Reason.UNRECOGNIZED_STOP_REASON, "/incomplete_details")
    if status == _INCOMPLETE or details is not None:
        reason, place = rules.member_of(details, "reason"), "/incomplete_details/reason"
        if reason is None:
            raise Inadmissible(Reason.MISSING_STOP_REASON, place)
        known = _INCOMPLETE_REASONS.get(reason) if isinstance(reason, str) else None
        raise Inadmissible(known or Reason.UNRECOGNIZED_STOP_REASON, place)


def _check_value(status: Any, place: str, table: Mapping[str, Reason]) -> None:
    """The status is `completed`; `table` has the reasons of others."""
    if status is None:
        raise Inadmissible(Reason.MISSING_STOP_REASON, place)
    if status != _COMPLETED:
        known = table.get(status) if isinstance(status, str) else None
        raise Inadmissible(known or Reason.UNRECOGNIZED_STOP_REASON, place)


def _check_item_statuses(items: list[dict[str, Any]]) -> None:
    for index, item in enumerate(items):
        if item["type"] in _OWN_ITEMS and item.get("status") is not None:
            _check_value(item["status"], f"/output/{index}/status", _ITEM_STATUSES)


def _check_filters(response: dict[str, Any]) -> None:
    filters = response.get("content_filters")
    for index, found in enumerate(filters if isinstance(filters, list) else ()):
        if rules.member_of(found, "blocked") not in (None, False):
            raise Inadmissible(Reason.FILTERED, f"/content_filters/{index}/blocked")


def _check_server_tools(response: dict[str, Any], items: list[dict[str, Any]]) -> None:
    for index, item in enumerate(items):
        if _is_provider_run(item):
            raise Inadmissible(Reason.SERVER_TOOL_USED, f"/output/{index}/type")
        for number, part in enumerate(item["content"] if item["type"] == "message" else ()):
            notes = part.get("annotations")
            for position, note in enumerate(notes if isinstance(notes, list) else ()):
                if rules.member_of(note, "type") == "url_citation":
                    place = f"/output/{index}/content/{number}/annotations/{position}"
                    raise Inadmissible(Reason.SERVER_TOOL_USED, place)
    rules.check_server_counts(response.get("usage"))
    if _is_counted(response.get("tool_usage")):
        raise Inadmissible(Reason.SERVER_TOOL_USED, "/tool_usage")


def _is_provider_run(item: dict[str, Any]) -> bool:
    kind = item["type"]
    return (
        kind in _SERVER_ITEMS
        or (kind == "shell_call" and rules.member_of(item.get("environment"), "type") == "container_reference")
        or (kind == "tool_search_call" and item.get("execution") == "server")
    )


def _is_counted(counts: Any) -> bool:
    """Whether anything in a tree of counts is there and not zero."""
    if isinstance(counts, dict):
        return any(map(_is_counted, counts.values()))
    return counts is not None and counts != 0 and counts != []


def _admit_text(items: list[dict[str, Any]]) -> TextFinish:
    text, refusal = "", None
    for index, item in enumerate(items):
        if item["type"] != "message":
            continue
        for number, part in enumerate(item["content"]):
            if part["type"] == "output_text":
                text += part["text"]
            elif refusal is None and part["refusal"].strip():
                refusal = f"/output/{index}/content/{number}"
    if text.strip():
        return TextFinish(text)
    if refusal is not None:
        raise Inadmissible(Reason.STRUCTURED_REFUSAL, refusal)
    raise Inadmissible(Reason.EMPTY_TEXT, "/output")


def _admit_call(items: list[dict[str, Any]], found: list[int], turn: Turn) -> Action:
    if len(found) > 1:
        raise Inadmissible(Reason.MULTIPLE_TOOL_CALLS, "/output")
    place, item = f"/output/{found[0]}", items[found[0]]
    if item["type"] != "function_call":
        raise Inadmissible(Reason.INVALID_TOOL_CALL, f"{place}/type")
    call_id = rules.required_id(item, "call_id", place)
    rules.check_unseen(turn, call_id, f"{place}/call_id")
    tool = rules.offered_name(turn, item.get("name"), f"{place}/name")
    if item.get("namespace") not in (None, tool):
        raise Inadmissible(Reason.UNKNOWN_TOOL, f"{place}/namespace")
    arguments = rules.arguments_from_text(item.get("arguments"), f"{place}/arguments", turn.route.limits)
    return rules.fitting_action(turn, tool, call_id, arguments, f"{place}/arguments")
