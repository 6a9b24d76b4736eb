"""One message, one verdict (design/admission.md, Order of checks and Wire formats, messages).

Decided by analogy:
- A body of the type `error` is PROVIDER_ERROR. The format has no provider's name, so none is compared.
- The form of the message comes before its stop reason, as in chat completions: the type `message`, the role, a list of
  content, and in it only known blocks (INVALID_MESSAGE at the first other one, a `text` without text included).
- Stop reasons outside the table, `stop_sequence` and `compaction` among them, are UNRECOGNIZED_STOP_REASON.
- After the stop reason: blocks of tools that the provider ran (`server_tool_use`, `mcp_tool_use` and what they return),
  a call whose `caller` is of another type than `direct` (a program that the provider ran), citations of its web search,
  a `container` and its counters under `usage` are SERVER_TOOL_USED, in this order.
- A `tool_use` under a text stop is AMBIGUOUS_TERMINATION at the block. The allowance for calls that arrive with `stop`
  says nothing here: the format has no such reason.
- `input` is an object in the body itself: absent or anything else is MALFORMED_ARGUMENTS. So is the text of a stream's
  input that is no strict JSON.
- The cap is compared with `output_tokens`, thinking included.
"""

from typing import Any

from verifier_svc.receipts import rules
from verifier_svc.receipts.stops import Stop
from verifier_svc.receipts.verdicts import Action, Inadmissible, Reason, TextFinish, Verdict
from verifier_svc.receipts.wire import Turn

_STOPS: dict[str, Stop | Reason] = {
    "end_turn": Stop.TEXT,
    "tool_use": Stop.TOOL,
    "max_tokens": Reason.TRUNCATED,
    "model_context_window_exceeded": Reason.TRUNCATED,
    "refusal": Reason.FILTERED,
    "pause_turn": Reason.CONTINUATION_REQUIRED,
}
_OPAQUE = frozenset(("thinking", "redacted_thinking"))
_SERVER_BLOCKS = frozenset(
    (
        *("server_tool_use", "mcp_tool_use", "mcp_tool_result", "web_search_tool_result", "web_fetch_tool_result"),
        *("code_execution_tool_result", "bash_code_execution_tool_result", "text_editor_code_execution_tool_result"),
        *("tool_search_tool_result", "advisor_tool_result", "container_upload"),
    )
)
"""Blocks that only a tool of the provider's own leaves behind."""
_SEARCHED = "web_search_result_location"


def judge_message(response: dict[str, Any], turn: Turn) -> Verdict:
    """Steps 3 to 9 on a message; raises Inadmissible at the first that fails."""
    rules.check_no_error(response, "type")
    rules.check_model(response, "model", turn.route)
    blocks = _blocks(response)
    stop = _read_stop(response)
    _check_server_tools(response, blocks)
    found = [index for index, block in enumerate(blocks) if block["type"] == "tool_use"]
    if stop is Stop.TOOL:
        verdict: Verdict = _admit_call(blocks, found, turn)
    else:
        verdict = _admit_text(blocks, found)
    spent = rules.member_of(response.get("usage"), "output_tokens")
    rules.check_cap(spent, turn.route.output_cap, "/usage/output_tokens")
    return verdict


def _blocks(response: dict[str, Any]) -> list[dict[str, Any]]:
    if response.get("type") != "message":
        raise Inadmissible(Reason.INVALID_MESSAGE, "/type")
    if response.get("role") != "assistant":
        raise Inadmissible(Reason.INVALID_MESSAGE, "/role")
    content = response.get("content")
    if not isinstance(content, list):
        raise Inadmissible(Reason.INVALID_MESSAGE, "/content")
    for index, block in enumerate(content):
        if not _is_known(block):
            raise Inadmissible(Reason.INVALID_MESSAGE, f"/content/{index}")
    return content


def _is_known(block: Any) -> bool:
    kind = rules.member_of(block, "type")
    if kind == "text":
        return isinstance(block.get("text"), str)
    return isinstance(kind, str) and (kind == "tool_use" or kind in _OPAQUE or kind in _SERVER_BLOCKS)


def _read_stop(response: dict[str, Any]) -> Stop:
    reason = response.get("stop_reason")
    if reason is None:
        raise Inadmissible(Reason.MISSING_STOP_REASON, "/stop_reason")
    known = _STOPS.get(reason) if isinstance(reason, str) else None
    if isinstance(known, Stop):
        return known
    raise Inadmissible(known or Reason.UNRECOGNIZED_STOP_REASON, "/stop_reason")


def _check_server_tools(response: dict[str, Any], blocks: list[dict[str, Any]]) -> None:
    for index, block in enumerate(blocks):
        if block["type"] in _SERVER_BLOCKS:
            raise Inadmissible(Reason.SERVER_TOOL_USED, f"/content/{index}")
        caller = block.get("caller") if block["type"] == "tool_use" else None
        if isinstance(caller, dict) and caller.get("type") != "direct":
            raise Inadmissible(Reason.SERVER_TOOL_USED, f"/content/{index}/caller")
        citations = block.get("citations")
        for number, citation in enumerate(citations if isinstance(citations, list) else ()):
            if rules.member_of(citation, "type") == _SEARCHED:
                raise Inadmissible(Reason.SERVER_TOOL_USED, f"/content/{index}/citations/{number}")
    if response.get("container") is not None:
        raise Inadmissible(Reason.SERVER_TOOL_USED, "/container")
    rules.check_server_counts(response.get("usage"))


def _admit_text(blocks: list[dict[str, Any]], found: list[int]) -> TextFinish:
    if found:
        raise Inadmissible(Reason.AMBIGUOUS_TERMINATION, f"/content/{found[0]}")
    text = "".join(block["text"] for block in blocks if block["type"] == "text")
    if not text.strip():
        raise Inadmissible(Reason.EMPTY_TEXT, "/content")
    return TextFinish(text)


def _admit_call(blocks: list[dict[str, Any]], found: list[int], turn: Turn) -> Action:
    if len(found) > 1:
        raise Inadmissible(Reason.MULTIPLE_TOOL_CALLS, "/content")
    if not found:
        raise Inadmissible(Reason.AMBIGUOUS_TERMINATION, "/content")
    place, block = f"/content/{found[0]}", blocks[found[0]]
    call_id = rules.required_id(block, "id", place)
    rules.check_unseen(turn, call_id, f"{place}/id")
    tool = rules.offered_name(turn, block.get("name"), f"{place}/name")
    return rules.fitting_action(turn, tool, call_id, block.get("input"), f"{place}/input")
