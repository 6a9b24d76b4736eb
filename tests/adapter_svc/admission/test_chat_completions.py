"""Each check of design/admission.md, in order, and each of its particulars."""

from typing import Any

import pytest

from adapter_svc.admission import Action, Allowance, ExpectedIdentity, Limits, Origin, Reason, TextFinish
from tests.adapter_svc.admission.helpers import ABSENT, CLAIM, WAIT, a_call, failure, judge, text_body, tool_body

MESSAGE = "/choices/0/message"
CALL = f"{MESSAGE}/tool_calls/0"
FINISH = "/choices/0/finish_reason"
NATIVE = "/choices/0/native_finish_reason"


def test_one_tool_call_is_an_action() -> None:
    verdict = judge(tool_body()).verdict
    assert verdict == Action(tool="finish", arguments=b'{"claim":"saved"}', tool_call_id="call_1", text="")
    assert verdict.origin is Origin.NATIVE_TOOL
    assert verdict.claim() == "saved"


def test_prose_is_a_text_finish_and_is_kept_as_it_came() -> None:
    verdict = judge(text_body(message={"content": " Everyone was saved.\n"})).verdict
    assert verdict == TextFinish(" Everyone was saved.\n")
    assert verdict.origin is Origin.NORMAL_TEXT


def test_a_prose_refusal_is_a_text_finish() -> None:
    assert judge(text_body(message={"content": "I cannot help."})).verdict == TextFinish("I cannot help.")


def test_a_tool_without_arguments_has_no_claim() -> None:
    verdict = judge(tool_body(a_call(function={"name": "wait", "arguments": "{}"}))).verdict
    assert verdict == Action(tool="wait", arguments=b"{}", tool_call_id="call_1", text="")
    assert verdict.claim() is None


# 1. HTTP status


@pytest.mark.parametrize("status", [100, 199, 300, 302, 400, 401, 404, 429, 500, 503, 0])
def test_a_status_outside_2xx_comes_first(status: int) -> None:
    assert failure(b"not json", http_status=status) == (Reason.HTTP_STATUS, "")
    assert failure(tool_body(), http_status=status) == (Reason.HTTP_STATUS, "")


@pytest.mark.parametrize("status", [200, 201, 299])
def test_every_2xx_is_read(status: int) -> None:
    assert judge(text_body(), http_status=status).verdict == TextFinish("all done")


# 2. Strict JSON object


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", Reason.MALFORMED_JSON),
        (b"upstream timed out", Reason.MALFORMED_JSON),
        (b"[]", Reason.MALFORMED_JSON),
        (b'"text"', Reason.MALFORMED_JSON),
        (b"null", Reason.MALFORMED_JSON),
        (text_body()[:-1], Reason.MALFORMED_JSON),
        (b"data: " + text_body(), Reason.MALFORMED_JSON),
        (text_body().replace(b'"model": "m"', b'"model": "m", "model": "m"'), Reason.DUPLICATE_KEY),
        (text_body().replace(b'"model"', b'"n": 1e999, "model"'), Reason.LIMIT_EXCEEDED),
    ],
)
def test_the_body_is_one_strict_json_object(body: bytes, reason: Reason) -> None:
    assert failure(body) == (reason, "")


def test_limits_can_be_lowered() -> None:
    assert failure(text_body(), limits=Limits(body_bytes=20)) == (Reason.LIMIT_EXCEEDED, "")
    assert failure(text_body(), limits=Limits(depth=2)) == (Reason.LIMIT_EXCEEDED, "")


# 3. In-band errors


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (b'{"error": {"message": "x", "code": 429}}', "/error"),
        (b'{"error": "overloaded"}', "/error"),
        (text_body(error={}), "/error"),
        (text_body(error=""), "/error"),
        (text_body(choice={"error": {"code": 502}}), "/choices/0/error"),
        (b'{"choices": [{}, {"error": "x"}]}', "/choices/1/error"),
        (b'{"object": "error", "message": "x"}', "/object"),
        (text_body(model="other", error={"code": 1}), "/error"),
        (text_body(choice={"error": {"code": 1}, "finish_reason": "length"}), "/choices/0/error"),
    ],
)
def test_an_error_inside_a_200_is_the_providers(body: bytes, where: str) -> None:
    assert failure(body) == (Reason.PROVIDER_ERROR, where)


def test_a_null_error_is_none() -> None:
    assert judge(text_body(error=None, choice={"error": None})).verdict == TextFinish("all done")


