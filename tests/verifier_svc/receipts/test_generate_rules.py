"""Each rule of design/admission.md for generate_content, steps 3 to 9."""

from typing import Any

import pytest

from tests.verifier_svc.receipts import bodies
from tests.verifier_svc.receipts.bodies import called, generated
from tests.verifier_svc.receipts.responses import having, without
from verifier_svc.receipts.verdicts import Action, Reason, TextFinish, Verdict
from verifier_svc.receipts.wire import Expectation, WireFormat

CANDIDATE = "/candidates/0"
CONTENT = ("candidates", 0, "content")
PARTS = "/candidates/0/content/parts"
THOUGHT = {"text": "hm", "thought": True}


def judge(body: Any, expectation: Expectation | None = None, **more: Any) -> Verdict:
    return bodies.judge(WireFormat.GENERATE_CONTENT, body, expectation, **more)


def unknown(body: Any, expectation: Expectation | None = None) -> tuple[Reason, str]:
    return bodies.unknown(WireFormat.GENERATE_CONTENT, body, expectation)


def test_a_blocked_prompt_has_no_candidate_to_count() -> None:
    blocked = {"modelVersion": "m-1", "promptFeedback": {"blockReason": "SAFETY"}}
    assert unknown(blocked) == (Reason.FILTERED, "/promptFeedback/blockReason")
    assert unknown({**generated(), "promptFeedback": {"blockReason": "OTHER"}})[0] is Reason.FILTERED
    assert judge({**generated(), "promptFeedback": {"safetyRatings": []}}) == TextFinish("Done.")


@pytest.mark.parametrize("candidates", [None, [], {}, "x", [{}, {}]])
def test_5_not_exactly_one_candidate(candidates: Any) -> None:
    assert unknown({**generated(), "candidates": candidates}) == (Reason.INVALID_CHOICES, "/candidates")
    assert unknown({**generated(), "candidates": ["x"]}) == (Reason.INVALID_CHOICES, CANDIDATE)


@pytest.mark.parametrize(
    ("content", "where"),
    [
        ("Done.", ""),
        ([], ""),
        ({"parts": {}, "role": "model"}, "/parts"),
        ({"parts": [{"text": "x"}], "role": "user"}, "/role"),
        ({"parts": [{"text": "x"}]}, "/role"),
        ({"role": "user"}, "/role"),
        ({"role": "model", "parts": ["x"]}, "/parts/0"),
        ({"role": "model", "parts": [{"text": "x"}, {}]}, "/parts/1"),
        ({"role": "model", "parts": [{"text": None}]}, "/parts/0"),
        ({"role": "model", "parts": [{"inlineData": {}}]}, "/parts/0"),
        ({"role": "model", "parts": [{"inlineData": {}, "thoughtSignature": "s"}]}, "/parts/0"),
        ({"role": "model", "parts": [{"functionResponse": {}}]}, "/parts/0"),
        ({"role": "model", "parts": [{"text": "x", "functionCall": {"name": "wait"}}]}, "/parts/0"),
        ({"role": "model", "parts": [{"text": "x", "thought": "yes"}]}, "/parts/0"),
        ({"role": "model", "parts": [{"thoughtSignature": 1}]}, "/parts/0"),
    ],
)
def test_5_the_form_of_the_content_comes_before_the_stop(content: Any, where: str) -> None:
    body = having(generated(finish="MAX_TOKENS"), *CONTENT, content)
    assert unknown(body) == (Reason.INVALID_MESSAGE, f"{CANDIDATE}/content{where}")


@pytest.mark.parametrize("content", [None, {}, {"role": "model"}, {"role": "model", "parts": []}, {"parts": None}])
def test_5_a_candidate_without_parts_is_judged_by_its_stop(content: Any) -> None:
    for finish, expected in (("SAFETY", Reason.FILTERED), ("MAX_TOKENS", Reason.TRUNCATED)):
        body = having(generated(finish=finish), *CONTENT, content)
        assert unknown(body) == (expected, f"{CANDIDATE}/finishReason")
    assert unknown(having(generated(), *CONTENT, content)) == (Reason.EMPTY_TEXT, f"{CANDIDATE}/content")
    assert unknown(without(generated(), *CONTENT)) == (Reason.EMPTY_TEXT, f"{CANDIDATE}/content")


@pytest.mark.parametrize(
    ("finish", "expected"),
    [
        (None, Reason.MISSING_STOP_REASON),
        ("MAX_TOKENS", Reason.TRUNCATED),
        *(
            (name, Reason.FILTERED)
            for name in (
                *("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR"),
                *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
            )
        ),
        *(
            (name, Reason.UNRECOGNIZED_STOP_REASON)
            for name in (
                *("", "stop", "OTHER", "LANGUAGE", "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"),
                *("TOO_MANY_TOOL_CALLS", "FINISH_REASON_UNSPECIFIED", "NO_IMAGE", ["STOP"], 1),
            )
        ),
    ],
)
def test_6_the_closed_table_of_finish_reasons(finish: Any, expected: Reason) -> None:
    assert unknown(generated(finish=finish)) == (expected, f"{CANDIDATE}/finishReason")
    assert unknown(generated(called(), finish=finish)) == (expected, f"{CANDIDATE}/finishReason")


