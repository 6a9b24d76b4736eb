"""Each check of design/admission.md for responses, in order, and each decision of the decoder's docstrings."""

from typing import Any

import pytest

from adapter_svc.admission import (
    Action,
    ExpectedIdentity,
    Reason,
    ServedIdentity,
    TechnicalUnknown,
    TextFinish,
    Usage,
)
from countersign.kit.canonical import sha256
from tests.adapter_svc.admission.helpers import ABSENT
from tests.adapter_svc.admission.responses_helpers import (
    REASONING,
    a_call,
    a_message,
    a_part,
    a_refusal,
    body,
    failure,
    judge,
    text_body,
    tool_body,
)

ARGUMENTS = "/output/0/arguments"


def test_one_function_call_is_an_action() -> None:
    assert judge(tool_body()).verdict == Action("finish", b'{"claim":"saved"}', "call_1", "")


def test_messages_are_a_text_finish_and_their_texts_are_joined_as_they_came() -> None:
    answer = body(a_message(a_part(" All"), a_part(" is")), REASONING, a_message(a_part(" well.\n")))
    assert judge(answer).verdict == TextFinish(" All is well.\n")


def test_text_beside_the_call_is_kept() -> None:
    verdict = judge(body(a_message(a_part("I wait."), phase="commentary"), a_call())).verdict
    assert isinstance(verdict, Action)
    assert verdict.text == "I wait."


# 1 to 4


@pytest.mark.parametrize("status", [199, 300, 400, 500])
def test_a_status_outside_2xx_comes_first(status: int) -> None:
    assert failure(b"{", http_status=status) == (Reason.HTTP_STATUS, "")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", Reason.MALFORMED_JSON),
        (b"[]", Reason.MALFORMED_JSON),
        (tool_body()[:-1], Reason.MALFORMED_JSON),
        (tool_body().replace(b'"model"', b'"model": "m", "model"', 1), Reason.DUPLICATE_KEY),
        (tool_body(n=1.5).replace(b"1.5", b"1e999"), Reason.LIMIT_EXCEEDED),
    ],
)
def test_the_body_is_one_strict_json_object(answer: bytes, reason: Reason) -> None:
    assert failure(answer) == (reason, "")


@pytest.mark.parametrize(
    ("answer", "where"),
    [
        (b'{"error": {"message": "x"}}', "/error"),
        (text_body(error="x", model="other"), "/error"),
        (tool_body(error={}), "/error"),
        (b'{"object": "error"}', "/object"),
        (b'{"type": "error", "code": "x", "message": "y"}', "/type"),
        (tool_body(status="failed"), "/status"),
        (tool_body(status="cancelled", model="other"), "/status"),
    ],
)
def test_an_error_inside_a_200_is_the_providers(answer: bytes, where: str) -> None:
    assert failure(answer) == (Reason.PROVIDER_ERROR, where)


@pytest.mark.parametrize(
    ("changes", "reason", "where"),
    [
        ({"model": ABSENT}, Reason.IDENTITY_MISSING, "/model"),
        ({"model": None}, Reason.IDENTITY_MISSING, "/model"),
        ({"model": ""}, Reason.IDENTITY_MISSING, "/model"),
        ({"model": "m2"}, Reason.IDENTITY_MISMATCH, "/model"),
        ({"model": 1}, Reason.IDENTITY_MISMATCH, "/model"),
        ({}, Reason.IDENTITY_MISSING, "/provider"),
        ({"provider": "Q"}, Reason.IDENTITY_MISMATCH, "/provider"),
        ({"model": "m2", "output": None}, Reason.IDENTITY_MISMATCH, "/model"),
    ],
)
def test_the_served_names_are_the_routes(changes: dict[str, Any], reason: Reason, where: str) -> None:
    expected = ExpectedIdentity(model="m", aliases=frozenset({"m-2026"}), provider_name="P")
    assert failure(text_body(**changes), expected=expected) == (reason, where)
    assert judge(text_body(model="m-2026", provider="P"), expected=expected).verdict == TextFinish("all done")


def test_another_json_object_fails_at_the_first_rule() -> None:
    assert failure(b'{"detail": "Not Found"}') == (Reason.IDENTITY_MISSING, "/model")
    assert failure(b'{"model": "m", "choices": []}') == (Reason.INVALID_MESSAGE, "/output")


# 5. Items


