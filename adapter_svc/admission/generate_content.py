"""The rules of the generate_content format, in the design's order: the first failure wins (design/admission.md, Order
of checks).

Check 1 (HTTP status), and the reading of check 2, are `admit`'s; streams are assembled first
(`generate_content_stream`). Decided here by analogy, each pinned by a test:

- A prompt that was blocked (`promptFeedback.blockReason` of any value) is `FILTERED` in place of check 5: such an
  answer has no candidate, and one that has is not believed.
- A candidate may come without content, or with one that has no parts: a filter's answer does. Content with parts must
  say role `model`.
- A part holds exactly one of the kinds that are known, else `INVALID_MESSAGE`; what stands beside it is opaque, and a
  signature may stand alone. A part with `thought: true` is not text, and no call (`INVALID_TOOL_CALL`). Pictures,
  files and function responses are not known kinds.
- Code that the provider runs, its tools' calls and results, grounding, fetched addresses and tokens of tool results
  are provider-run tools, found after the stop reason (check 6).
- `STOP` with a call is a tool stop, without one a text stop.
- A call's `id` and `args` may be absent; where they are there, even null, they must be a nonempty text
  (`INVALID_TOOL_CALL`) and an object (`MALFORMED_ARGUMENTS`). A call that is only begun (`partialArgs`, `willContinue`)
  is `INVALID_TOOL_CALL`.
- The output that is compared with the cap is the candidate's tokens and its thoughts'.
"""

from collections.abc import Mapping
from types import MappingProxyType

from adapter_svc.admission.request import AdmissionRequest
from adapter_svc.admission.rules import (
    JsonObject,
    action_of,
    offered_tool,
    require_arguments_object,
    require_below_cap,
    require_call_id,
    require_model,
    require_object,
    require_unseen,
)
from adapter_svc.admission.stop_table import StopClass, classify
from adapter_svc.admission.strict_json import JsonValue
from adapter_svc.admission.verdict import Action, Inadmissible, Reason, TextFinish

FINISH_REASONS: Mapping[str, StopClass | Reason] = MappingProxyType(
    {
        "STOP": StopClass.TEXT,
        "MAX_TOKENS": Reason.TRUNCATED,
        "SAFETY": Reason.FILTERED,
        "RECITATION": Reason.FILTERED,
        "BLOCKLIST": Reason.FILTERED,
        "PROHIBITED_CONTENT": Reason.FILTERED,
        "SPII": Reason.FILTERED,
        "MODEL_ARMOR": Reason.FILTERED,
        "IMAGE_SAFETY": Reason.FILTERED,
        "IMAGE_PROHIBITED_CONTENT": Reason.FILTERED,
        "IMAGE_RECITATION": Reason.FILTERED,
    }
)
"""`finishReason`. Every other value is unrecognized: `OTHER`, `LANGUAGE`, `FINISH_REASON_UNSPECIFIED` and those by
which the provider could not use what the model wrote (`MALFORMED_FUNCTION_CALL`, `UNEXPECTED_TOOL_CALL`, ...) included.
"""

_TEXT = "text"
_SIGNATURE = "thoughtSignature"
_CALL = "functionCall"
_SERVER_TOOL_KINDS = frozenset({"executableCode", "codeExecutionResult", "toolCall", "toolResponse"})
_KINDS = _SERVER_TOOL_KINDS | {_TEXT, _CALL, _SIGNATURE}
_OTHER_KINDS = frozenset({"inlineData", "fileData", "functionResponse"})
"""Kinds that the format has and no answer to this request has."""
_SERVER_TOOL_REPORTS = ("groundingMetadata", "urlContextMetadata")

_CANDIDATE = "/candidates/0"
_CONTENT = "/candidates/0/content"
_PARTS = "/candidates/0/content/parts"
_USAGE = "/usageMetadata"


def judge(body: JsonValue, request: AdmissionRequest) -> Action | TextFinish:
    """Judge a body that was read as strict JSON.

    Raises Inadmissible with the first check that fails.
    """
    body = require_object(body)
    if body.get("error") is not None:
        raise Inadmissible(Reason.PROVIDER_ERROR, "/error")
    require_model(body.get("modelVersion"), request.expected, "/modelVersion")
    _require_not_blocked(body)
    candidate = _only_candidate(body)
    parts = _parts_of(candidate)
    kinds = [_kind_of(part) for part in parts]
    text = "".join(str(part[_TEXT]) for part in parts if _TEXT in part and not part.get("thought"))
    classify(FINISH_REASONS, candidate.get("finishReason"), f"{_CANDIDATE}/finishReason")
    _require_no_server_tool(body, candidate, kinds)
    calls = [position for position, kind in enumerate(kinds) if kind == _CALL]
    verdict = _judge_call(parts, calls, text, request) if calls else _judge_text(text)
    require_below_cap(_spent(body), request.output_cap, _USAGE)
    return verdict


