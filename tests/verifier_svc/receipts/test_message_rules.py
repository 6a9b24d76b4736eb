"""Each rule of design/admission.md for messages, steps 3 to 8."""

from typing import Any

import pytest

from tests.verifier_svc.receipts import bodies
from tests.verifier_svc.receipts.bodies import calling, message, text_block, tool_use
from tests.verifier_svc.receipts.responses import having, without
from verifier_svc.receipts.verdicts import Action, Allowance, Reason, TextFinish, Verdict
from verifier_svc.receipts.wire import Expectation, WireFormat

LENIENT = Expectation(allowances=frozenset((Allowance.TOOL_CALLS_WITH_STOP,)))
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}


def judge(body: Any, expectation: Expectation | None = None) -> Verdict:
    return bodies.judge(WireFormat.MESSAGES, body, expectation)


def unknown(body: Any, expectation: Expectation | None = None) -> tuple[Reason, str]:
    return bodies.unknown(WireFormat.MESSAGES, body, expectation)


def test_3_a_body_of_the_type_error() -> None:
    assert unknown({"type": "error", "request_id": "r"}) == (Reason.PROVIDER_ERROR, "/type")


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (("role", "user"), "/role"),
        (("role", None), "/role"),
        (("content", None), "/content"),
        (("content", "Done."), "/content"),
        (("content", {}), "/content"),
        (("content", [text_block(), {"type": "image"}]), "/content/1"),
        (("content", [text_block(None)]), "/content/0"),
        (("content", ["Done."]), "/content/0"),
        (("content", [{"text": "Done."}]), "/content/0"),
        (("content", [{"type": ["text"]}]), "/content/0"),
    ],
)
def test_5_the_form_of_the_message_comes_before_its_stop(change: Any, where: str) -> None:
    assert unknown(having(message(stop_reason="max_tokens"), *change)) == (Reason.INVALID_MESSAGE, where)


@pytest.mark.parametrize(
    ("stop_reason", "expected"),
    [
        (None, Reason.MISSING_STOP_REASON),
        ("", Reason.UNRECOGNIZED_STOP_REASON),
        ("stop", Reason.UNRECOGNIZED_STOP_REASON),
        ("stop_sequence", Reason.UNRECOGNIZED_STOP_REASON),
        ("compaction", Reason.UNRECOGNIZED_STOP_REASON),
        (["end_turn"], Reason.UNRECOGNIZED_STOP_REASON),
        (0, Reason.UNRECOGNIZED_STOP_REASON),
        ("max_tokens", Reason.TRUNCATED),
        ("model_context_window_exceeded", Reason.TRUNCATED),
        ("refusal", Reason.FILTERED),
        ("pause_turn", Reason.CONTINUATION_REQUIRED),
    ],
)
def test_6_the_closed_table_of_stop_reasons(stop_reason: Any, expected: Reason) -> None:
    assert unknown(message(stop_reason=stop_reason)) == (expected, "/stop_reason")
    assert unknown(message(tool_use(), stop_reason=stop_reason)) == (expected, "/stop_reason")


def test_6_an_absent_reason_is_missing() -> None:
    assert unknown(without(message(), "stop_reason")) == (Reason.MISSING_STOP_REASON, "/stop_reason")


@pytest.mark.parametrize(
    "kind",
    [
        *("server_tool_use", "mcp_tool_use", "mcp_tool_result", "web_search_tool_result", "web_fetch_tool_result"),
        *("code_execution_tool_result", "bash_code_execution_tool_result", "text_editor_code_execution_tool_result"),
        *("tool_search_tool_result", "advisor_tool_result", "container_upload"),
    ],
)
def test_a_block_of_the_providers_own_tools(kind: str) -> None:
    assert unknown(message({"type": kind}, text_block())) == (Reason.SERVER_TOOL_USED, "/content/0")
    assert unknown(calling(text_block(), {"type": kind}, tool_use())) == (Reason.SERVER_TOOL_USED, "/content/1")
    assert unknown(message({"type": kind}, stop_reason="pause_turn"))[0] is Reason.CONTINUATION_REQUIRED


