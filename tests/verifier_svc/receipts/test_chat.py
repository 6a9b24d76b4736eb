"""Each rule of design/admission.md for chat completions, in its order."""

import json
from typing import Any

import pytest

from tests.verifier_svc.receipts.responses import TOOLS, having, text_response, tool_call, tool_response, without
from verifier_svc.receipts.decode import decode
from verifier_svc.receipts.strict import Limits
from verifier_svc.receipts.verdicts import (
    Action,
    Allowance,
    Decoded,
    Reason,
    TechnicalUnknown,
    TextFinish,
    Usage,
    Verdict,
)
from verifier_svc.receipts.wire import Answer, Expectation, WireFormat

MESSAGE = ("choices", 0, "message")
LENIENT = Expectation(allowances=frozenset((Allowance.TOOL_CALLS_WITH_STOP,)))


def decode_chat(
    body: bytes, status: int = 200, seen: tuple[str, ...] = (), expectation: Expectation | None = None
) -> Decoded:
    return decode(Answer(WireFormat.CHAT_COMPLETIONS, body, status), TOOLS, seen, expectation)


def judge(
    response: Any, expectation: Expectation | None = None, status: int = 200, seen: tuple[str, ...] = ()
) -> Verdict:
    body = response if isinstance(response, bytes) else json.dumps(response).encode()
    return decode_chat(body, status, seen, expectation).verdict


def unknown(response: Any, expectation: Expectation | None = None, **more: Any) -> tuple[Reason, str]:
    verdict = judge(response, expectation, **more)
    assert isinstance(verdict, TechnicalUnknown)
    return verdict.reason, verdict.where


def reason(response: Any, expectation: Expectation | None = None, **more: Any) -> Reason:
    return unknown(response, expectation, **more)[0]


def test_a_text_and_a_call_are_admitted() -> None:
    assert judge(text_response("  Everyone was saved. ")) == TextFinish("  Everyone was saved. ")
    assert judge(tool_response(tool_call())) == Action("wait", {}, "call_1")
    finish = tool_call("finish", '{"claim":"saved"}')
    assert judge(tool_response(finish, content="I think so.")) == Action("finish", {"claim": "saved"}, "call_1")


@pytest.mark.parametrize("status", [100, 199, 300, 404, 429, 500])
def test_1_a_status_other_than_2xx(status: int) -> None:
    assert reason(text_response(), status=status) is Reason.HTTP_STATUS
    assert reason(b"not json", status=status) is Reason.HTTP_STATUS


def test_1_any_2xx_is_read() -> None:
    assert isinstance(judge(text_response(), status=299), TextFinish)


@pytest.mark.parametrize("body", [b"plain text", b"[]", b'"text"', b"null", b"", b"\xef\xbb\xbf{}"])
def test_2_a_body_that_is_no_strict_object(body: bytes) -> None:
    assert reason(body) is Reason.MALFORMED_JSON


def test_2_duplicate_keys_and_limits() -> None:
    assert unknown(b'{"model":"m","usage":{"a":1,"a":2}}') == (Reason.DUPLICATE_KEY, "/usage/a")
    assert reason(text_response(), Expectation(limits=Limits(max_bytes=10))) is Reason.LIMIT_EXCEEDED
    assert reason(text_response(), Expectation(limits=Limits(max_depth=3))) is Reason.LIMIT_EXCEEDED


def test_3_an_error_inside_a_200() -> None:
    assert unknown({**text_response(), "error": {"message": "overloaded"}}) == (Reason.PROVIDER_ERROR, "/error")
    assert reason({"error": {}}) is Reason.PROVIDER_ERROR
    assert unknown({"object": "error", "message": "overloaded"}) == (Reason.PROVIDER_ERROR, "/object")
    assert unknown(having(text_response(), "choices", 0, "error", {"code": 502})) == (
        Reason.PROVIDER_ERROR,
        "/choices/0/error",
    )
    assert isinstance(judge({**text_response(), "error": None}), TextFinish)


def test_4_identity() -> None:
    asked = Expectation(model="m-1", model_aliases=frozenset(("m-1-2024",)))
    assert isinstance(judge(text_response(), asked), TextFinish)
    assert isinstance(judge({**text_response(), "model": "m-1-2024"}, asked), TextFinish)
    assert unknown({**text_response(), "model": "M-1"}, asked) == (Reason.IDENTITY_MISMATCH, "/model")
    for absent in (
        without(text_response(), "model"),
        {**text_response(), "model": ""},
        {**text_response(), "model": None},
    ):
        assert unknown(absent, asked) == (Reason.IDENTITY_MISSING, "/model")
        assert reason(absent) is Reason.IDENTITY_MISSING
    assert reason({**text_response(), "model": 7}) is Reason.IDENTITY_MISMATCH
    assert isinstance(judge({**text_response(), "model": "anything"}), TextFinish)


