"""One generateContent response, one verdict (design/admission.md, Order of checks and Wire formats, generate_content).

Decided by analogy:
- The identity is `modelVersion`. The format has no provider's name, so none is compared.
- A blocked prompt has no candidate: `promptFeedback.blockReason` is FILTERED before the candidates are counted.
- A candidate that was stopped early often has no content, so an absent or null `content`, or one without `parts`, is a
  message without parts: its stop reason decides, and under STOP it is EMPTY_TEXT. Any part needs the role `model`.
- A part is one of `text` (a text), `functionCall`, something of the provider's own tools, or nothing but a signature;
  two of these in one part, one of them beside data, a file or a function's response, and any other part, are
  INVALID_MESSAGE at the part. A part with `thought` true is no text, and no call: INVALID_TOOL_CALL.
- Besides the table's words, the filters MODEL_ARMOR and IMAGE_* for safety, prohibited content and recitation are
  FILTERED. Everything else, OTHER, LANGUAGE, MALFORMED_FUNCTION_CALL and UNEXPECTED_TOOL_CALL among them, is
  UNRECOGNIZED_STOP_REASON: a malformed call is not there to be judged.
- `executableCode`, `codeExecutionResult`, `toolCall`, `toolResponse`, grounding or URL metadata that is not empty and
  tokens of tool use in the prompt are SERVER_TOOL_USED, after the stop reason.
- STOP with a call is a tool stop whatever is said beside it.
- An absent `id` gives the empty call id, and nothing is compared with earlier calls; one that is there must be a text
  that is not empty. Absent `args` is the empty object; a call that is to be continued (`willContinue`, `partialArgs`)
  is INVALID_TOOL_CALL.
- The cap is compared with the candidates' tokens and the thoughts' together.
"""

from typing import Any

from verifier_svc.receipts import rules
from verifier_svc.receipts.verdicts import Action, Inadmissible, Reason, TextFinish, Verdict
from verifier_svc.receipts.wire import Turn

_CANDIDATE = "/candidates/0"
_CONTENT = "/candidates/0/content"
_PARTS = "/candidates/0/content/parts"
_STOP = "STOP"
_REASONS: dict[str, Reason] = {
    "MAX_TOKENS": Reason.TRUNCATED,
    **dict.fromkeys(
        (
            *("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR"),
            *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
        ),
        Reason.FILTERED,
    ),
}
_SERVER_PARTS = ("executableCode", "codeExecutionResult", "toolCall", "toolResponse")
_DATA = ("text", "functionCall", *_SERVER_PARTS)
_NO_ANSWER = ("inlineData", "fileData", "functionResponse")
"""Data that the format has, and that no answer to these requests has."""
_SERVER_METADATA = ("groundingMetadata", "urlContextMetadata")


def judge_generated(response: dict[str, Any], turn: Turn) -> Verdict:
    """Steps 3 to 9 on generated content; raises Inadmissible at the first that fails."""
    rules.check_no_error(response, None)
    rules.check_model(response, "modelVersion", turn.route)
    if rules.member_of(response.get("promptFeedback"), "blockReason") is not None:
        raise Inadmissible(Reason.FILTERED, "/promptFeedback/blockReason")
    candidate = _single_candidate(response)
    parts = _parts(candidate)
    _check_stop(candidate)
    _check_server_tools(response, candidate, parts)
    found = [index for index, part in enumerate(parts) if "functionCall" in part]
    verdict: Verdict = _admit_call(parts, found, turn) if found else _admit_text(parts)
    rules.check_cap(_spent(response), turn.route.output_cap, "/usageMetadata")
    return verdict


def _single_candidate(response: dict[str, Any]) -> dict[str, Any]:
    candidates = response.get("candidates")
    if not isinstance(candidates, list) or len(candidates) != 1:
        raise Inadmissible(Reason.INVALID_CHOICES, "/candidates")
    if not isinstance(candidates[0], dict):
        raise Inadmissible(Reason.INVALID_CHOICES, _CANDIDATE)
    return candidates[0]


