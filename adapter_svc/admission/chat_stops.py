"""The closed stop-reason tables of chat_completions, as data (design/admission.md, Wire formats)."""

from adapter_svc.admission.stop_table import StopClass, look_up
from adapter_svc.admission.verdict import Inadmissible, Reason

FINISH_REASONS: dict[str, StopClass | Reason] = {
    "stop": StopClass.TEXT,
    "tool_calls": StopClass.TOOL,
    "length": Reason.TRUNCATED,
    "content_filter": Reason.FILTERED,
}
"""`finish_reason`. Every other value is unrecognized: the legacy `function_call` and a gateway's `error`
included.
"""

_TEXT = frozenset({StopClass.TEXT})
_TOOL = frozenset({StopClass.TOOL})
_EITHER = _TEXT | _TOOL

NATIVE_REASONS: dict[str, frozenset[StopClass] | Reason] = {
    # chat_completions
    "stop": _TEXT,
    "tool_calls": _TOOL,
    "length": Reason.TRUNCATED,
    "content_filter": Reason.FILTERED,
    # messages
    "end_turn": _TEXT,
    "tool_use": _TOOL,
    "max_tokens": Reason.TRUNCATED,
    "model_context_window_exceeded": Reason.TRUNCATED,
    "refusal": Reason.FILTERED,
    "pause_turn": Reason.CONTINUATION_REQUIRED,
    # responses
    "completed": _EITHER,
    "max_output_tokens": Reason.TRUNCATED,
    "queued": Reason.CONTINUATION_REQUIRED,
    "in_progress": Reason.CONTINUATION_REQUIRED,
    # generate_content
    "STOP": _EITHER,
    "MAX_TOKENS": Reason.TRUNCATED,
    "SAFETY": Reason.FILTERED,
    "RECITATION": Reason.FILTERED,
    "BLOCKLIST": Reason.FILTERED,
    "PROHIBITED_CONTENT": Reason.FILTERED,
    "SPII": Reason.FILTERED,
    # a gateway's own word, or responses' status, for a provider that failed
    "error": Reason.PROVIDER_ERROR,
    "failed": Reason.PROVIDER_ERROR,
    "cancelled": Reason.PROVIDER_ERROR,
}
"""`native_finish_reason`: what the gateway's provider said, in that provider's own format."""

_FINISH = "/choices/0/finish_reason"
_NATIVE = "/choices/0/native_finish_reason"


def classify(finish: object, native: object) -> StopClass:
    """What kind of stop the two reasons agree on; `native` None means that the choice carries none.

    Raises Inadmissible with the class of a reason that is not admissible, and `PROVIDER_ERROR` where the
    native reason contradicts the gateway's without a class of its own.
    """
    normalised = look_up(FINISH_REASONS, finish, _FINISH)
    if native is None:
        if isinstance(normalised, Reason):
            raise Inadmissible(normalised, _FINISH)
        return normalised
    believed = look_up(NATIVE_REASONS, native, _NATIVE)
    if isinstance(believed, Reason):
        raise Inadmissible(believed, _FINISH if believed is normalised else _NATIVE)
    if isinstance(normalised, Reason) or normalised not in believed:
        raise Inadmissible(Reason.PROVIDER_ERROR, _NATIVE)
    return normalised