def test_4_the_provider_where_the_route_names_one() -> None:
    asked = Expectation(provider_name="Acme")
    assert unknown(text_response(), asked) == (Reason.IDENTITY_MISSING, "/provider")
    assert unknown({**text_response(), "provider": "Other"}, asked) == (Reason.IDENTITY_MISMATCH, "/provider")
    assert isinstance(judge({**text_response(), "provider": "Acme"}, asked), TextFinish)
    assert isinstance(judge({**text_response(), "provider": "Other"}), TextFinish)


@pytest.mark.parametrize("choices", [None, [], {}, "x", [{}, {}]])
def test_5_not_exactly_one_choice(choices: Any) -> None:
    assert unknown({**text_response(), "choices": choices}) == (Reason.INVALID_CHOICES, "/choices")


@pytest.mark.parametrize("choice", [1, None, []])
def test_5_one_choice_that_is_none(choice: Any) -> None:
    assert unknown({**text_response(), "choices": [choice]}) == (Reason.INVALID_CHOICES, "/choices/0")


def test_5_the_form_of_the_message_comes_before_its_stop() -> None:
    for odd, member in (({}, "tool_calls"), (5, "content"), (["x"], "content")):
        response = text_response(finish_reason="length", **{member: odd})
        assert reason(response) is Reason.INVALID_MESSAGE
    assert reason(tool_response(tool_call(), tool_call(), content=5)) is Reason.INVALID_MESSAGE
    assert reason(tool_response(tool_call(), tool_call(), refusal=5)) is Reason.INVALID_MESSAGE
    assert reason(text_response(tool_calls=[tool_call()], refusal=5)) is Reason.AMBIGUOUS_TERMINATION


def test_5_another_object_and_no_message_of_the_assistant() -> None:
    assert reason({"method": "POST"}) is Reason.IDENTITY_MISSING
    assert reason(without(text_response(), "choices")) is Reason.INVALID_CHOICES
    assert reason(without(text_response(), *MESSAGE)) is Reason.INVALID_MESSAGE
    assert reason(having(text_response(), *MESSAGE, "Done.")) is Reason.INVALID_MESSAGE
    assert reason(text_response(role="user")) is Reason.INVALID_MESSAGE
    assert reason(without(text_response(), *MESSAGE, "role")) is Reason.INVALID_MESSAGE


@pytest.mark.parametrize(
    ("finish_reason", "expected"),
    [
        (None, Reason.MISSING_STOP_REASON),
        ("", Reason.UNRECOGNIZED_STOP_REASON),
        ("STOP", Reason.UNRECOGNIZED_STOP_REASON),
        ("end_turn", Reason.UNRECOGNIZED_STOP_REASON),
        ("stop_sequence", Reason.UNRECOGNIZED_STOP_REASON),
        ("model_length", Reason.UNRECOGNIZED_STOP_REASON),
        ("function_call", Reason.UNRECOGNIZED_STOP_REASON),
        ("insufficient_system_resource", Reason.UNRECOGNIZED_STOP_REASON),
        (["stop"], Reason.UNRECOGNIZED_STOP_REASON),
        (1, Reason.UNRECOGNIZED_STOP_REASON),
        ("length", Reason.TRUNCATED),
        ("content_filter", Reason.FILTERED),
    ],
)
def test_6_the_closed_table_of_stop_reasons(finish_reason: Any, expected: Reason) -> None:
    assert unknown(text_response(finish_reason=finish_reason)) == (expected, "/choices/0/finish_reason")


def test_6_an_absent_reason_is_missing() -> None:
    assert reason(without(text_response(), "choices", 0, "finish_reason")) is Reason.MISSING_STOP_REASON


