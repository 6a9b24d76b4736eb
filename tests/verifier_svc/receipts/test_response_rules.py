"""Each rule of design/admission.md for responses, steps 3 to 8."""

from typing import Any

import pytest

from tests.verifier_svc.receipts import bodies
from tests.verifier_svc.receipts.bodies import function_call, response, said
from tests.verifier_svc.receipts.responses import having, without
from verifier_svc.receipts.verdicts import Action, Reason, TextFinish, Verdict
from verifier_svc.receipts.wire import WireFormat

THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
REFUSED = {"type": "refusal", "refusal": "I cannot."}


def judge(body: Any) -> Verdict:
    return bodies.judge(WireFormat.RESPONSES, body)


def unknown(body: Any) -> tuple[Reason, str]:
    return bodies.unknown(WireFormat.RESPONSES, body)


def test_3_an_object_of_the_kind_error() -> None:
    assert unknown({"object": "error"}) == (Reason.PROVIDER_ERROR, "/object")


@pytest.mark.parametrize(
    ("output", "where"),
    [
        (None, "/output"),
        ({}, "/output"),
        ([THOUGHT, {"type": "song"}], "/output/1/type"),
        (["Done."], "/output/0"),
        ([{}], "/output/0/type"),
        ([{"type": {}}], "/output/0/type"),
        ([{"type": "compaction"}], "/output/0/type"),
        ([said("Done.", role="user")], "/output/0/role"),
        ([without(said("Done."), "role")], "/output/0/role"),
        ([having(said(), "content", "Done.")], "/output/0/content"),
        ([said("Done.", {"type": "input_text", "text": "x"})], "/output/0/content/1"),
        ([said({"type": "output_text"})], "/output/0/content/0"),
        ([said({"type": "refusal", "refusal": None})], "/output/0/content/0"),
        ([said(None)], "/output/0/content/0"),
    ],
)
def test_5_the_form_of_the_output_comes_before_the_status(output: Any, where: str) -> None:
    assert unknown(having(response(status="queued"), "output", output)) == (Reason.INVALID_MESSAGE, where)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (None, Reason.MISSING_STOP_REASON),
        ("", Reason.UNRECOGNIZED_STOP_REASON),
        ("complete", Reason.UNRECOGNIZED_STOP_REASON),
        (["completed"], Reason.UNRECOGNIZED_STOP_REASON),
        (True, Reason.UNRECOGNIZED_STOP_REASON),
        ("queued", Reason.CONTINUATION_REQUIRED),
        ("in_progress", Reason.CONTINUATION_REQUIRED),
        ("failed", Reason.PROVIDER_ERROR),
        ("cancelled", Reason.PROVIDER_ERROR),
    ],
)
def test_6_the_closed_table_of_status_values(status: Any, expected: Reason) -> None:
    assert unknown(response(status=status)) == (expected, "/status")
    assert unknown(response(function_call(), status=status)) == (expected, "/status")


def test_6_an_absent_status_is_missing() -> None:
    assert unknown(without(response(), "status")) == (Reason.MISSING_STOP_REASON, "/status")


@pytest.mark.parametrize("status", ["incomplete", "completed"])
@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("max_output_tokens", Reason.TRUNCATED),
        ("content_filter", Reason.FILTERED),
        ("other", Reason.UNRECOGNIZED_STOP_REASON),
        (["content_filter"], Reason.UNRECOGNIZED_STOP_REASON),
        (None, Reason.MISSING_STOP_REASON),
    ],
)
def test_6_why_a_response_is_incomplete(status: str, reason: Any, expected: Reason) -> None:
    found = unknown(response(status=status, incomplete_details={"reason": reason}))
    assert found == (expected, "/incomplete_details/reason")


@pytest.mark.parametrize("details", [None, {}, "max_output_tokens", []])
def test_6_an_incomplete_response_without_a_reason(details: Any) -> None:
    found = unknown(response(status="incomplete", incomplete_details=details))
    if isinstance(details, dict | None):
        assert found == (Reason.MISSING_STOP_REASON, "/incomplete_details/reason")
    else:
        assert found == (Reason.UNRECOGNIZED_STOP_REASON, "/incomplete_details")


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("incomplete", Reason.TRUNCATED),
        ("in_progress", Reason.CONTINUATION_REQUIRED),
        ("failed", Reason.UNRECOGNIZED_STOP_REASON),
        ("odd", Reason.UNRECOGNIZED_STOP_REASON),
    ],
)
def test_6_an_item_has_a_status_of_its_own(status: str, expected: Reason) -> None:
    assert unknown(response(THOUGHT, said("Do", status=status))) == (expected, "/output/1/status")
    assert unknown(response(function_call(status=status))) == (expected, "/output/0/status")
    assert unknown(response({**THOUGHT, "status": status})) == (expected, "/output/0/status")
    assert judge(response(without(said("Done."), "status"))) == TextFinish("Done.")
    assert judge(response(function_call(status=None))) == Action("wait", {}, "call_1")


@pytest.mark.parametrize(
    "kind",
    [
        *("web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call"),
        *("mcp_list_tools", "mcp_approval_response", "tool_search_output", "computer_call_output"),
        *("shell_call_output", "local_shell_call_output", "apply_patch_call_output", "function_call_output"),
        "custom_tool_call_output",
    ],
)
def test_an_item_of_the_providers_own_tools(kind: str) -> None:
    assert unknown(response(THOUGHT, {"type": kind}, said("Done."))) == (Reason.SERVER_TOOL_USED, "/output/1/type")
    assert unknown(response({"type": kind}, function_call())) == (Reason.SERVER_TOOL_USED, "/output/0/type")


