"""The rules of the messages format: a good answer, spoilt one field at a time (design/admission.md, Order of
checks).
"""

from typing import Any

import pytest

from adapter_svc.admission import Action, Allowance, ExpectedIdentity, ServedIdentity, TextFinish, Usage
from tests.adapter_svc.admission.bodies import MESSAGES, THINKING, a_text, a_use, encoded, failure, judged, message
from tests.adapter_svc.admission.helpers import ABSENT

REDACTED = {"type": "redacted_thinking", "data": "ZW5j"}
WAITING = {"type": "tool_use", "id": "toolu_2", "name": "wait", "input": {}}


def test_a_call_is_an_action_with_its_text() -> None:
    admission = judged(message(THINKING, REDACTED, a_text("I "), a_text("claim."), a_use()), **MESSAGES)
    assert admission.verdict == Action("finish", b'{"claim":"saved"}', "toolu_1", "I claim.")
    assert admission.served == ServedIdentity(model="m")


def test_text_is_a_finish_thinking_left_out() -> None:
    assert judged(message(THINKING, a_text(" all"), REDACTED, a_text(" done")), **MESSAGES).verdict == TextFinish(
        " all done"
    )


@pytest.mark.parametrize(
    "body",
    [
        message(a_text(citations=None)),
        message(a_text(citations=[{"type": "char_location", "cited_text": "x"}])),
        message(container=None, stop_details=None, context_management={"applied_edits": []}, unknown=1),
        message(usage={"server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0}}),
        message(usage={"server_tool_use": None}),
        message(usage=ABSENT),
        message(error=None),
        message(a_use(caller={"type": "direct"})),
        message(a_use(caller=None)),
        message({"type": "thinking"}, a_use()),
    ],
)
def test_what_says_nothing_changes_nothing(body: dict[str, Any]) -> None:
    assert isinstance(judged(body, **MESSAGES).verdict, Action | TextFinish)


CASES: list[tuple[Any, str, str]] = [
    # Checks 2 and 3.
    ([], "MALFORMED_JSON", ""),
    ({"type": "error", "error": {"type": "overloaded_error"}}, "PROVIDER_ERROR", "/error"),
    ({"type": "error"}, "PROVIDER_ERROR", "/type"),
    (message(error={}), "PROVIDER_ERROR", "/error"),
    (message(error=False, model="other"), "PROVIDER_ERROR", "/error"),
    # Check 4.
    (message(model=ABSENT), "IDENTITY_MISSING", "/model"),
    (message(model=""), "IDENTITY_MISSING", "/model"),
    (message(model="other", type="completion"), "IDENTITY_MISMATCH", "/model"),
    # Check 5.
    (message(type="completion"), "INVALID_MESSAGE", "/type"),
    (message(type=ABSENT), "INVALID_MESSAGE", "/type"),
    (message(role="user"), "INVALID_MESSAGE", "/role"),
    (message(role=ABSENT), "INVALID_MESSAGE", "/role"),
    (message(content=ABSENT), "INVALID_MESSAGE", "/content"),
    (message(content="all done"), "INVALID_MESSAGE", "/content"),
    (message(content={}), "INVALID_MESSAGE", "/content"),
    (message(content=[a_text(), "x"]), "INVALID_MESSAGE", "/content/1"),
    (message(content=[{"text": "x"}]), "INVALID_MESSAGE", "/content/0"),
    (message(content=[{"type": ["text"]}]), "INVALID_MESSAGE", "/content/0"),
    (message(content=[a_text(), {"type": "image"}]), "INVALID_MESSAGE", "/content/1"),
    (message(content=[{"type": "tool_result"}]), "INVALID_MESSAGE", "/content/0"),
    (message({"type": "compaction", "content": "x"}, stop="max_tokens"), "INVALID_MESSAGE", "/content/0"),
    (message(a_text(), a_text(None)), "INVALID_MESSAGE", "/content/1"),
    (message(a_text(ABSENT)), "INVALID_MESSAGE", "/content/0"),
    # Check 6.
    (message(stop_reason=None), "MISSING_STOP_REASON", "/stop_reason"),
    (message(stop_reason=ABSENT), "MISSING_STOP_REASON", "/stop_reason"),
    (message(a_use(), stop="max_tokens"), "TRUNCATED", "/stop_reason"),
    (message(stop="model_context_window_exceeded"), "TRUNCATED", "/stop_reason"),
    (message(stop="refusal"), "FILTERED", "/stop_reason"),
    (message({"type": "server_tool_use"}, stop="pause_turn"), "CONTINUATION_REQUIRED", "/stop_reason"),
    *(
        (message(stop_reason=value), "UNRECOGNIZED_STOP_REASON", "/stop_reason")
        for value in ("stop_sequence", "stop", "tool_calls", "", "END_TURN", "end_turn ", 0, False, ["end_turn"], {})
    ),
    # A tool that the provider ran.
    *(
        (message(a_text(), {"type": kind}, a_use()), "SERVER_TOOL_USED", "/content/1")
        for kind in (
            *("server_tool_use", "web_search_tool_result", "web_fetch_tool_result", "code_execution_tool_result"),
            *("bash_code_execution_tool_result", "text_editor_code_execution_tool_result", "mcp_tool_use"),
            *("mcp_tool_result", "tool_search_tool_result", "container_upload", "advisor_tool_result"),
        )
    ),
    (message({"type": "mcp_tool_use"}, stop="end_turn"), "SERVER_TOOL_USED", "/content/0"),
    (message(a_use(caller={"type": "code_execution_20260120"})), "SERVER_TOOL_USED", "/content/0/caller"),
    (message(a_use(caller={})), "SERVER_TOOL_USED", "/content/0/caller"),
    (
        message(a_text(citations=[{"type": "char_location"}, {"type": "web_search_result_location"}])),
        "SERVER_TOOL_USED",
        "/content/0/citations/1",
    ),
    (message(container={"id": "c"}), "SERVER_TOOL_USED", "/container"),
    (message(usage={"server_tool_use": {"new_requests": 1}}), "SERVER_TOOL_USED", "/usage/server_tool_use"),
    # Check 7.
    (message(a_text(), a_use(), stop="end_turn"), "AMBIGUOUS_TERMINATION", "/content/1"),
    (message(content=[]), "EMPTY_TEXT", "/content"),
    (message(a_text(" \n\t")), "EMPTY_TEXT", "/content"),
    (message(THINKING), "EMPTY_TEXT", "/content"),
    # Check 8.
    (message(a_use(), WAITING), "MULTIPLE_TOOL_CALLS", "/content"),
    (message(a_use(id=None), a_use(name="fly")), "MULTIPLE_TOOL_CALLS", "/content"),
    (message(a_text(), stop="tool_use"), "AMBIGUOUS_TERMINATION", "/content"),
    (message(content=[], stop="tool_use"), "AMBIGUOUS_TERMINATION", "/content"),
    (message(a_text(), a_use(id=ABSENT)), "INVALID_TOOL_CALL", "/content/1/id"),
    (message(a_use(id="")), "INVALID_TOOL_CALL", "/content/0/id"),
    (message(a_use(id=7)), "INVALID_TOOL_CALL", "/content/0/id"),
    (message(a_use(id="seen", name="fly")), "DUPLICATE_TOOL_CALL_ID", "/content/0/id"),
    (message(a_use(name="fly", input=[])), "UNKNOWN_TOOL", "/content/0/name"),
    (message(a_use(name=ABSENT)), "UNKNOWN_TOOL", "/content/0/name"),
    (message(a_use(name=["finish"])), "UNKNOWN_TOOL", "/content/0/name"),
    *(
        (message(a_use(input=value)), "MALFORMED_ARGUMENTS", "/content/0/input")
        for value in (ABSENT, None, "", '{"claim":"saved"}', [], 0, True)
    ),
    *(
        (message(a_use(input=value)), "INVALID_ARGUMENTS", "/content/0/input")
        for value in ({}, {"claim": "won"}, {"claim": "saved", "x": 1}, {"claim": None})
    ),
    # Check 9.
    (message(usage={"output_tokens": 50}), "TRUNCATED", "/usage/output_tokens"),
    (message(a_use(), usage={"output_tokens": 50.5}), "TRUNCATED", "/usage/output_tokens"),
]


@pytest.mark.parametrize(("body", "reason", "where"), CASES)
def test_the_first_failure_is_named(body: Any, reason: str, where: str) -> None:
    assert failure(body, **MESSAGES, seen_tool_call_ids=frozenset({"seen"}), output_cap=50) == (reason, where)


def test_keys_given_twice_are_refused_in_arguments_too() -> None:
    body = encoded(message(a_use())).replace(b'"claim":', b'"claim": "unknown", "claim":')
    assert failure(body, **MESSAGES) == ("DUPLICATE_KEY", "")


def test_an_alias_is_the_model() -> None:
    expected = ExpectedIdentity(model="x", aliases=frozenset({"m"}), provider_name="nobody")
    assert isinstance(judged(message(), **MESSAGES, expected=expected).verdict, TextFinish)


def test_the_allowance_for_stop_says_nothing_of_end_turn() -> None:
    allowed = {**MESSAGES, "allowances": frozenset({Allowance.TOOL_CALLS_WITH_STOP})}
    assert failure(message(a_use(), stop="end_turn"), **allowed) == ("AMBIGUOUS_TERMINATION", "/content/0")


def test_just_below_the_cap_is_whole() -> None:
    body = message(usage={"output_tokens": 49})
    assert isinstance(judged(body, **MESSAGES, output_cap=50).verdict, TextFinish)
    assert isinstance(judged(message(usage={"output_tokens": "50"}), **MESSAGES, output_cap=50).verdict, TextFinish)


def test_the_continuation_is_the_content_byte_for_byte() -> None:
    content = (
        b'[ {"type":"thinking","thinking":"\\u00e9\xc3\xa9","signature":"cw==","z":[ ],"n":1.50, "m":-0,"k":2E+5},\n'
        b'{"type" : "redacted_thinking","data":"\\u003d"},'
        b'{"input":{"cl\\u0061im":"saved"},"name":"finish","id":"t","type":"tool_use","tags":[],"u":{"b":[[],{}]}} ]'
    )
    body = b'{"content": [],"model":"m"}'.replace(b"[]", content)
    body = body[:-1] + b',"type":"message","role":"assistant","stop_reason":"tool_use"}'
    admission = judged(body, **MESSAGES)
    assert admission.verdict == Action("finish", b'{"claim":"saved"}', "t", "")
    assert admission.continuation is not None
    assert admission.continuation.message == content


FULL = {
    "input_tokens": 10,
    "cache_read_input_tokens": 100,
    "cache_creation_input_tokens": 1000,
    "output_tokens": 7,
    "output_tokens_details": {"thinking_tokens": 3},
}
ALL = Usage(1110, 7, None, cached_tokens=100, reasoning_tokens=3, cache_write_tokens=1000)


@pytest.mark.parametrize(
    ("usage", "read"),
    [
        (FULL, ALL),
        (None, Usage()),
        (ABSENT, Usage()),
        ({}, Usage()),
        ([], Usage(invalid=("usage",))),
        ({"input_tokens": 10, "output_tokens": 0}, Usage(10, 0)),
        ({"input_tokens": 10, "cache_read_input_tokens": None}, Usage(10)),
        ({"cache_read_input_tokens": 5, "output_tokens": 2}, Usage(None, 2, cached_tokens=5)),
        ({"input_tokens": "10", "output_tokens": 2}, Usage(None, 2, invalid=("input_tokens",))),
        (
            {"input_tokens": 10, "cache_read_input_tokens": -1, "output_tokens": 2},
            Usage(None, 2, invalid=("input_tokens", "cached_tokens")),
        ),
        (
            {"input_tokens": 2**63 - 1, "cache_creation_input_tokens": 1},
            Usage(None, cache_write_tokens=1, invalid=("input_tokens",)),
        ),
        ({"input_tokens": 1, "output_tokens": 1.0}, Usage(1, None, invalid=("output_tokens",))),
    ],
)
def test_the_three_classes_of_input_are_one(usage: Any, read: Usage) -> None:
    admission = judged(message(usage=usage), **MESSAGES)
    assert (admission.usage, admission.reported_cost) == (read, None)


def test_an_answer_that_is_not_admitted_was_paid_for_too() -> None:
    admission = judged(message(stop="max_tokens", usage=FULL), **MESSAGES)
    assert (admission.usage, admission.served, admission.continuation) == (ALL, ServedIdentity(model="m"), None)
