"""The closed table of stop reasons in chat completions (design/admission.md, Wire formats)."""

from enum import Enum
from typing import Any

from verifier_svc.receipts.strict import child
from verifier_svc.receipts.verdicts import Inadmissible, Reason


class Stop(Enum):
    """A way of stopping that can still be admitted."""

    TEXT = "text"
    TOOL = "tool"


_NORMALISED: dict[str, Stop | Reason] = {
    "stop": Stop.TEXT,
    "tool_calls": Stop.TOOL,
    "length": Reason.TRUNCATED,
    "content_filter": Reason.FILTERED,
}

_BOTH = frozenset((Stop.TEXT, Stop.TOOL))
_NATIVE: dict[str, frozenset[Stop] | Reason] = {
    **dict.fromkeys(("stop", "end_turn"), frozenset((Stop.TEXT,))),
    **dict.fromkeys(("tool_calls", "tool_use"), frozenset((Stop.TOOL,))),
    **dict.fromkeys(("completed", "STOP"), _BOTH),
    **dict.fromkeys(
        ("length", "max_tokens", "model_context_window_exceeded", "max_output_tokens", "MAX_TOKENS"), Reason.TRUNCATED
    ),
    **dict.fromkeys(
        ("content_filter", "refusal", "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"),
        Reason.FILTERED,
    ),
    **dict.fromkeys(("pause_turn", "queued", "in_progress"), Reason.CONTINUATION_REQUIRED),
    **dict.fromkeys(("error", "failed", "cancelled"), Reason.PROVIDER_ERROR),
}
"""What the providers behind a gateway call it, each in its own format's words."""


def read_stop(choice: dict[str, Any], where: str) -> Stop:
    """The choice's stop, the gateway's word believed only beside a native one that agrees; raises
    Inadmissible."""
    reason = choice.get("finish_reason")
    place = child(where, "finish_reason")
    if reason is None:
        raise Inadmissible(Reason.MISSING_STOP_REASON, place)
    known = _NORMALISED.get(reason) if isinstance(reason, str) else None
    if known is None:
        raise Inadmissible(Reason.UNRECOGNIZED_STOP_REASON, place)
    _check_native(choice.get("native_finish_reason"), known, child(where, "native_finish_reason"))
    if isinstance(known, Reason):
        raise Inadmissible(known, place)
    return known


def _check_native(native: Any, known: Stop | Reason, place: str) -> None:
    if native is None:
        return
    meaning = _NATIVE.get(native) if isinstance(native, str) else None
    if meaning is None:
        raise Inadmissible(Reason.UNRECOGNIZED_STOP_REASON, place)
    if isinstance(meaning, Reason):
        if meaning is not known:
            raise Inadmissible(meaning, place)
    elif known not in meaning:
        raise Inadmissible(Reason.PROVIDER_ERROR, place)