def _parts(candidate: dict[str, Any]) -> list[dict[str, Any]]:
    content = candidate.get("content")
    if content is None:
        return []
    if not isinstance(content, dict):
        raise Inadmissible(Reason.INVALID_MESSAGE, _CONTENT)
    parts = content.get("parts")
    parts = [] if parts is None else parts
    if not isinstance(parts, list):
        raise Inadmissible(Reason.INVALID_MESSAGE, _PARTS)
    role = content.get("role")
    if role != "model" and (parts or role is not None):
        raise Inadmissible(Reason.INVALID_MESSAGE, f"{_CONTENT}/role")
    for index, part in enumerate(parts):
        if not _is_known(part):
            raise Inadmissible(Reason.INVALID_MESSAGE, f"{_PARTS}/{index}")
    return parts


def _is_known(part: Any) -> bool:
    if not isinstance(part, dict) or not isinstance(part.get("thought", False), bool):
        return False
    data = [name for name in part if name in _DATA or name in _NO_ANSWER]
    if not data:
        return isinstance(part.get("thoughtSignature"), str) and part.keys() <= {"thoughtSignature", "thought"}
    return len(data) == 1 and data[0] in _DATA and (data[0] != "text" or isinstance(part["text"], str))


def _check_stop(candidate: dict[str, Any]) -> None:
    reason, place = candidate.get("finishReason"), f"{_CANDIDATE}/finishReason"
    if reason is None:
        raise Inadmissible(Reason.MISSING_STOP_REASON, place)
    if reason != _STOP:
        known = _REASONS.get(reason) if isinstance(reason, str) else None
        raise Inadmissible(known or Reason.UNRECOGNIZED_STOP_REASON, place)


def _check_server_tools(response: dict[str, Any], candidate: dict[str, Any], parts: list[dict[str, Any]]) -> None:
    for index, part in enumerate(parts):
        if any(name in part for name in _SERVER_PARTS):
            raise Inadmissible(Reason.SERVER_TOOL_USED, f"{_PARTS}/{index}")
    for name in _SERVER_METADATA:
        if candidate.get(name) not in (None, {}):
            raise Inadmissible(Reason.SERVER_TOOL_USED, f"{_CANDIDATE}/{name}")
    used = rules.member_of(response.get("usageMetadata"), "toolUsePromptTokenCount")
    if used is not None and used != 0:
        raise Inadmissible(Reason.SERVER_TOOL_USED, "/usageMetadata/toolUsePromptTokenCount")


def _admit_text(parts: list[dict[str, Any]]) -> TextFinish:
    text = "".join(part["text"] for part in parts if "text" in part and not part.get("thought"))
    if not text.strip():
        raise Inadmissible(Reason.EMPTY_TEXT, _CONTENT)
    return TextFinish(text)


def _admit_call(parts: list[dict[str, Any]], found: list[int], turn: Turn) -> Action:
    if len(found) > 1:
        raise Inadmissible(Reason.MULTIPLE_TOOL_CALLS, _PARTS)
    place, part = f"{_PARTS}/{found[0]}/functionCall", parts[found[0]]
    call = part["functionCall"]
    if not isinstance(call, dict) or part.get("thought") or call.get("willContinue") or "partialArgs" in call:
        raise Inadmissible(Reason.INVALID_TOOL_CALL, place)
    call_id = ""
    if "id" in call:
        call_id = rules.required_id(call, "id", place)
        rules.check_unseen(turn, call_id, f"{place}/id")
    tool = rules.offered_name(turn, call.get("name"), f"{place}/name")
    return rules.fitting_action(turn, tool, call_id, call.get("args", {}), f"{place}/args")


def _spent(response: dict[str, Any]) -> int | float | None:
    """The output's tokens as far as they are numbers; None where none is."""
    usage = response.get("usageMetadata")
    counts = [rules.member_of(usage, name) for name in ("candidatesTokenCount", "thoughtsTokenCount")]
    numbers = [count for count in counts if rules.is_number(count)]
    return sum(numbers) if numbers else None