@pytest.mark.parametrize(
    ("normalised", "native", "expected"),
    [
        ("stop", "error", Reason.PROVIDER_ERROR),
        ("stop", "failed", Reason.PROVIDER_ERROR),
        ("tool_calls", "cancelled", Reason.PROVIDER_ERROR),
        ("stop", "MAX_TOKENS", Reason.TRUNCATED),
        ("stop", "max_tokens", Reason.TRUNCATED),
        ("stop", "SAFETY", Reason.FILTERED),
        ("stop", "refusal", Reason.FILTERED),
        ("stop", "pause_turn", Reason.CONTINUATION_REQUIRED),
        ("stop", "in_progress", Reason.CONTINUATION_REQUIRED),
        ("stop", "tool_use", Reason.PROVIDER_ERROR),
        ("tool_calls", "stop", Reason.PROVIDER_ERROR),
        ("tool_calls", "error", Reason.PROVIDER_ERROR),
        ("length", "error", Reason.PROVIDER_ERROR),
        ("length", "max_tokens", Reason.TRUNCATED),
        ("length", "stop", Reason.PROVIDER_ERROR),
        ("stop", "stop_sequence", Reason.UNRECOGNIZED_STOP_REASON),
        ("stop", "", Reason.UNRECOGNIZED_STOP_REASON),
        ("stop", 1, Reason.UNRECOGNIZED_STOP_REASON),
    ],
)
def test_6_a_gateways_reason_beside_another_native_one(normalised: str, native: Any, expected: Reason) -> None:
    response = text_response() if normalised != "tool_calls" else tool_response(tool_call())
    response = having(response, "choices", 0, "finish_reason", normalised)
    assert reason(having(response, "choices", 0, "native_finish_reason", native)) is expected


@pytest.mark.parametrize("native", [None, "stop", "end_turn", "completed", "STOP"])
def test_6_a_native_reason_that_agrees(native: str | None) -> None:
    assert isinstance(judge(having(text_response(), "choices", 0, "native_finish_reason", native)), TextFinish)


@pytest.mark.parametrize("native", [None, "tool_calls", "tool_use", "completed", "STOP"])
def test_6_a_native_tool_reason_that_agrees(native: str | None) -> None:
    response = having(tool_response(tool_call()), "choices", 0, "native_finish_reason", native)
    assert isinstance(judge(response), Action)


def test_a_provider_that_ran_a_tool_itself() -> None:
    assert reason(text_response(executed_tools=[{"type": "search"}])) is Reason.SERVER_TOOL_USED
    assert reason(text_response(annotations=[{"type": "file"}, {"type": "url_citation"}])) is Reason.SERVER_TOOL_USED
    billed = having(text_response(), "usage", "server_tool_use", {"web_search_requests": 1})
    assert unknown(billed) == (Reason.SERVER_TOOL_USED, "/usage/server_tool_use/web_search_requests")
    details = {"z": 1, "web_search_requests": 1, "tool_calls_executed": 1}
    named = having(text_response(), "usage", "server_tool_use_details", details)
    assert unknown(named) == (Reason.SERVER_TOOL_USED, "/usage/server_tool_use_details/tool_calls_executed")
    other = having(text_response(), "usage", "server_tool_use", {"web_fetch_requests": 1})
    assert unknown(other) == (Reason.SERVER_TOOL_USED, "/usage/server_tool_use")
    idle = {"tool_calls_executed": 0, "tool_calls_requested": 2, "x": None}
    assert isinstance(judge(having(text_response(), "usage", "server_tool_use_details", idle)), TextFinish)
    assert isinstance(judge(text_response(annotations=[], executed_tools=[])), TextFinish)
    odd: Any
    for odd in ({}, "", 0, False):
        assert reason(text_response(executed_tools=odd)) is Reason.SERVER_TOOL_USED
    assert isinstance(judge(text_response(annotations=[{"type": "file"}])), TextFinish)


def test_7_a_text_stop_with_a_call_is_ambiguous() -> None:
    response = text_response(tool_calls=[tool_call()])
    assert unknown(response) == (Reason.AMBIGUOUS_TERMINATION, "/choices/0/message/tool_calls")
    legacy = {"name": "wait", "arguments": "{}"}
    assert reason(text_response(function_call=legacy)) is Reason.AMBIGUOUS_TERMINATION
    for placeholder in (None, {}, {"name": "", "arguments": ""}, {"name": None}):
        assert isinstance(judge(text_response(function_call=placeholder, tool_calls=[])), TextFinish)
    assert reason(text_response(tool_calls={})) is Reason.INVALID_MESSAGE


@pytest.mark.parametrize("content", [None, "", " \n\t ", [], [{"type": "thinking", "thinking": []}]])
def test_7_a_text_stop_without_text(content: Any) -> None:
    assert unknown(text_response(content)) == (Reason.EMPTY_TEXT, "/choices/0/message/content")
    assert reason(without(text_response(), *MESSAGE, "content")) is Reason.EMPTY_TEXT


def test_7_refusals() -> None:
    assert reason(text_response(None, refusal="I cannot.")) is Reason.STRUCTURED_REFUSAL
    assert reason(text_response("", refusal="I cannot.")) is Reason.STRUCTURED_REFUSAL
    assert judge(text_response("I would rather not.", refusal="I cannot.")) == TextFinish("I would rather not.")
    assert reason(text_response(None, refusal="")) is Reason.EMPTY_TEXT
    odd: Any
    for odd in (False, {}, [], 0):
        assert reason(text_response(refusal=odd)) is Reason.INVALID_MESSAGE


