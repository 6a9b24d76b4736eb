"""The rules of unary responses, in the design's order: the first failure wins (design/admission.md, Order of checks).

Check 1 (HTTP status), and the reading of check 2, are `admit`'s. Decided here by analogy, each pinned by a test:

- `error` that is anything but null, `object` or `type` that is `error`, and the statuses `failed` and `cancelled` are
  in-band errors. Nothing else depends on `object`.
- The one message of check 5 is `output`, a list: not one, or with an item of an unknown kind, it is `INVALID_MESSAGE`.
- A provider-run tool is found after the stop reason (check 6) and before the items are judged: an item of one or a
  citation of a web search first, then the counters under `usage`, then any counter of `tool_usage` that is not zero.
  Azure's `blocked` content filter is `FILTERED` there too.
- The texts of all message items are joined. With a refusal part beside text the text counts; without text it is a
  structured refusal.
- Calls of every kind that waits for us count: two are `MULTIPLE_TOOL_CALLS`; one that is no function call is
  `INVALID_TOOL_CALL`.
- A call's `namespace` is absent, or repeats the name (as for a function on its own); in another one nothing was
  offered: `UNKNOWN_TOOL`.
- A route that names a provider expects it in `provider`, as in chat_completions; where the format's speaker gives none
  the name cannot be checked, and is missing.
"""

from adapter_svc.admission.request import AdmissionRequest
from adapter_svc.admission.responses_items import Item, ItemKind, read_items, texts_of
from adapter_svc.admission.responses_stops import FAILED_STATUSES, require_completed, require_item_completed
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
from adapter_svc.admission.strict_json import JsonValue
from adapter_svc.admission.verdict import Action, Inadmissible, Reason, TextFinish

_MODELS_OWN = frozenset({ItemKind.MESSAGE, ItemKind.REASONING, ItemKind.FUNCTION_CALL})
_CALLS = frozenset({ItemKind.FUNCTION_CALL, ItemKind.OTHER_CALL})
_SERVER_TOOL_ANNOTATION = "url_citation"
"""An annotation that only a provider's own web search makes."""


def judge(body: JsonValue, request: AdmissionRequest) -> Action | TextFinish:
    """Judge a body that was read as strict JSON.

    Raises Inadmissible with the first check that fails.
    """
    body = require_object(body)
    _require_no_error(body)
    require_model(body.get("model"), request.expected, "/model")
    require_provider(body, request.expected)
    items = read_items(body.get("output"))
    require_completed(body)
    for item in items:
        if item.kind in _MODELS_OWN:
            require_item_completed(item.members.get("status"), f"{item.where}/status")
    _require_not_blocked(body)
    _require_no_server_tool(body, items)
    calls = [item for item in items if item.kind in _CALLS]
    verdict = _judge_call(calls, _joined_text(items), request) if calls else _judge_text(items)
    usage = body.get("usage")
    spent = usage.get("output_tokens") if isinstance(usage, dict) else None
    require_below_cap(spent, request.output_cap, "/usage/output_tokens")
    return verdict


def _require_no_error(body: JsonObject) -> None:
    if body.get("error") is not None:
        raise Inadmissible(Reason.PROVIDER_ERROR, "/error")
    for name in ("object", "type"):
        if body.get(name) == "error":
            raise Inadmissible(Reason.PROVIDER_ERROR, f"/{name}")
    status = body.get("status")
    if isinstance(status, str) and status in FAILED_STATUSES:
        raise Inadmissible(Reason.PROVIDER_ERROR, "/status")


def _require_not_blocked(body: JsonObject) -> None:
    filters = body.get("content_filters")
    for position, one in enumerate(filters if isinstance(filters, list) else []):
        if isinstance(one, dict) and one.get("blocked") not in (None, False):
            raise Inadmissible(Reason.FILTERED, f"/content_filters/{position}/blocked")


def _require_no_server_tool(body: JsonObject, items: list[Item]) -> None:
    for item in items:
        if item.kind is ItemKind.SERVER_TOOL:
            raise Inadmissible(Reason.SERVER_TOOL_USED, f"{item.where}/type")
        if item.kind is ItemKind.MESSAGE:
            _require_no_search_cited(item)
    require_nothing_counted(body.get("usage"))
    if _counts_anything(body.get("tool_usage")):
        raise Inadmissible(Reason.SERVER_TOOL_USED, "/tool_usage")


def _require_no_search_cited(message: Item) -> None:
    content = message.members["content"]
    for position, part in enumerate(content if isinstance(content, list) else []):
        notes = part.get("annotations") if isinstance(part, dict) else None
        for number, note in enumerate(notes if isinstance(notes, list) else []):
            if isinstance(note, dict) and note.get("type") == _SERVER_TOOL_ANNOTATION:
                where = f"{message.where}/content/{position}/annotations/{number}"
                raise Inadmissible(Reason.SERVER_TOOL_USED, where)


def _counts_anything(counters: JsonValue) -> bool:
    """Whether a counter, at whatever depth, is neither zero nor null."""
    if isinstance(counters, dict):
        return any(_counts_anything(value) for value in counters.values())
    return counters not in (None, 0, [])


def _joined_text(items: list[Item]) -> str:
    messages = [item for item in items if item.kind is ItemKind.MESSAGE]
    return "".join(text for message in messages for _, text in texts_of(message, "output_text"))


def _judge_text(items: list[Item]) -> TextFinish:
    text = _joined_text(items)
    if text.strip():
        return TextFinish(text)
    for message in (item for item in items if item.kind is ItemKind.MESSAGE):
        for where, refusal in texts_of(message, "refusal"):
            if refusal.strip():
                raise Inadmissible(Reason.STRUCTURED_REFUSAL, where)
    raise Inadmissible(Reason.EMPTY_TEXT, "/output")


def _judge_call(calls: list[Item], text: str, request: AdmissionRequest) -> Action:
    if len(calls) > 1:
        raise Inadmissible(Reason.MULTIPLE_TOOL_CALLS, "/output")
    call = calls[0]
    if call.kind is not ItemKind.FUNCTION_CALL:
        raise Inadmissible(Reason.INVALID_TOOL_CALL, f"{call.where}/type")
    call_id = require_call_id(call.members.get("call_id"), f"{call.where}/call_id")
    require_unseen(call_id, request, f"{call.where}/call_id")
    name = call.members.get("name")
    tool = offered_tool(name, request, f"{call.where}/name")
    if call.members.get("namespace") not in (None, name):
        raise Inadmissible(Reason.UNKNOWN_TOOL, f"{call.where}/namespace")
    where = f"{call.where}/arguments"
    arguments = read_arguments_text(call.members.get("arguments"), request, where)
    return action_of(tool, arguments, call_id, text, where)