# 4. Identity

ROUTE = ExpectedIdentity(model="m", aliases=frozenset({"m-2026"}), provider_name="P")


@pytest.mark.parametrize(
    ("body", "reason", "where"),
    [
        (text_body(model=ABSENT), Reason.IDENTITY_MISSING, "/model"),
        (text_body(model=None), Reason.IDENTITY_MISSING, "/model"),
        (text_body(model=""), Reason.IDENTITY_MISSING, "/model"),
        (text_body(model="M"), Reason.IDENTITY_MISMATCH, "/model"),
        (text_body(model="m "), Reason.IDENTITY_MISMATCH, "/model"),
        (text_body(model=7), Reason.IDENTITY_MISMATCH, "/model"),
        (text_body(), Reason.IDENTITY_MISSING, "/provider"),
        (text_body(provider=None), Reason.IDENTITY_MISSING, "/provider"),
        (text_body(provider=""), Reason.IDENTITY_MISSING, "/provider"),
        (text_body(provider="p"), Reason.IDENTITY_MISMATCH, "/provider"),
        (text_body(provider=["P"]), Reason.IDENTITY_MISMATCH, "/provider"),
        (text_body(model="x", choices=[]), Reason.IDENTITY_MISMATCH, "/model"),
    ],
)
def test_the_served_names_are_the_routes(body: bytes, reason: Reason, where: str) -> None:
    assert failure(body, expected=ROUTE) == (reason, where)


@pytest.mark.parametrize("model", ["m", "m-2026"])
def test_a_listed_alias_is_the_model(model: str) -> None:
    admission = judge(text_body(model=model, provider="P"), expected=ROUTE)
    assert admission.verdict == TextFinish("all done")
    assert (admission.served.model, admission.served.provider_name) == (model, "P")


def test_without_an_expected_model_its_presence_is_asked() -> None:
    assert judge(text_body(model="any"), expected=ExpectedIdentity()).verdict == TextFinish("all done")
    assert failure(text_body(model=""), expected=ExpectedIdentity()) == (Reason.IDENTITY_MISSING, "/model")
    assert failure(text_body(model=1), expected=ExpectedIdentity()) == (Reason.IDENTITY_MISMATCH, "/model")


def test_another_json_object_fails_at_the_first_rule() -> None:
    assert failure(b'{"detail": "Not Found"}') == (Reason.IDENTITY_MISSING, "/model")


# 5. One choice, the assistant's


@pytest.mark.parametrize(
    ("choices", "where"),
    [
        (ABSENT, "/choices"),
        (None, "/choices"),
        ([], "/choices"),
        ({}, "/choices"),
        ([{}, {}], "/choices"),
        (["x"], "/choices/0"),
        ([None], "/choices/0"),
    ],
)
def test_there_is_exactly_one_choice(choices: Any, where: str) -> None:
    assert failure(text_body(choices=choices)) == (Reason.INVALID_CHOICES, where)


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (text_body(choice={"message": ABSENT}), MESSAGE),
        (text_body(choice={"message": None}), MESSAGE),
        (text_body(choice={"message": ABSENT, "delta": {"role": "assistant", "content": "x"}}), MESSAGE),
        (text_body(choice={"message": "x"}), MESSAGE),
        (text_body(message={"role": ABSENT}), f"{MESSAGE}/role"),
        (text_body(message={"role": "user"}), f"{MESSAGE}/role"),
        (text_body(message={"role": "Assistant"}), f"{MESSAGE}/role"),
        (text_body(message={"tool_calls": {}}), f"{MESSAGE}/tool_calls"),
        (tool_body(message={"tool_calls": "finish()"}), f"{MESSAGE}/tool_calls"),
        (text_body(message={"content": 5}), f"{MESSAGE}/content"),
        (text_body(message={"content": {"text": "x"}}), f"{MESSAGE}/content"),
        (tool_body(message={"content": False}), f"{MESSAGE}/content"),
        (text_body(message={"content": ["x"]}), f"{MESSAGE}/content/0"),
        (
            text_body(message={"content": [{"type": "text", "text": "x"}, {"type": "reference"}]}),
            f"{MESSAGE}/content/1",
        ),
        (text_body(message={"content": [{"type": "text"}]}), f"{MESSAGE}/content/0"),
        (text_body(message={"content": [{"type": "text", "text": None}]}), f"{MESSAGE}/content/0"),
        (text_body(message={"content": [{"text": "x"}]}), f"{MESSAGE}/content/0"),
        (text_body(message={"content": 5}, choice={"finish_reason": "length"}), f"{MESSAGE}/content"),
        (text_body(message={"refusal": False}), f"{MESSAGE}/refusal"),
        (text_body(message={"refusal": {}}), f"{MESSAGE}/refusal"),
        (text_body(message={"content": None, "refusal": ["no"]}), f"{MESSAGE}/refusal"),
        (tool_body(message={"refusal": 1}), f"{MESSAGE}/refusal"),
    ],
)
def test_the_message_is_the_assistants_and_of_a_known_shape(body: bytes, where: str) -> None:
    assert failure(body) == (Reason.INVALID_MESSAGE, where)


