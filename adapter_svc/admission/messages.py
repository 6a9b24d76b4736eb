"""The rules of the messages format, in the design's order: the first failure wins (design/admission.md, Order of
checks).

Check 1 (HTTP status), and the reading of check 2, are `admit`'s; streams are assembled first (`messages_stream`).
Decided here by analogy, each pinned by a test:

- `error` that is anything but null, or `type: "error"`, is an in-band error.
- `type` must say `message` (check 5, with role and content: `INVALID_MESSAGE`).
- A block of a type that is not listed, or a text block without a text, is `INVALID_MESSAGE` (check 5). What thinking
  blocks hold is opaque and not looked at.
- A provider-run tool is found after the stop reason (check 6) and before the message is judged: a block of such a
  tool, a call that a provider-run program made, a citation of a web search, a container, a counter above zero.
- Calls are `tool_use` blocks. Their `input` is an object (`MALFORMED_ARGUMENTS`); none is no empty one.
- `stop_sequence` is outside the table: no sequence is asked for. So is `stop`, and with it the allowance for it.
- The output cap is compared with any number, a whole one or not: it need not be one that can be billed.
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
    require_nothing_counted,
    require_object,
    require_unseen,
)
from adapter_svc.admission.stop_table import StopClass, classify
from adapter_svc.admission.strict_json import JsonValue
from adapter_svc.admission.verdict import Action, Inadmissible, Reason, TextFinish

STOP_REASONS: Mapping[str, StopClass | Reason] = MappingProxyType(
    {
        "end_turn": StopClass.TEXT,
        "tool_use": StopClass.TOOL,
        "max_tokens": Reason.TRUNCATED,
        "model_context_window_exceeded": Reason.TRUNCATED,
        "refusal": Reason.FILTERED,
        "pause_turn": Reason.CONTINUATION_REQUIRED,
    }
)
"""`stop_reason`; every other value is unrecognized."""

TEXT = "text"
CALL = "tool_use"
OPAQUE_BLOCKS = frozenset({"thinking", "redacted_thinking"})
SERVER_TOOL_BLOCKS = frozenset(
    {
        *("server_tool_use", "mcp_tool_use", "mcp_tool_result", "container_upload", "advisor_tool_result"),
        *("web_search_tool_result", "web_fetch_tool_result", "tool_search_tool_result", "code_execution_tool_result"),
        *("bash_code_execution_tool_result", "text_editor_code_execution_tool_result"),
    }
)
"""Blocks of tools that the provider ran."""
_DIRECT_CALLER = "direct"
"""`caller.type` of a call that the model made itself, and not a program that the provider ran."""
_SERVER_TOOL_CITATION = "web_search_result_location"


def judge(body: JsonValue, request: AdmissionRequest) -> Action | TextFinish:
    """Judge a body that was read as strict JSON.

    Raises Inadmissible with the first check that fails.
    """
    body = require_object(body)
    _require_no_error(body)
    require_model(body.get("model"), request.expected, "/model")
    blocks = _blocks_of(body)
    text = "".join(str(block["text"]) for block in blocks if block["type"] == TEXT)
    stop = classify(STOP_REASONS, body.get("stop_reason"), "/stop_reason")
    _require_no_server_tool(body, blocks)
    calls = [position for position, block in enumerate(blocks) if block["type"] == CALL]
    verdict = _judge_call(blocks, calls, text, request) if stop is StopClass.TOOL else _judge_text(calls, text)
    usage = body.get("usage")
    spent = usage.get("output_tokens") if isinstance(usage, dict) else None
    require_below_cap(spent, request.output_cap, "/usage/output_tokens")
    return verdict


def _require_no_error(body: JsonObject) -> None:
    if body.get("error") is not None:
        raise Inadmissible(Reason.PROVIDER_ERROR, "/error")
    if body.get("type") == "error":
        raise Inadmissible(Reason.PROVIDER_ERROR, "/type")


def _blocks_of(body: JsonObject) -> list[JsonObject]:
    """The content blocks, each an object of a type that is known."""
    for member, value in (("type", "message"), ("role", "assistant")):
        if body.get(member) != value:
            raise Inadmissible(Reason.INVALID_MESSAGE, f"/{member}")
    content = body.get("content")
    if not isinstance(content, list):
        raise Inadmissible(Reason.INVALID_MESSAGE, "/content")
    return [_block(value, position) for position, value in enumerate(content)]


def _block(value: JsonValue, position: int) -> JsonObject:
    kind = value.get("type") if isinstance(value, dict) else None
    known = isinstance(kind, str) and (kind in (TEXT, CALL) or kind in OPAQUE_BLOCKS or kind in SERVER_TOOL_BLOCKS)
    if not known or not isinstance(value, dict) or (kind == TEXT and not isinstance(value.get("text"), str)):
        raise Inadmissible(Reason.INVALID_MESSAGE, f"/content/{position}")
    return value


def _require_no_server_tool(body: JsonObject, blocks: list[JsonObject]) -> None:
    for position, block in enumerate(blocks):
        place = _server_tool_place(block)
        if place is not None:
            raise Inadmissible(Reason.SERVER_TOOL_USED, f"/content/{position}{place}")
    if body.get("container") is not None:
        raise Inadmissible(Reason.SERVER_TOOL_USED, "/container")
    require_nothing_counted(body.get("usage"))


def _server_tool_place(block: JsonObject) -> str | None:
    """Where in `block` a tool that the provider ran shows; None where nowhere."""
    if block["type"] in SERVER_TOOL_BLOCKS:
        return ""
    caller = block.get("caller")
    if block["type"] == CALL and isinstance(caller, dict) and caller.get("type") != _DIRECT_CALLER:
        return "/caller"
    citations = block.get("citations")
    for position, citation in enumerate(citations if isinstance(citations, list) else []):
        if isinstance(citation, dict) and citation.get("type") == _SERVER_TOOL_CITATION:
            return f"/citations/{position}"
    return None


def _judge_text(calls: list[int], text: str) -> TextFinish:
    if calls:
        raise Inadmissible(Reason.AMBIGUOUS_TERMINATION, f"/content/{calls[0]}")
    if not text.strip():
        raise Inadmissible(Reason.EMPTY_TEXT, "/content")
    return TextFinish(text)


def _judge_call(blocks: list[JsonObject], calls: list[int], text: str, request: AdmissionRequest) -> Action:
    if len(calls) > 1:
        raise Inadmissible(Reason.MULTIPLE_TOOL_CALLS, "/content")
    if not calls:
        raise Inadmissible(Reason.AMBIGUOUS_TERMINATION, "/content")
    call, where = blocks[calls[0]], f"/content/{calls[0]}"
    call_id = require_call_id(call.get("id"), f"{where}/id")
    require_unseen(call_id, request, f"{where}/id")
    tool = offered_tool(call.get("name"), request, f"{where}/name")
    arguments = require_arguments_object(call.get("input"), f"{where}/input")
    return action_of(tool, arguments, call_id, text, f"{where}/input")