def test_6_an_absent_reason_is_missing() -> None:
    body = without(generated(), "candidates", 0, "finishReason")
    assert unknown(body) == (Reason.MISSING_STOP_REASON, f"{CANDIDATE}/finishReason")


@pytest.mark.parametrize("name", ["executableCode", "codeExecutionResult", "toolCall", "toolResponse"])
def test_a_part_of_the_providers_own_tools(name: str) -> None:
    assert unknown(generated({"text": "So."}, {name: {}})) == (Reason.SERVER_TOOL_USED, f"{PARTS}/1")
    assert unknown(generated({name: {}, "thoughtSignature": "s"}, called()))[0] is Reason.SERVER_TOOL_USED


@pytest.mark.parametrize("name", ["groundingMetadata", "urlContextMetadata"])
def test_metadata_of_the_providers_own_tools(name: str) -> None:
    assert unknown(generated(**{name: {"chunks": []}})) == (Reason.SERVER_TOOL_USED, f"{CANDIDATE}/{name}")
    idle: Any
    for idle in ({}, None):
        assert judge(generated(**{name: idle})) == TextFinish("Done.")


def test_tokens_of_the_providers_own_tools() -> None:
    body = having(generated(), "usageMetadata", "toolUsePromptTokenCount", 7)
    assert unknown(body) == (Reason.SERVER_TOOL_USED, "/usageMetadata/toolUsePromptTokenCount")
    assert judge(having(body, "usageMetadata", "toolUsePromptTokenCount", 0)) == TextFinish("Done.")


def test_7_texts_are_joined_and_thoughts_are_none() -> None:
    body = generated(THOUGHT, {"text": "a "}, {"text": "b", "thought": False}, {"thoughtSignature": "s"})
    assert judge(body) == TextFinish("a b")
    for parts in ([THOUGHT], [{"text": " \n"}], [{"thoughtSignature": "s"}]):
        assert unknown(generated(*parts)) == (Reason.EMPTY_TEXT, f"{CANDIDATE}/content")


def test_8_exactly_one_call() -> None:
    finish = called("finish", args={"claim": "saved"})
    assert judge(generated(THOUGHT, {"text": "So."}, finish)) == Action("finish", {"claim": "saved"}, "")
    assert unknown(generated(called(), called())) == (Reason.MULTIPLE_TOOL_CALLS, PARTS)


def test_8_an_absent_id_is_empty_and_compared_with_nothing() -> None:
    assert judge(generated(called()), seen=("", "g1")) == Action("wait", {}, "")
    assert judge(generated(called(id="g1"))) == Action("wait", {}, "g1")


@pytest.mark.parametrize(
    ("call", "expected", "member"),
    [
        ("wait", Reason.INVALID_TOOL_CALL, ""),
        (None, Reason.INVALID_TOOL_CALL, ""),
        ({"name": "wait", "willContinue": True}, Reason.INVALID_TOOL_CALL, ""),
        ({"name": "wait", "partialArgs": []}, Reason.INVALID_TOOL_CALL, ""),
        ({"name": "wait", "id": ""}, Reason.INVALID_TOOL_CALL, "/id"),
        ({"name": "wait", "id": None}, Reason.INVALID_TOOL_CALL, "/id"),
        ({"name": "wait", "id": 1}, Reason.INVALID_TOOL_CALL, "/id"),
        ({"name": "fly"}, Reason.UNKNOWN_TOOL, "/name"),
        ({"args": {}}, Reason.UNKNOWN_TOOL, "/name"),
        ({"name": "wait", "args": None}, Reason.MALFORMED_ARGUMENTS, "/args"),
        ({"name": "wait", "args": "{}"}, Reason.MALFORMED_ARGUMENTS, "/args"),
        ({"name": "wait", "args": {"ticks": 1}}, Reason.INVALID_ARGUMENTS, "/args"),
        ({"name": "finish"}, Reason.INVALID_ARGUMENTS, "/args"),
    ],
)
def test_8_a_call_that_is_not_as_it_must_be(call: Any, expected: Reason, member: str) -> None:
    body = generated(THOUGHT, {"functionCall": call})
    assert unknown(body) == (expected, f"{PARTS}/1/functionCall{member}")


def test_9_thoughts_count_against_the_cap() -> None:
    body = having(generated(), "usageMetadata", "thoughtsTokenCount", 4)
    assert unknown(body, Expectation(output_cap=9)) == (Reason.TRUNCATED, "/usageMetadata")
    assert judge(body, Expectation(output_cap=10)) == TextFinish("Done.")
    odd = having(body, "usageMetadata", "candidatesTokenCount", "many")
    assert unknown(odd, Expectation(output_cap=4))[0] is Reason.TRUNCATED