def test_a_list_of_text_and_thinking_parts_is_its_text() -> None:
    content = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hidden"}]},
        {"type": "text", "text": "all "},
        {"type": "text", "text": "done"},
    ]
    assert judge(text_body(message={"content": content})).verdict == TextFinish("all done")
    action = judge(tool_body(message={"content": content})).verdict
    assert isinstance(action, Action)
    assert action.text == "all done"


# 6. Stop reasons


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        (ABSENT, Reason.MISSING_STOP_REASON),
        (None, Reason.MISSING_STOP_REASON),
        ("", Reason.UNRECOGNIZED_STOP_REASON),
        ("Stop", Reason.UNRECOGNIZED_STOP_REASON),
        ("stop ", Reason.UNRECOGNIZED_STOP_REASON),
        ("stop_sequence", Reason.UNRECOGNIZED_STOP_REASON),
        ("end_turn", Reason.UNRECOGNIZED_STOP_REASON),
        ("function_call", Reason.UNRECOGNIZED_STOP_REASON),
        ("error", Reason.UNRECOGNIZED_STOP_REASON),
        ("model_length", Reason.UNRECOGNIZED_STOP_REASON),
        ("insufficient_system_resource", Reason.UNRECOGNIZED_STOP_REASON),
        ("sensitive", Reason.UNRECOGNIZED_STOP_REASON),
        ("network_error", Reason.UNRECOGNIZED_STOP_REASON),
        (0, Reason.UNRECOGNIZED_STOP_REASON),
        (["stop"], Reason.UNRECOGNIZED_STOP_REASON),
        ("length", Reason.TRUNCATED),
        ("content_filter", Reason.FILTERED),
    ],
)
def test_only_the_tables_stop_reasons_are_admitted(finish: Any, reason: Reason) -> None:
    assert failure(text_body(choice={"finish_reason": finish})) == (reason, FINISH)
    assert failure(tool_body(choice={"finish_reason": finish})) == (reason, FINISH)


@pytest.mark.parametrize("native", [ABSENT, None, "stop", "end_turn", "completed", "STOP"])
def test_a_native_reason_of_the_same_kind_confirms_a_text_stop(native: Any) -> None:
    assert judge(text_body(choice={"native_finish_reason": native})).verdict == TextFinish("all done")


@pytest.mark.parametrize("native", ["tool_calls", "tool_use", "completed", "STOP"])
def test_a_native_reason_of_the_same_kind_confirms_a_tool_stop(native: str) -> None:
    assert isinstance(judge(tool_body(choice={"native_finish_reason": native})).verdict, Action)