def test_content_as_a_list_of_parts() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}], "closed": True}
    parts = [thinking, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert judge(text_response(parts)) == TextFinish("ab")
    for odd in ({"type": "image_url"}, {"type": "text"}, {"text": "a"}, "a", None):
        assert unknown(text_response([*parts, odd])) == (Reason.INVALID_MESSAGE, "/choices/0/message/content/3")
    assert reason(text_response({"text": "a"})) is Reason.INVALID_MESSAGE
    assert reason(tool_response(tool_call(), content=[{"type": "image_url"}])) is Reason.INVALID_MESSAGE


def test_8_exactly_one_call() -> None:
    assert reason(tool_response(tool_call(), tool_call(call_id="call_2"))) is Reason.MULTIPLE_TOOL_CALLS
    assert reason(tool_response()) is Reason.AMBIGUOUS_TERMINATION
    assert reason(text_response("Done.", "tool_calls")) is Reason.AMBIGUOUS_TERMINATION
    assert reason(text_response("Done.", "tool_calls", tool_calls=None)) is Reason.AMBIGUOUS_TERMINATION
    legacy = {"name": "wait", "arguments": "{}"}
    assert reason(tool_response(function_call=legacy)) is Reason.INVALID_TOOL_CALL
    assert reason(tool_response(tool_call(), function_call=legacy)) is Reason.INVALID_TOOL_CALL
    assert isinstance(judge(tool_response(tool_call(), function_call={"name": "", "arguments": ""})), Action)


@pytest.mark.parametrize(
    ("call", "where"),
    [
        ("wait", ""),
        (tool_call(call_id=""), "/id"),
        (tool_call(call_id=None), "/id"),
        (tool_call(call_id=7), "/id"),
        (without(tool_call(), "id"), "/id"),
        (having(tool_call(), "type", "custom"), "/type"),
        (having(tool_call(), "type", None), "/type"),
        (without(tool_call(), "function"), "/function"),
        (having(tool_call(), "function", None), "/function"),
    ],
)
def test_8_a_call_that_is_not_well_formed(call: Any, where: str) -> None:
    assert unknown(tool_response(call)) == (Reason.INVALID_TOOL_CALL, f"/choices/0/message/tool_calls/0{where}")


def test_8_an_absent_type_is_allowed() -> None:
    assert judge(tool_response(without(tool_call(index=0), "type"))) == Action("wait", {}, "call_1")


def test_8_ids_names_and_arguments_in_this_order() -> None:
    assert reason(tool_response(tool_call("fly", "{")), seen=("call_1",)) is Reason.DUPLICATE_TOOL_CALL_ID
    assert reason(tool_response(tool_call("fly", "{"))) is Reason.UNKNOWN_TOOL
    assert reason(tool_response(tool_call("Wait"))) is Reason.UNKNOWN_TOOL
    assert reason(tool_response(without(tool_call(), "function")), seen=("call_1",)) is Reason.INVALID_TOOL_CALL
    odd: Any
    for odd in (None, 3, ["wait"], {}):
        assert unknown(tool_response(having(tool_call(), "function", "name", odd))) == (
            Reason.UNKNOWN_TOOL,
            "/choices/0/message/tool_calls/0/function/name",
        )
    assert isinstance(judge(tool_response(tool_call()), seen=("call_0",)), Action)


@pytest.mark.parametrize(
    "text", [None, "", " ", "{", "[]", "null", '"{}"', '{"a":1,"a":1}', "{}{}", '{"a":NaN}', {}, "\ud800"]
)
def test_8_arguments_that_are_no_strict_object(text: Any) -> None:
    place = "/choices/0/message/tool_calls/0/function/arguments"
    if text == "\ud800":
        assert reason(tool_response(tool_call(arguments=text))) is Reason.MALFORMED_JSON
        return
    assert unknown(tool_response(tool_call(arguments=text))) == (Reason.MALFORMED_ARGUMENTS, place)


def test_8_missing_arguments_are_malformed() -> None:
    call = without(tool_call(), "function", "arguments")
    assert reason(tool_response(call)) is Reason.MALFORMED_ARGUMENTS


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        ("wait", '{"ticks":1}'),
        ("finish", "{}"),
        ("finish", '{"claim":"won"}'),
        ("finish", '{"claim":null}'),
        ("finish", '{"claim":"saved","why":"x"}'),
    ],
)
def test_8_arguments_that_do_not_fit(tool: str, text: str) -> None:
    assert reason(tool_response(tool_call(tool, text))) is Reason.INVALID_ARGUMENTS