def test_other_marks_of_the_providers_own_tools() -> None:
    cited = text_block(citations=[{"type": "char_location"}, {"type": "web_search_result_location"}])
    assert unknown(message(THOUGHT, cited)) == (Reason.SERVER_TOOL_USED, "/content/1/citations/1")
    assert judge(message(text_block(citations=[{"type": "char_location"}]))) == TextFinish("Done.")
    billed = having(message(), "usage", "server_tool_use", {"web_search_requests": 1})
    assert unknown(billed) == (Reason.SERVER_TOOL_USED, "/usage/server_tool_use/web_search_requests")
    idle = having(message(), "usage", "server_tool_use", {"web_search_requests": 0, "web_fetch_requests": 0})
    assert judge(idle) == TextFinish("Done.")


def test_7_texts_are_joined_and_thoughts_are_none() -> None:
    assert judge(message(THOUGHT, text_block("a "), {"type": "redacted_thinking", "data": "x"}, text_block("b"))) == (
        TextFinish("a b")
    )
    for content in ([THOUGHT], [text_block(""), text_block(" \n")]):
        assert unknown(message(*content)) == (Reason.EMPTY_TEXT, "/content")
    assert unknown(having(message(), "content", [])) == (Reason.EMPTY_TEXT, "/content")


def test_7_a_text_stop_with_a_call_is_ambiguous() -> None:
    assert unknown(message(text_block(), tool_use())) == (Reason.AMBIGUOUS_TERMINATION, "/content/1")
    assert unknown(message(text_block(), tool_use()), LENIENT) == (Reason.AMBIGUOUS_TERMINATION, "/content/1")


def test_5_the_type_is_message() -> None:
    for odd in (None, "", "completion"):
        assert unknown({**message(), "type": odd}) == (Reason.INVALID_MESSAGE, "/type")


def test_a_container_and_a_programs_call_are_the_providers_doing() -> None:
    assert unknown({**message(), "container": {"id": "c"}}) == (Reason.SERVER_TOOL_USED, "/container")
    for caller in ({"type": "code_execution_20250825"}, {}):
        call = {**tool_use(), "caller": caller}
        assert unknown(calling(call)) == (Reason.SERVER_TOOL_USED, "/content/0/caller")
    assert isinstance(judge(calling({**tool_use(), "caller": {"type": "direct"}})), Action)


def test_8_exactly_one_call() -> None:
    finish = tool_use("finish", {"claim": "saved"})
    assert judge(calling(THOUGHT, text_block("So."), finish)) == Action("finish", {"claim": "saved"}, "toolu_1")
    assert unknown(calling(tool_use(), tool_use(call_id="toolu_2"))) == (Reason.MULTIPLE_TOOL_CALLS, "/content")
    assert unknown(calling(text_block())) == (Reason.AMBIGUOUS_TERMINATION, "/content")


@pytest.mark.parametrize(
    ("block", "expected", "member"),
    [
        (tool_use(call_id=""), Reason.INVALID_TOOL_CALL, "id"),
        (tool_use(call_id=None), Reason.INVALID_TOOL_CALL, "id"),
        (tool_use(call_id=7), Reason.INVALID_TOOL_CALL, "id"),
        (without(tool_use(), "id"), Reason.INVALID_TOOL_CALL, "id"),
        (tool_use("fly"), Reason.UNKNOWN_TOOL, "name"),
        (tool_use(None), Reason.UNKNOWN_TOOL, "name"),
        (tool_use(["wait"]), Reason.UNKNOWN_TOOL, "name"),
        (without(tool_use(), "name"), Reason.UNKNOWN_TOOL, "name"),
        (without(tool_use(), "input"), Reason.MALFORMED_ARGUMENTS, "input"),
        (having(tool_use(), "input", None), Reason.MALFORMED_ARGUMENTS, "input"),
        (tool_use(arguments="{}"), Reason.MALFORMED_ARGUMENTS, "input"),
        (tool_use(arguments=[]), Reason.MALFORMED_ARGUMENTS, "input"),
        (tool_use(arguments={"ticks": 1}), Reason.INVALID_ARGUMENTS, "input"),
        (tool_use("finish"), Reason.INVALID_ARGUMENTS, "input"),
        (tool_use("finish", {"claim": "won"}), Reason.INVALID_ARGUMENTS, "input"),
        (tool_use("finish", {"claim": "saved", "why": ""}), Reason.INVALID_ARGUMENTS, "input"),
    ],
)
def test_8_a_call_that_is_not_as_it_must_be(block: Any, expected: Reason, member: str) -> None:
    assert unknown(calling(THOUGHT, block)) == (expected, f"/content/1/{member}")