@pytest.mark.parametrize(
    ("finish", "native", "reason", "where"),
    [
        ("stop", "error", Reason.PROVIDER_ERROR, NATIVE),
        ("stop", "failed", Reason.PROVIDER_ERROR, NATIVE),
        ("stop", "tool_calls", Reason.PROVIDER_ERROR, NATIVE),
        ("tool_calls", "end_turn", Reason.PROVIDER_ERROR, NATIVE),
        ("length", "stop", Reason.PROVIDER_ERROR, NATIVE),
        ("stop", "max_tokens", Reason.TRUNCATED, NATIVE),
        ("tool_calls", "MAX_TOKENS", Reason.TRUNCATED, NATIVE),
        ("stop", "model_context_window_exceeded", Reason.TRUNCATED, NATIVE),
        ("stop", "SAFETY", Reason.FILTERED, NATIVE),
        ("stop", "refusal", Reason.FILTERED, NATIVE),
        ("length", "SAFETY", Reason.FILTERED, NATIVE),
        ("stop", "pause_turn", Reason.CONTINUATION_REQUIRED, NATIVE),
        ("stop", "in_progress", Reason.CONTINUATION_REQUIRED, NATIVE),
        ("stop", "stop_sequence", Reason.UNRECOGNIZED_STOP_REASON, NATIVE),
        ("stop", "", Reason.UNRECOGNIZED_STOP_REASON, NATIVE),
        ("stop", 1, Reason.UNRECOGNIZED_STOP_REASON, NATIVE),
        ("length", "max_tokens", Reason.TRUNCATED, FINISH),
        (None, "stop", Reason.MISSING_STOP_REASON, FINISH),
        ("nope", "error", Reason.UNRECOGNIZED_STOP_REASON, FINISH),
    ],
)
def test_a_gateway_is_believed_only_with_its_native_reason(
    finish: str | None, native: Any, reason: Reason, where: str
) -> None:
    body = text_body(choice={"finish_reason": finish, "native_finish_reason": native})
    assert failure(body) == (reason, where)


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (text_body(message={"executed_tools": [{"type": "python"}]}), f"{MESSAGE}/executed_tools"),
        (tool_body(message={"executed_tools": [{"type": "python"}]}), f"{MESSAGE}/executed_tools"),
        (text_body(message={"annotations": [{"type": "file"}, {"type": "url_citation"}]}), f"{MESSAGE}/annotations/1"),
        (
            text_body(usage={"server_tool_use_details": {"tool_calls_executed": 1}}),
            "/usage/server_tool_use_details/tool_calls_executed",
        ),
        (
            text_body(usage={"server_tool_use": {"web_search_requests": 2}}),
            "/usage/server_tool_use/web_search_requests",
        ),
        (text_body(usage={"server_tool_use": {"web_fetch_requests": 1}}), "/usage/server_tool_use"),
        (text_body(usage={"server_tool_use_details": {"other": "1"}}), "/usage/server_tool_use_details"),
    ],
)
def test_a_tool_that_the_provider_ran_is_an_external_action(body: bytes, where: str) -> None:
    assert failure(body) == (Reason.SERVER_TOOL_USED, where)


def test_empty_traces_of_server_tools_are_none() -> None:
    body = text_body(
        message={"executed_tools": [], "annotations": [{"type": "file"}]},
        usage={
            "server_tool_use_details": {"tool_calls_executed": 0, "tool_calls_requested": 1, "other": None},
            "server_tool_use": None,
        },
    )
    assert judge(body).verdict == TextFinish("all done")


# 7. Text stops


@pytest.mark.parametrize("call", [a_call(), {}, None, a_call(type="custom")])
def test_a_tool_call_under_a_text_stop_is_ambiguous(call: Any) -> None:
    body = text_body(message={"tool_calls": [call]})
    assert failure(body) == (Reason.AMBIGUOUS_TERMINATION, f"{MESSAGE}/tool_calls")


@pytest.mark.parametrize("calls", [None, []])
def test_an_empty_list_of_calls_is_none(calls: Any) -> None:
    assert judge(text_body(message={"tool_calls": calls})).verdict == TextFinish("all done")


@pytest.mark.parametrize(
    "content", [ABSENT, None, "", " \n\t\u00a0", [], [{"type": "thinking"}], [{"type": "text", "text": " "}]]
)
def test_a_text_stop_without_text_is_empty(content: Any) -> None:
    body = text_body(message={"content": content, "reasoning": "I am done"})
    assert failure(body) == (Reason.EMPTY_TEXT, f"{MESSAGE}/content")


@pytest.mark.parametrize("content", [ABSENT, None, "", []])
def test_a_refusal_without_text_is_structured(content: Any) -> None:
    body = text_body(message={"content": content, "refusal": "I can't."})
    assert failure(body) == (Reason.STRUCTURED_REFUSAL, f"{MESSAGE}/refusal")


def test_a_refusal_beside_text_is_a_text_finish() -> None:
    assert judge(text_body(message={"refusal": "I can't."})).verdict == TextFinish("all done")


@pytest.mark.parametrize("refusal", [None, "", " "])
def test_an_empty_refusal_is_a_placeholder(refusal: Any) -> None:
    assert judge(text_body(message={"refusal": refusal})).verdict == TextFinish("all done")
    assert failure(text_body(message={"content": None, "refusal": refusal}))[0] is Reason.EMPTY_TEXT


EMPTY_LEGACY = [None, {}, {"name": "", "arguments": ""}, {"name": None}]
REAL_LEGACY = [{"name": "finish"}, {"arguments": "{}"}, {"name": "", "arguments": "{}"}, "finish", []]