@pytest.mark.parametrize(
    ("output", "where"),
    [
        (ABSENT, "/output"),
        (None, "/output"),
        ({}, "/output"),
        ("all done", "/output"),
        ([None], "/output/0"),
        (["x"], "/output/0"),
        ([{}], "/output/0/type"),
        ([{"type": None}], "/output/0/type"),
        ([{"type": ["message"]}], "/output/0/type"),
        ([REASONING, {"type": "compaction", "encrypted_content": "x"}], "/output/1/type"),
        ([a_call(), {"type": "openrouter:fusion"}], "/output/1/type"),
        ([a_message(role=ABSENT)], "/output/0/role"),
        ([REASONING, a_message(role="user")], "/output/1/role"),
        ([a_message(content=ABSENT)], "/output/0/content"),
        ([a_message(content="all done")], "/output/0/content"),
        ([a_message("x")], "/output/0/content/0"),
        ([a_message(a_part(), {"type": "output_audio"})], "/output/0/content/1"),
        ([a_message({"text": "x"})], "/output/0/content/0"),
        ([a_message(a_part(text=ABSENT))], "/output/0/content/0"),
        ([a_message(a_part(text=None))], "/output/0/content/0"),
        ([a_message(a_part(), a_refusal(None))], "/output/0/content/1"),
        ([a_call(), a_message(a_refusal(1))], "/output/1/content/0"),
        ([a_message(a_part(type=["output_text"]))], "/output/0/content/0"),
    ],
)
def test_the_items_are_of_known_shapes(output: Any, where: str) -> None:
    assert failure(text_body(output=output)) == (Reason.INVALID_MESSAGE, where)
    assert failure(text_body(output=output, status="incomplete")) == (Reason.INVALID_MESSAGE, where)


# 6. Status


@pytest.mark.parametrize(
    ("changes", "reason", "where"),
    [
        ({"status": ABSENT}, Reason.MISSING_STOP_REASON, "/status"),
        ({"status": None}, Reason.MISSING_STOP_REASON, "/status"),
        ({"status": ""}, Reason.UNRECOGNIZED_STOP_REASON, "/status"),
        ({"status": "complete"}, Reason.UNRECOGNIZED_STOP_REASON, "/status"),
        ({"status": ["completed"]}, Reason.UNRECOGNIZED_STOP_REASON, "/status"),
        ({"status": "queued"}, Reason.CONTINUATION_REQUIRED, "/status"),
        ({"status": "in_progress"}, Reason.CONTINUATION_REQUIRED, "/status"),
        ({"status": "incomplete"}, Reason.MISSING_STOP_REASON, "/incomplete_details/reason"),
        (
            {"status": "incomplete", "incomplete_details": {"reason": None}},
            Reason.MISSING_STOP_REASON,
            "/incomplete_details/reason",
        ),
        (
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            Reason.TRUNCATED,
            "/incomplete_details/reason",
        ),
        (
            {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
            Reason.FILTERED,
            "/incomplete_details/reason",
        ),
        (
            {"status": "incomplete", "incomplete_details": {"reason": "max_tool_calls"}},
            Reason.UNRECOGNIZED_STOP_REASON,
            "/incomplete_details/reason",
        ),
        (
            {"status": "incomplete", "incomplete_details": "max_output_tokens"},
            Reason.UNRECOGNIZED_STOP_REASON,
            "/incomplete_details",
        ),
        (
            {"incomplete_details": {"reason": "max_output_tokens"}},
            Reason.TRUNCATED,
            "/incomplete_details/reason",
        ),
        ({"incomplete_details": {"reason": ""}}, Reason.UNRECOGNIZED_STOP_REASON, "/incomplete_details/reason"),
        ({"content_filters": [{"blocked": False}, {"blocked": True}]}, Reason.FILTERED, "/content_filters/1/blocked"),
    ],
)
def test_only_a_completed_response_is_admitted(changes: dict[str, Any], reason: Reason, where: str) -> None:
    assert failure(text_body(**changes)) == (reason, where)
    assert failure(tool_body(**changes)) == (reason, where)


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("incomplete", Reason.TRUNCATED),
        ("in_progress", Reason.CONTINUATION_REQUIRED),
        ("", Reason.UNRECOGNIZED_STOP_REASON),
        ("failed", Reason.UNRECOGNIZED_STOP_REASON),
    ],
)
def test_an_item_that_is_not_complete_is_not_admitted(status: str, reason: Reason) -> None:
    assert failure(body(a_message(status=status))) == (reason, "/output/0/status")
    assert failure(body(REASONING, a_call(status=status))) == (reason, "/output/1/status")
    assert failure(body({**REASONING, "status": status}, a_call())) == (reason, "/output/0/status")


def test_an_item_needs_no_status_and_null_details_say_nothing() -> None:
    assert judge(body(a_message(status=ABSENT), incomplete_details=None)).verdict == TextFinish("all done")
    assert isinstance(judge(body(a_call(status=None), object="other")).verdict, Action)


