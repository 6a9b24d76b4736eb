"""The closed tables of a response's ending, as data (design/admission.md, Wire formats).

Decided here by analogy, each pinned by a test:

- The status is read first, then `incomplete_details`. Details beside `completed` contradict it: their reason's own
  class is believed, and without a reason it is missing.
- An item's own status says the same of the item: `incomplete` was cut off, `in_progress` is not over. An item need not
  have one.
"""

from collections.abc import Mapping

from adapter_svc.admission.rules import JsonObject
from adapter_svc.admission.strict_json import JsonValue
from adapter_svc.admission.verdict import Inadmissible, Reason

FAILED_STATUSES = frozenset({"failed", "cancelled"})
"""`status` of a response that is an in-band error, whatever `error` says."""

STATUSES: Mapping[str, Reason | None] = {
    "completed": None,
    "queued": Reason.CONTINUATION_REQUIRED,
    "in_progress": Reason.CONTINUATION_REQUIRED,
}
"""`status` of a response but for `incomplete`, whose details say why; None is admissible."""

INCOMPLETE_REASONS: Mapping[str, Reason] = {
    "max_output_tokens": Reason.TRUNCATED,
    "content_filter": Reason.FILTERED,
}
"""`incomplete_details.reason`."""

ITEM_STATUSES: Mapping[str, Reason | None] = {
    "completed": None,
    "incomplete": Reason.TRUNCATED,
    "in_progress": Reason.CONTINUATION_REQUIRED,
}
"""`status` of one output item that the model itself made."""

_STATUS = "/status"
_DETAILS = "/incomplete_details"
_REASON = "/incomplete_details/reason"


def require_completed(body: JsonObject) -> None:
    """Check 6: the response is complete; raises Inadmissible with the class of another ending."""
    status = body.get("status")
    if status is None:
        raise Inadmissible(Reason.MISSING_STOP_REASON, _STATUS)
    if status != "incomplete":
        _raise_class(STATUSES, status, _STATUS)
    details = body.get("incomplete_details")
    if status != "incomplete" and details is None:
        return
    if not isinstance(details, dict | None):
        raise Inadmissible(Reason.UNRECOGNIZED_STOP_REASON, _DETAILS)
    reason = details.get("reason") if details else None
    if reason is None:
        raise Inadmissible(Reason.MISSING_STOP_REASON, _REASON)
    _raise_class(INCOMPLETE_REASONS, reason, _REASON)


def require_item_completed(status: JsonValue, where: str) -> None:
    """Check 6 for one item; raises Inadmissible with the class of another ending."""
    if status is not None:
        _raise_class(ITEM_STATUSES, status, where)


def _raise_class(table: Mapping[str, Reason | None] | Mapping[str, Reason], value: JsonValue, where: str) -> None:
    """Raise what the table has for the value; an admissible value returns."""
    if not isinstance(value, str) or value not in table:
        raise Inadmissible(Reason.UNRECOGNIZED_STOP_REASON, where)
    reason = table[value]
    if reason is not None:
        raise Inadmissible(reason, where)