@pytest.mark.parametrize("legacy", EMPTY_LEGACY)
def test_an_empty_legacy_call_counts_as_absent(legacy: Any) -> None:
    assert judge(text_body(message={"function_call": legacy})).verdict == TextFinish("all done")
    assert isinstance(judge(tool_body(message={"function_call": legacy})).verdict, Action)


@pytest.mark.parametrize("legacy", REAL_LEGACY)
def test_a_real_legacy_call_is_never_run(legacy: Any) -> None:
    where = f"{MESSAGE}/function_call"
    assert failure(text_body(message={"function_call": legacy})) == (Reason.AMBIGUOUS_TERMINATION, where)
    assert failure(tool_body(message={"function_call": legacy})) == (Reason.INVALID_TOOL_CALL, where)
    alone = tool_body(message={"function_call": legacy, "tool_calls": None})
    assert failure(alone) == (Reason.INVALID_TOOL_CALL, where)


# 8. Tool stops


@pytest.mark.parametrize("calls", [ABSENT, None, []])
def test_a_tool_stop_without_a_call_is_ambiguous(calls: Any) -> None:
    body = tool_body(message={"tool_calls": calls, "content": "I will wait"})
    assert failure(body) == (Reason.AMBIGUOUS_TERMINATION, f"{MESSAGE}/tool_calls")


@pytest.mark.parametrize("second", [a_call(id="call_2"), a_call(), None])
def test_two_calls_are_too_many(second: Any) -> None:
    assert failure(tool_body(a_call(), second)) == (Reason.MULTIPLE_TOOL_CALLS, f"{MESSAGE}/tool_calls")


@pytest.mark.parametrize(
    ("call", "where"),
    [
        (None, CALL),
        ("finish", CALL),
        (a_call(type=None), f"{CALL}/type"),
        (a_call(type=""), f"{CALL}/type"),
        (a_call(type="custom"), f"{CALL}/type"),
        (a_call(type="web_search"), f"{CALL}/type"),
        (a_call(id=ABSENT), f"{CALL}/id"),
        (a_call(id=None), f"{CALL}/id"),
        (a_call(id=""), f"{CALL}/id"),
        (a_call(id=1), f"{CALL}/id"),
        ({"id": "c", "type": "function"}, f"{CALL}/function"),
        ({"id": "c", "type": "function", "function": "finish"}, f"{CALL}/function"),
        ({"id": "c", "name": "finish", "arguments": "{}"}, f"{CALL}/function"),
    ],
)
def test_a_call_is_a_function_call_with_an_id(call: Any, where: str) -> None:
    assert failure(tool_body(call)) == (Reason.INVALID_TOOL_CALL, where)


def test_the_type_of_a_call_may_be_absent() -> None:
    assert isinstance(judge(tool_body(a_call(type=ABSENT))).verdict, Action)


def test_an_id_is_used_once_in_an_episode_byte_for_byte() -> None:
    body = tool_body(a_call(id="functions.wait:0"))
    seen = frozenset({"functions.wait:0"})
    assert failure(body, seen_tool_call_ids=seen) == (Reason.DUPLICATE_TOOL_CALL_ID, f"{CALL}/id")
    action = judge(body, seen_tool_call_ids=frozenset({"functions.wait:1", "functions.wait:0 "})).verdict
    assert isinstance(action, Action)
    assert action.tool_call_id == "functions.wait:0"


def test_what_is_no_function_call_is_found_before_its_id_is_compared() -> None:
    body = tool_body({"id": "c", "type": "function", "function": None})
    assert failure(body, seen_tool_call_ids=frozenset({"c"})) == (Reason.INVALID_TOOL_CALL, f"{CALL}/function")


@pytest.mark.parametrize("name", ["Finish", "finish ", "rm", "", None, ABSENT, 3, ["finish"]])
def test_only_an_offered_name_is_run(name: Any) -> None:
    body = tool_body(a_call(function={"name": name}))
    assert failure(body) == (Reason.UNKNOWN_TOOL, f"{CALL}/function/name")


def test_a_tool_offered_no_longer_is_unknown() -> None:
    assert failure(tool_body(), tools=(WAIT,))[0] is Reason.UNKNOWN_TOOL
    assert failure(tool_body(), tools=())[0] is Reason.UNKNOWN_TOOL


