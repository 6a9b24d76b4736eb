"""One response of the responses format, one verdict (design/admission.md, Order of checks and Wire formats, responses).

Decided by analogy:
- An `error` that is not null and an object of the kind `error` are PROVIDER_ERROR, and so are the status values
  `failed` and `cancelled`. The format has no provider's name, so none is compared.
- The form of the output comes before the status: a list of known items, each message of the assistant and made of
  `output_text` and `refusal` parts (INVALID_MESSAGE at the first other item or part).
- `completed` beside `incomplete_details` contradicts itself: the details' own class counts. An `incomplete` without a
  reason is MISSING_STOP_REASON.
- A message or a call has a status too, read by the same table where it is there and after the response's own: a cut
  item of a completed response is TRUNCATED, one in progress CONTINUATION_REQUIRED.
- Items of hosted tools (`web_search_call`, `mcp_call`, `tool_search_call`, `shell_call`, `computer_call`, ... and their
  outputs), a `url_citation`, counters under `usage` and searches under `tool_usage` are SERVER_TOOL_USED: what they do
  is done outside the offered tools.
- A `custom_tool_call` is a call that is not of function type: INVALID_TOOL_CALL.
- `completed` with a call is a tool stop whatever is said beside it; without one it is a text stop, all messages' texts
  joined. A refusal part counts where there is no text: STRUCTURED_REFUSAL.
- The cap is compared with `output_tokens`, reasoning included.
"""

from typing import Any

from verifier_svc.receipts import rules
from verifier_svc.receipts.verdicts import Action, Inadmissible, Reason, TextFinish, Verdict
from verifier_svc.receipts.wire import Turn

_COMPLETED = "completed"
_INCOMPLETE = "incomplete"
_STATUSES = {
    "queued": Reason.CONTINUATION_REQUIRED,
    "in_progress": Reason.CONTINUATION_REQUIRED,
    "failed": Reason.PROVIDER_ERROR,
    "cancelled": Reason.PROVIDER_ERROR,
}
_INCOMPLETE_REASONS = {"max_output_tokens": Reason.TRUNCATED, "content_filter": Reason.FILTERED}
_CALLS = ("function_call", "custom_tool_call")
_PARTS = {"output_text": "text", "refusal": "refusal"}
"""Known parts of a message, and the member that holds the text."""
_SERVER_ITEMS = frozenset(
    (
        *("web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call"),
        *("mcp_call", "mcp_list_tools", "mcp_approval_request", "tool_search_call", "tool_search_output"),
        *("computer_call", "computer_call_output", "local_shell_call", "local_shell_call_output"),
        *("shell_call", "shell_call_output", "apply_patch_call", "apply_patch_call_output"),
    )
)


def judge_response(response: dict[str, Any], turn: Turn) -> Verdict:
    """Steps 3 to 9 on a response; raises Inadmissible at the first that fails."""
    rules.check_no_error(response, "object")
    rules.check_model(response, "model", turn.route)
    items = _items(response)
    _check_status(response)
    _check_server_tools(response, items)
    found = [index for index, item in enumerate(items) if item["type"] in _CALLS]
    verdict: Verdict = _admit_call(items, found, turn) if found else _admit_text(items)
    spent = rules.member_of(response.get("usage"), "output_tokens")
    rules.check_cap(spent, turn.route.output_cap, "/usage/output_tokens")
    return verdict


def _items(response: dict[str, Any]) -> list[dict[str, Any]]:
    output = response.get("output")
    if not isinstance(output, list):
        raise Inadmissible(Reason.INVALID_MESSAGE, "/output")
    for index, item in enumerate(output):
        kind = rules.member_of(item, "type")
        if kind == "message":
            _check_message(item, f"/output/{index}")
        elif not isinstance(kind, str) or not (kind == "reasoning" or kind in _CALLS or kind in _SERVER_ITEMS):
            raise Inadmissible(Reason.INVALID_MESSAGE, f"/output/{index}")
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
        _check_value(status, "/status")
    if status == _INCOMPLETE or details is not None:
        reason, place = rules.member_of(details, "reason"), "/incomplete_details/reason"
        if reason is None:
            raise Inadmissible(Reason.MISSING_STOP_REASON, place)
        known = _INCOMPLETE_REASONS.get(reason) if isinstance(reason, str) else None
        raise Inadmissible(known or Reason.UNRECOGNIZED_STOP_REASON, place)


def _check_value(status: Any, place: str) -> None:
    """The table of status values but for `incomplete`."""
    if status is None:
        raise Inadmissible(Reason.MISSING_STOP_REASON, place)
    if status != _COMPLETED:
        known = _STATUSES.get(status) if isinstance(status, str) else None
        raise Inadmissible(known or Reason.UNRECOGNIZED_STOP_REASON, place)


def _check_item_status(item: dict[str, Any], place: str) -> None:
    status = item.get("status")
    if status == _INCOMPLETE:
        raise Inadmissible(Reason.TRUNCATED, f"{place}/status")
    if status is not None:
        _check_value(status, f"{place}/status")


def _check_server_tools(response: dict[str, Any], items: list[dict[str, Any]]) -> None:
    for index, item in enumerate(items):
        if item["type"] in _SERVER_ITEMS:
            raise Inadmissible(Reason.SERVER_TOOL_USED, f"/output/{index}")
        for number, part in enumerate(item["content"] if item["type"] == "message" else ()):
            notes = part.get("annotations")
            for note in notes if isinstance(notes, list) else ():
                if rules.member_of(note, "type") == "url_citation":
                    raise Inadmissible(Reason.SERVER_TOOL_USED, f"/output/{index}/content/{number}/annotations")
    rules.check_server_counts(response.get("usage"))
    searches = rules.member_of(rules.member_of(response.get("tool_usage"), "web_search"), "num_requests")
    if searches is not None and searches != 0:
        raise Inadmissible(Reason.SERVER_TOOL_USED, "/tool_usage/web_search/num_requests")


def _admit_text(items: list[dict[str, Any]]) -> TextFinish:
    text, refusal = "", None
    for index, item in enumerate(items):
        if item["type"] != "message":
            continue
        _check_item_status(item, f"/output/{index}")
        for number, part in enumerate(item["content"]):
            if part["type"] == "output_text":
                text += part["text"]
            elif refusal is None and part["refusal"].strip():
                refusal = f"/output/{index}/content/{number}/refusal"
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
    _check_item_status(item, place)
    call_id = rules.required_id(item, "call_id", place)
    rules.check_unseen(turn, call_id, f"{place}/call_id")
    tool = rules.offered_name(turn, item.get("name"), f"{place}/name")
    arguments = rules.arguments_from_text(item.get("arguments"), f"{place}/arguments", turn.route.limits)
    return rules.fitting_action(turn, tool, call_id, arguments, f"{place}/arguments")