def _require_not_blocked(body: JsonObject) -> None:
    feedback = body.get("promptFeedback")
    if isinstance(feedback, dict) and feedback.get("blockReason") is not None:
        raise Inadmissible(Reason.FILTERED, "/promptFeedback/blockReason")


def _only_candidate(body: JsonObject) -> JsonObject:
    candidates = body.get("candidates")
    if not isinstance(candidates, list) or len(candidates) != 1:
        raise Inadmissible(Reason.INVALID_CHOICES, "/candidates")
    candidate = candidates[0]
    if not isinstance(candidate, dict):
        raise Inadmissible(Reason.INVALID_CHOICES, _CANDIDATE)
    return candidate


def _parts_of(candidate: JsonObject) -> list[JsonObject]:
    content = candidate.get("content")
    if not isinstance(content, dict | None):
        raise Inadmissible(Reason.INVALID_MESSAGE, _CONTENT)
    parts = content.get("parts") if content else None
    if not isinstance(parts, list | None):
        raise Inadmissible(Reason.INVALID_MESSAGE, _PARTS)
    role = content.get("role") if content else None
    if role != "model" and (parts or role is not None):
        raise Inadmissible(Reason.INVALID_MESSAGE, f"{_CONTENT}/role")
    return [_part(value, position) for position, value in enumerate(parts or [])]


def _part(value: JsonValue, position: int) -> JsonObject:
    """The part, which holds one known kind of content; its flag, text and lone signature are of their types."""
    if (
        not isinstance(value, dict)
        or _kind_of(value) not in _KINDS
        or not isinstance(value.get("thought", False), bool)
        or not isinstance(value.get(_TEXT, ""), str)
    ):
        raise Inadmissible(Reason.INVALID_MESSAGE, f"{_PARTS}/{position}")
    return value


def _kind_of(part: JsonObject) -> str:
    """The one kind of content that the part holds; the signature where there is nothing else, empty for another."""
    found = [name for name in part if name in _KINDS or name in _OTHER_KINDS]
    if found == [_SIGNATURE]:
        return _SIGNATURE if isinstance(part[_SIGNATURE], str) and part.keys() <= {_SIGNATURE, "thought"} else ""
    contents = [name for name in found if name != _SIGNATURE]
    return contents[0] if len(contents) == 1 else ""


def _require_no_server_tool(body: JsonObject, candidate: JsonObject, kinds: list[str]) -> None:
    for position, kind in enumerate(kinds):
        if kind in _SERVER_TOOL_KINDS:
            raise Inadmissible(Reason.SERVER_TOOL_USED, f"{_PARTS}/{position}")
    for name in _SERVER_TOOL_REPORTS:
        report = candidate.get(name)
        # The provider sends the object empty where it did nothing.
        if report not in (None, {}):
            raise Inadmissible(Reason.SERVER_TOOL_USED, f"{_CANDIDATE}/{name}")
    usage = body.get("usageMetadata")
    if isinstance(usage, dict) and usage.get("toolUsePromptTokenCount") not in (None, 0):
        raise Inadmissible(Reason.SERVER_TOOL_USED, f"{_USAGE}/toolUsePromptTokenCount")


def _spent(body: JsonObject) -> JsonValue:
    """The tokens of the answer and its thoughts; what is no number adds nothing."""
    usage = body.get("usageMetadata")
    counts = (
        [usage.get(name) for name in ("candidatesTokenCount", "thoughtsTokenCount")] if isinstance(usage, dict) else []
    )
    return sum(count for count in counts if isinstance(count, int | float) and not isinstance(count, bool))


def _judge_text(text: str) -> TextFinish:
    if not text.strip():
        raise Inadmissible(Reason.EMPTY_TEXT, _CONTENT)
    return TextFinish(text)


def _judge_call(parts: list[JsonObject], calls: list[int], text: str, request: AdmissionRequest) -> Action:
    if len(calls) > 1:
        raise Inadmissible(Reason.MULTIPLE_TOOL_CALLS, _PARTS)
    part, where = parts[calls[0]], f"{_PARTS}/{calls[0]}/functionCall"
    call = part[_CALL]
    if not isinstance(call, dict) or part.get("thought") or call.get("willContinue") or "partialArgs" in call:
        raise Inadmissible(Reason.INVALID_TOOL_CALL, where)
    call_id = ""
    if "id" in call:
        call_id = require_call_id(call["id"], f"{where}/id")
        require_unseen(call_id, request, f"{where}/id")
    tool = offered_tool(call.get("name"), request, f"{where}/name")
    arguments = require_arguments_object(call.get("args", {}), f"{where}/args")
    return action_of(tool, arguments, call_id, text, f"{where}/args")