@pytest.mark.parametrize(
    "arguments",
    [
        ABSENT,
        None,
        "",
        " ",
        {"claim": "saved"},
        "saved",
        "null",
        "[]",
        '"{}"',
        '{"claim":"saved"',
        '{"claim":"saved"} ',
        '{"claim":"saved"}{}',
        '{"claim":"saved","claim":"saved"}',
        '{"claim":NaN}',
        '{"claim":1e400}',
        '{"claim":"\\ud800"}',
        "{'claim':'saved'}",
        '\ufeff{"claim":"saved"}',
        "```json\n{}\n```",
        '{"claim":' + "[" * 64 + "]" * 64 + "}",
    ],
)
def test_arguments_are_a_strict_json_object(arguments: Any) -> None:
    body = tool_body(a_call(function={"arguments": arguments}))
    if arguments == '{"claim":"saved"} ':
        assert isinstance(judge(body).verdict, Action)
    else:
        assert failure(body) == (Reason.MALFORMED_ARGUMENTS, f"{CALL}/function/arguments")


@pytest.mark.parametrize(
    "arguments",
    ["{}", '{"claim":"Saved"}', '{"claim":null}', '{"claim":["saved"]}', '{"claim":"saved","why":"x"}', '{"":"saved"}'],
)
def test_arguments_satisfy_the_schema_with_no_extra_fields(arguments: str) -> None:
    body = tool_body(a_call(function={"arguments": arguments}))
    assert failure(body) == (Reason.INVALID_ARGUMENTS, f"{CALL}/function/arguments")


def test_arguments_become_canonical() -> None:
    tool = CLAIM.of("t", {"properties": {"b": {}, "a": {}}})
    arguments = ' { "b" : "\\u00e9\\/", "a" : [ 1.50, -0, 10583536942961263000 ] } '
    body = tool_body(a_call(function={"name": "t", "arguments": arguments}))
    action = judge(body, tools=(tool,)).verdict
    assert isinstance(action, Action)
    assert action.arguments == '{"a":[1.5,0,10583536942961263000],"b":"é/"}'.encode()


def test_text_beside_a_call_is_kept() -> None:
    action = judge(tool_body(message={"content": " Let me finish. "})).verdict
    assert isinstance(action, Action)
    assert action.text == " Let me finish. "


# 9. The output cap


@pytest.mark.parametrize("body_of", [text_body, tool_body])
def test_usage_at_the_output_cap_is_truncated(body_of: Any) -> None:
    body = body_of(usage={"completion_tokens": 100})
    where = "/usage/completion_tokens"
    assert failure(body, output_cap=100) == (Reason.TRUNCATED, where)
    assert failure(body, output_cap=99) == (Reason.TRUNCATED, where)
    assert not hasattr(judge(body, output_cap=101).verdict, "reason")
    assert not hasattr(judge(body, output_cap=None).verdict, "reason")
    assert not hasattr(judge(body_of(), output_cap=1).verdict, "reason")
    for odd in (100.0, 100.5, 2**70):
        assert failure(body_of(usage={"completion_tokens": odd}), output_cap=100) == (Reason.TRUNCATED, where)
    for none in (True, "100", None, -1, 99.9):
        assert not hasattr(judge(body_of(usage={"completion_tokens": none}), output_cap=100).verdict, "reason")


def test_an_earlier_failure_outranks_the_cap() -> None:
    body = tool_body(a_call(id=""), usage={"completion_tokens": 100})
    assert failure(body, output_cap=100)[0] is Reason.INVALID_TOOL_CALL


# Dialects

STOPPED_CALL = tool_body(choice={"finish_reason": "stop"})


def test_tool_calls_with_stop_are_admitted_only_where_the_route_allows_it() -> None:
    allowed = frozenset({Allowance.TOOL_CALLS_WITH_STOP})
    assert failure(STOPPED_CALL)[0] is Reason.AMBIGUOUS_TERMINATION
    assert isinstance(judge(STOPPED_CALL, allowances=allowed).verdict, Action)
    assert judge(text_body(), allowances=allowed).verdict == TextFinish("all done")
    two = tool_body(a_call(), a_call(id="call_2"), choice={"finish_reason": "stop"})
    assert failure(two, allowances=allowed)[0] is Reason.MULTIPLE_TOOL_CALLS
    contradicted = tool_body(choice={"finish_reason": "stop", "native_finish_reason": "tool_calls"})
    assert failure(contradicted, allowances=allowed)[0] is Reason.PROVIDER_ERROR