def test_9_the_output_cap_was_reached_though_the_reason_says_otherwise() -> None:
    for response in (text_response(), tool_response(tool_call())):
        assert unknown(response, Expectation(output_cap=5)) == (Reason.TRUNCATED, "/usage/completion_tokens")
        assert not isinstance(judge(response, Expectation(output_cap=6)), TechnicalUnknown)
    assert isinstance(judge(without(text_response(), "usage"), Expectation(output_cap=1)), TextFinish)
    for odd, cut in ((512.0, True), (2**70, True), (511.9, False), (True, False), ("512", False), (-1, False)):
        spent = having(text_response(), "usage", "completion_tokens", odd)
        assert isinstance(judge(spent, Expectation(output_cap=512)), TechnicalUnknown) is cut


def test_an_earlier_check_wins() -> None:
    assert reason({"error": {"m": 1}, "model": "other"}, Expectation(model="m-1")) is Reason.PROVIDER_ERROR
    assert reason({"model": "other", "choices": []}, Expectation(model="m-1")) is Reason.IDENTITY_MISMATCH
    assert reason(text_response("", "length"), Expectation(output_cap=1)) is Reason.TRUNCATED
    assert reason(text_response(""), Expectation(output_cap=1)) is Reason.EMPTY_TEXT


def test_calls_with_the_reason_stop_where_a_route_allows_them() -> None:
    response = text_response(None, tool_calls=[tool_call()])
    assert judge(response, LENIENT) == Action("wait", {}, "call_1")
    assert reason(response) is Reason.AMBIGUOUS_TERMINATION
    assert judge(text_response(), LENIENT) == TextFinish("Done.")
    two = text_response(None, tool_calls=[tool_call(), tool_call(call_id="call_2")])
    assert reason(two, LENIENT) is Reason.MULTIPLE_TOOL_CALLS


def test_what_goes_with_a_verdict() -> None:
    body = (
        b'{"provider":"Acme","model":"m-1","choices":[{"message": {"role":"assistant","content":"Hi", "x":[ 1.0 ]} ,'
        b'"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"cost":1.20e-05}}'
    )
    decoded = decode_chat(body)
    assert decoded.verdict == TextFinish("Hi")
    assert (decoded.model, decoded.provider, decoded.usage) == ("m-1", "Acme", Usage(3, 2))
    assert decoded.reported_cost == "1.20e-05"
    assert decoded.continuation == b'{"role":"assistant","content":"Hi", "x":[ 1.0 ]}'


@pytest.mark.parametrize("cost", ["0.1", None, True, {}, []])
def test_a_cost_that_is_no_number_is_not_reported(cost: Any) -> None:
    body = json.dumps(having(text_response(), "usage", "cost", cost)).encode()
    assert decode_chat(body).reported_cost is None


@pytest.mark.parametrize(("own_key", "cost"), [(None, "0.5"), (False, "0.5"), (True, None), ("no", None)])
def test_a_gateways_fee_beside_another_bill_is_not_the_cost(own_key: Any, cost: str | None) -> None:
    response = having(text_response(), "usage", "cost", 0.5)
    body = json.dumps(having(response, "usage", "is_byok", own_key)).encode()
    assert decode_chat(body).reported_cost == cost


def test_a_cost_that_is_longer_than_any_amount_is_not_reported() -> None:
    for digits, reported in ((62, True), (63, False)):
        body = json.dumps(text_response()).replace('"total_tokens"', f'"cost": 0.{"1" * digits}, "total_tokens"')
        assert (decode_chat(body.encode()).reported_cost is not None) is reported


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 2**63, "completion_tokens": 1}, Usage(None, 1, is_consistent=False)),
        ({"prompt_tokens": True, "completion_tokens": -1}, Usage(is_consistent=False)),
        ({"prompt_tokens": 9, "prompt_cache_hit_tokens": 4}, Usage(9, cache_read=4)),
        ({"prompt_tokens": 9, "num_cached_tokens": None, "cached_tokens": 3}, Usage(9, cache_read=3)),
        ({"prompt_tokens": 1}, Usage(1)),
        ({}, Usage()),
        (None, None),
        (7, None),
    ],
)
def test_a_count_that_is_not_whole_is_absent(usage: Any, expected: Usage | None) -> None:
    decoded = decode_chat(json.dumps({**text_response(), "usage": usage}).encode())
    assert decoded.usage == expected
    assert isinstance(decoded.verdict, TextFinish)