SERVER_ITEMS = [
    {"type": "web_search_call", "status": "completed"},
    {"type": "file_search_call", "results": None},
    {"type": "code_interpreter_call"},
    {"type": "image_generation_call"},
    {"type": "mcp_call", "status": "failed"},
    {"type": "mcp_list_tools"},
    {"type": "mcp_approval_response"},
    {"type": "tool_search_call", "execution": "server"},
    {"type": "tool_search_output"},
    {"type": "shell_call", "environment": {"type": "container_reference"}},
    {"type": "shell_call_output"},
    {"type": "local_shell_call_output"},
    {"type": "apply_patch_call_output"},
    {"type": "computer_call_output"},
    {"type": "custom_tool_call_output"},
    {"type": "function_call_output"},
]


@pytest.mark.parametrize("item", SERVER_ITEMS, ids=lambda item: item["type"])
def test_what_the_provider_ran_is_an_external_action(item: dict[str, Any]) -> None:
    assert failure(body(item, a_message())) == (Reason.SERVER_TOOL_USED, "/output/0/type")
    assert failure(body(a_call(), item)) == (Reason.SERVER_TOOL_USED, "/output/1/type")
    assert failure(body(item, status="queued")) == (Reason.CONTINUATION_REQUIRED, "/status")


@pytest.mark.parametrize(
    "counters", [{"web_search": {"num_requests": 1}}, {"image_gen": {"details": {"tokens": 3}}}, {"other": True}, "x"]
)
def test_a_counter_of_provider_run_tools_says_so_too(counters: Any) -> None:
    assert failure(text_body(tool_usage=counters)) == (Reason.SERVER_TOOL_USED, "/tool_usage")


@pytest.mark.parametrize("counters", [None, {}, {"web_search": {"num_requests": 0}, "image_gen": None}])
def test_counters_of_nothing_say_nothing(counters: Any) -> None:
    assert judge(text_body(tool_usage=counters)).verdict == TextFinish("all done")


# 7. Text stops


@pytest.mark.parametrize(
    "output", [[], [REASONING], [a_message(content=[])], [a_message(a_part("")), a_message(a_part(" \n"))]]
)
def test_a_completed_response_without_text_or_call_is_empty(output: list[Any]) -> None:
    assert failure(body(*output)) == (Reason.EMPTY_TEXT, "/output")


def test_a_refusal_without_text_is_structured_and_beside_text_it_is_none() -> None:
    answer = body(REASONING, a_message(a_part(" "), a_refusal()))
    assert failure(answer) == (Reason.STRUCTURED_REFUSAL, "/output/1/content/1")
    assert failure(body(a_message(a_refusal(" ")))) == (Reason.EMPTY_TEXT, "/output")
    assert judge(body(a_message(a_refusal(), a_part()))).verdict == TextFinish("all done")
    assert isinstance(judge(body(a_message(a_refusal()), a_call())).verdict, Action)


# 8. Calls

CLIENT_ITEMS = [
    {"type": "custom_tool_call", "call_id": "c", "name": "finish", "input": "saved"},
    {"type": "computer_call"},
    {"type": "local_shell_call"},
    {"type": "shell_call", "environment": {"type": "local"}},
    {"type": "shell_call"},
    {"type": "apply_patch_call"},
    {"type": "tool_search_call", "execution": "client"},
    {"type": "tool_search_call"},
    {"type": "mcp_approval_request"},
]


@pytest.mark.parametrize("item", CLIENT_ITEMS, ids=lambda item: item["type"])
def test_a_call_of_another_kind_is_no_function_call(item: dict[str, Any]) -> None:
    assert failure(body(item)) == (Reason.INVALID_TOOL_CALL, "/output/0/type")
    assert failure(body(a_message(), item)) == (Reason.INVALID_TOOL_CALL, "/output/1/type")
    assert failure(body(item, a_call())) == (Reason.MULTIPLE_TOOL_CALLS, "/output")


def test_two_calls_are_too_many() -> None:
    assert failure(body(a_call(), a_call(call_id="call_2"))) == (Reason.MULTIPLE_TOOL_CALLS, "/output")