@pytest.mark.parametrize(
    "kind",
    [
        *("custom_tool_call", "computer_call", "local_shell_call", "shell_call", "apply_patch_call"),
        *("tool_search_call", "mcp_approval_request"),
    ],
)
def test_a_call_that_waits_for_somebody_else(kind: str) -> None:
    assert unknown(response(THOUGHT, {"type": kind})) == (Reason.INVALID_TOOL_CALL, "/output/1/type")
    assert unknown(response({"type": kind}, function_call())) == (Reason.MULTIPLE_TOOL_CALLS, "/output")


def test_a_call_that_the_provider_answers_itself() -> None:
    hosted = {"type": "shell_call", "environment": {"type": "container_reference"}}
    for item in (hosted, {"type": "tool_search_call", "execution": "server"}):
        assert unknown(response(item)) == (Reason.SERVER_TOOL_USED, "/output/0/type")


def test_a_namespace_that_is_not_the_name_was_not_offered() -> None:
    assert isinstance(judge(response(function_call(namespace="wait"))), Action)
    assert unknown(response(function_call(namespace="x"))) == (Reason.UNKNOWN_TOOL, "/output/0/namespace")


def test_a_filter_that_blocked() -> None:
    filters = [{"blocked": False}, {"blocked": True}]
    assert unknown(response(content_filters=filters)) == (Reason.FILTERED, "/content_filters/1/blocked")
    assert judge(response(content_filters=filters[:1])) == TextFinish("Done.")


def test_other_marks_of_the_providers_own_tools() -> None:
    part = {"type": "output_text", "text": "Done.", "annotations": [{"type": "url_citation"}]}
    assert unknown(response(said(part))) == (Reason.SERVER_TOOL_USED, "/output/0/content/0/annotations/0")
    searched = response(tool_usage={"web_search": {"num_requests": 1}})
    assert unknown(searched) == (Reason.SERVER_TOOL_USED, "/tool_usage")
    billed = having(response(), "usage", "server_tool_use", {"other": 2})
    assert unknown(billed) == (Reason.SERVER_TOOL_USED, "/usage/server_tool_use")
    idle = response(said({**part, "annotations": []}), tool_usage={"web_search": {"num_requests": 0}})
    assert judge(idle) == TextFinish("Done.")


def test_7_texts_are_joined_and_reasoning_is_none() -> None:
    assert judge(response(THOUGHT, said("a", " "), said("b", phase="final_answer"))) == TextFinish("a b")
    for output in ([THOUGHT], [said(" \n", "")], [said()]):
        assert unknown(response(*output)) == (Reason.EMPTY_TEXT, "/output")
    assert unknown(having(response(), "output", [])) == (Reason.EMPTY_TEXT, "/output")


def test_7_refusals() -> None:
    found = unknown(response(THOUGHT, said(" ", REFUSED)))
    assert found == (Reason.STRUCTURED_REFUSAL, "/output/1/content/1")
    assert judge(response(said("I would rather not.", REFUSED))) == TextFinish("I would rather not.")
    assert unknown(response(said({"type": "refusal", "refusal": " "}))) == (Reason.EMPTY_TEXT, "/output")


def test_8_exactly_one_call() -> None:
    finish = function_call("finish", '{"claim":"saved"}')
    assert judge(response(THOUGHT, said("So."), finish)) == Action("finish", {"claim": "saved"}, "call_1")
    assert unknown(response(finish, function_call(call_id="call_2"))) == (Reason.MULTIPLE_TOOL_CALLS, "/output")
    other = {"type": "custom_tool_call", "call_id": "call_2", "name": "wait", "input": ""}
    assert unknown(response(other)) == (Reason.INVALID_TOOL_CALL, "/output/0/type")
    assert unknown(response(other, finish)) == (Reason.MULTIPLE_TOOL_CALLS, "/output")


@pytest.mark.parametrize(
    ("call", "expected", "member"),
    [
        (function_call(call_id=""), Reason.INVALID_TOOL_CALL, "call_id"),
        (function_call(call_id=None), Reason.INVALID_TOOL_CALL, "call_id"),
        (without(function_call(), "call_id"), Reason.INVALID_TOOL_CALL, "call_id"),
        (function_call("fly"), Reason.UNKNOWN_TOOL, "name"),
        (function_call(None), Reason.UNKNOWN_TOOL, "name"),
        (function_call(arguments=""), Reason.MALFORMED_ARGUMENTS, "arguments"),
        (function_call(arguments="[]"), Reason.MALFORMED_ARGUMENTS, "arguments"),
        (function_call(arguments='{"a":1,"a":1}'), Reason.MALFORMED_ARGUMENTS, "arguments"),
        (function_call(arguments={}), Reason.MALFORMED_ARGUMENTS, "arguments"),
        (without(function_call(), "arguments"), Reason.MALFORMED_ARGUMENTS, "arguments"),
        (function_call(arguments='{"ticks":1}'), Reason.INVALID_ARGUMENTS, "arguments"),
        (function_call("finish", '{"claim":"won"}'), Reason.INVALID_ARGUMENTS, "arguments"),
    ],
)
def test_8_a_call_that_is_not_as_it_must_be(call: Any, expected: Reason, member: str) -> None:
    assert unknown(response(THOUGHT, call)) == (expected, f"/output/1/{member}")