@pytest.mark.parametrize(
    ("changes", "reason", "where"),
    [
        ({"call_id": ABSENT}, Reason.INVALID_TOOL_CALL, "/output/0/call_id"),
        ({"call_id": ""}, Reason.INVALID_TOOL_CALL, "/output/0/call_id"),
        ({"call_id": 7}, Reason.INVALID_TOOL_CALL, "/output/0/call_id"),
        ({"call_id": "old", "name": "x"}, Reason.DUPLICATE_TOOL_CALL_ID, "/output/0/call_id"),
        ({"name": "rescue"}, Reason.UNKNOWN_TOOL, "/output/0/name"),
        ({"name": ABSENT}, Reason.UNKNOWN_TOOL, "/output/0/name"),
        ({"name": ["finish"]}, Reason.UNKNOWN_TOOL, "/output/0/name"),
        ({"namespace": "other"}, Reason.UNKNOWN_TOOL, "/output/0/namespace"),
        ({"namespace": ""}, Reason.UNKNOWN_TOOL, "/output/0/namespace"),
        ({"arguments": ABSENT}, Reason.MALFORMED_ARGUMENTS, ARGUMENTS),
        ({"arguments": ""}, Reason.MALFORMED_ARGUMENTS, ARGUMENTS),
        ({"arguments": {"claim": "saved"}}, Reason.MALFORMED_ARGUMENTS, ARGUMENTS),
        ({"arguments": "[]"}, Reason.MALFORMED_ARGUMENTS, ARGUMENTS),
        ({"arguments": '{"claim":"saved","claim":"saved"}'}, Reason.MALFORMED_ARGUMENTS, ARGUMENTS),
        ({"arguments": "{}"}, Reason.INVALID_ARGUMENTS, ARGUMENTS),
        ({"arguments": '{"claim":"won"}'}, Reason.INVALID_ARGUMENTS, ARGUMENTS),
        ({"arguments": '{"claim":"saved","n":1}'}, Reason.INVALID_ARGUMENTS, ARGUMENTS),
    ],
)
def test_the_one_call_is_well_formed_new_and_offered(changes: dict[str, Any], reason: Reason, where: str) -> None:
    assert failure(body(a_call(**changes)), seen_tool_call_ids=frozenset({"old"})) == (reason, where)


def test_a_namespace_that_repeats_the_name_is_the_function_on_its_own() -> None:
    assert isinstance(judge(body(a_call(namespace="finish"))).verdict, Action)
    assert isinstance(judge(body(a_call(namespace=None))).verdict, Action)


# 9. The cap


@pytest.mark.parametrize(("spent", "reached"), [(4, False), (5, True), (5.0, True), (6, True), (None, False)])
def test_a_cap_that_was_reached_is_truncation(spent: Any, reached: bool) -> None:
    answer = tool_body(usage={"output_tokens": spent})
    if reached:
        assert failure(answer, output_cap=5) == (Reason.TRUNCATED, "/usage/output_tokens")
    else:
        assert isinstance(judge(answer, output_cap=5).verdict, Action)
    assert isinstance(judge(answer).verdict, Action)


# Evidence

FULL = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 3},
    "total_tokens": 15,
}


def test_usage_is_read_as_reported() -> None:
    assert judge(tool_body(usage=FULL)).usage == Usage(10, 5, 15, 4, 3, 2)
    assert judge(tool_body(usage=None)).usage == Usage()
    assert judge(tool_body(usage=[])).usage == Usage(invalid=("usage",))
    assert judge(tool_body(usage={**FULL, "output_tokens": -1})).usage == Usage(
        10, None, 15, 4, 3, 2, ("output_tokens",)
    )


def test_a_gateways_cost_keeps_its_own_spelling() -> None:
    answer = tool_body(usage={**FULL, "cost": "@"}, provider="P").replace(b'"@"', b"0.0000113")
    admission = judge(answer)
    assert (admission.reported_cost, admission.usage.invalid) == ("0.0000113", ())
    assert admission.served == ServedIdentity("m", "P")
    assert judge(tool_body(usage={"cost": "x"})).usage == Usage(invalid=("cost",))


def test_an_answer_that_is_not_admitted_was_paid_for_too() -> None:
    admission = judge(body(usage=FULL))
    assert admission.verdict == TechnicalUnknown(Reason.EMPTY_TEXT, "/output")
    assert (admission.usage.output_tokens, admission.continuation) == (5, None)


OPAQUE = (
    b'[ {"type":"reasoning","id":"rs","encrypted_content":"gAAA\\u002b/==","summary":[ ],"n":1.00E0,"z":{},"a":[]},\n'
    b'{"type" : "function_call","call_id":"c","name":"wait","arguments":"{ }","new":[{"b":1e-7}],"status":null}]'
)


def test_the_continuation_is_the_output_byte_for_byte() -> None:
    admission = judge(b'{"model":"m","status":"completed","output" :  %b  ,"usage":null}' % OPAQUE)
    assert isinstance(admission.verdict, Action)
    assert admission.continuation is not None
    assert admission.continuation.message == OPAQUE
    assert admission.continuation.digest == sha256(OPAQUE)
    assert "encrypted_content" not in repr(admission)
