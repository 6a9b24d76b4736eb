"""The rules of the generate_content format: a good answer, spoilt one field at a time (design/admission.md, Order of
checks).
"""

from typing import Any

import pytest

from adapter_svc.admission import Action, ExpectedIdentity, ServedIdentity, TextFinish, Usage
from tests.adapter_svc.admission.bodies import (
    GENERATE_CONTENT,
    candidate,
    encoded,
    failure,
    generated,
    judged,
    part_of_call,
)
from tests.adapter_svc.admission.helpers import ABSENT

PARTS = "/candidates/0/content/parts"
CALL = f"{PARTS}/0/functionCall"
FINISH = "/candidates/0/finishReason"
THOUGHT = {"text": "Hm.", "thought": True}


def test_a_call_is_an_action_with_its_text() -> None:
    call = {**part_of_call(id="c1"), "thoughtSignature": "c2ln"}
    admission = judged(generated(THOUGHT, {"text": "I "}, {"text": "claim."}, call), **GENERATE_CONTENT)
    assert admission.verdict == Action("finish", b'{"claim":"saved"}', "c1", "I claim.")
    assert admission.served == ServedIdentity(model="m")


def test_a_call_needs_neither_id_nor_arguments() -> None:
    body = generated({"functionCall": {"name": "wait"}}, {"text": ""})
    admission = judged(body, **GENERATE_CONTENT, seen_tool_call_ids=frozenset({"", "wait"}))
    assert admission.verdict == Action("wait", b"{}", "", "")


def test_text_is_a_finish_thoughts_left_out() -> None:
    body = generated(THOUGHT, {"text": " all"}, {"text": " done", "thoughtSignature": "x", "thought": False})
    assert judged(body, **GENERATE_CONTENT).verdict == TextFinish(" all done")


@pytest.mark.parametrize(
    "body",
    [
        generated(groundingMetadata={}, urlContextMetadata={}),
        generated(groundingMetadata=None, safetyRatings=[], avgLogprobs=-0.1, index=ABSENT),
        generated(whole={"promptFeedback": {}, "error": None, "usageMetadata": {"toolUsePromptTokenCount": 0}}),
        generated(whole={"promptFeedback": {"blockReason": None, "safetyRatings": []}, "createTime": "x"}),
        generated(whole={"usageMetadata": ABSENT}),
        generated({"text": "ok", "thought": False, "unknown": {}}),
        generated({"text": "ok"}, {"thoughtSignature": "c2ln"}, {"thoughtSignature": "c2ln", "thought": True}),
        generated(part_of_call(willContinue=False)),
    ],
)
def test_what_says_nothing_changes_nothing(body: dict[str, Any]) -> None:
    assert isinstance(judged(body, **GENERATE_CONTENT).verdict, Action | TextFinish)


FILTERED = (
    *("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR"),
    *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
)
UNRECOGNIZED = (
    *(
        "OTHER",
        "LANGUAGE",
        "FINISH_REASON_UNSPECIFIED",
        "MALFORMED_FUNCTION_CALL",
        "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
    ),
    *("IMAGE_OTHER", "NO_IMAGE", "MISSING_THOUGHT_SIGNATURE", "MALFORMED_RESPONSE", "stop", "", "STOP ", 1, False, []),
)
CASES: list[tuple[Any, str, str]] = [
    # Checks 2 and 3.
    ([generated()], "MALFORMED_JSON", ""),
    ({"error": {"code": 503, "status": "UNAVAILABLE"}}, "PROVIDER_ERROR", "/error"),
    (generated(whole={"error": {}, "modelVersion": "other"}), "PROVIDER_ERROR", "/error"),
    # Check 4.
    (generated(whole={"modelVersion": ABSENT}), "IDENTITY_MISSING", "/modelVersion"),
    (generated(whole={"modelVersion": ""}), "IDENTITY_MISSING", "/modelVersion"),
    (generated(whole={"modelVersion": "m-2", "candidates": []}), "IDENTITY_MISMATCH", "/modelVersion"),
    # A prompt that was blocked.
    (
        {"modelVersion": "m", "promptFeedback": {"blockReason": "SAFETY"}},
        "FILTERED",
        "/promptFeedback/blockReason",
    ),
    (generated(whole={"promptFeedback": {"blockReason": "NEW"}}), "FILTERED", "/promptFeedback/blockReason"),
    # Check 5.
    (generated(whole={"candidates": ABSENT}), "INVALID_CHOICES", "/candidates"),
    (generated(whole={"candidates": []}), "INVALID_CHOICES", "/candidates"),
    (generated(whole={"candidates": {}}), "INVALID_CHOICES", "/candidates"),
    (generated(whole={"candidates": [candidate(), candidate(index=1)]}), "INVALID_CHOICES", "/candidates"),
    (generated(whole={"candidates": [None]}), "INVALID_CHOICES", "/candidates/0"),
    (generated(content="all done"), "INVALID_MESSAGE", "/candidates/0/content"),
    (generated(content=[]), "INVALID_MESSAGE", "/candidates/0/content"),
    (generated(content={"parts": [{"text": "x"}]}), "INVALID_MESSAGE", "/candidates/0/content/role"),
    (generated(content={"parts": [{"text": "x"}], "role": "user"}), "INVALID_MESSAGE", "/candidates/0/content/role"),
    (generated(content={"parts": [], "role": "user"}), "INVALID_MESSAGE", "/candidates/0/content/role"),
    (generated(content={"parts": {}, "role": "model"}), "INVALID_MESSAGE", PARTS),
    (generated(content={"parts": "x", "role": "model"}), "INVALID_MESSAGE", PARTS),
    *(
        (generated({"text": "x"}, part), "INVALID_MESSAGE", f"{PARTS}/1")
        for part in (
            *(
                "x",
                None,
                {},
                {"thoughtSignature": "c2ln", "new": {}},
                {"thought": True},
                {"text": None},
                {"text": 1},
                {"new": {}},
            ),
            *({"inlineData": {}}, {"fileData": {}}, {"functionResponse": {}}, {"text": "x", "inlineData": {}}),
            *({"text": "x", "functionCall": {}}, {"text": "x", "thought": "true"}, {"text": None, "thought": True}),
        )
    ),
    # Check 6.
    (generated(finishReason=ABSENT), "MISSING_STOP_REASON", FINISH),
    (generated(finishReason=None), "MISSING_STOP_REASON", FINISH),
    (generated(part_of_call(), finishReason="MAX_TOKENS"), "TRUNCATED", FINISH),
    (generated(content={}, finishReason="MAX_TOKENS"), "TRUNCATED", FINISH),
    (generated(content=ABSENT, finishReason="SAFETY"), "FILTERED", FINISH),
    *((generated(finishReason=value), "FILTERED", FINISH) for value in FILTERED),
    *((generated(part_of_call(), finishReason=value), "UNRECOGNIZED_STOP_REASON", FINISH) for value in UNRECOGNIZED),
    # A tool that the provider ran.
    *(
        (generated({"text": "x"}, {kind: {}}, part_of_call()), "SERVER_TOOL_USED", f"{PARTS}/1")
        for kind in ("executableCode", "codeExecutionResult", "toolCall", "toolResponse")
    ),
    (generated(groundingMetadata={"webSearchQueries": ["x"]}), "SERVER_TOOL_USED", "/candidates/0/groundingMetadata"),
    (generated(groundingMetadata=[]), "SERVER_TOOL_USED", "/candidates/0/groundingMetadata"),
    (generated(urlContextMetadata={"urlMetadata": [{}]}), "SERVER_TOOL_USED", "/candidates/0/urlContextMetadata"),
    (
        generated(whole={"usageMetadata": {"toolUsePromptTokenCount": 3}}),
        "SERVER_TOOL_USED",
        "/usageMetadata/toolUsePromptTokenCount",
    ),
    # Check 7.
    (generated(content=ABSENT), "EMPTY_TEXT", "/candidates/0/content"),
    (generated(content=None), "EMPTY_TEXT", "/candidates/0/content"),
    (generated(content={"role": "model"}), "EMPTY_TEXT", "/candidates/0/content"),
    (generated(content={"parts": [], "role": "model"}), "EMPTY_TEXT", "/candidates/0/content"),
    (generated({"text": " \n"}, THOUGHT), "EMPTY_TEXT", "/candidates/0/content"),
    # Check 8.
    (generated(part_of_call(), part_of_call()), "MULTIPLE_TOOL_CALLS", PARTS),
    (generated(part_of_call(name="fly"), {"functionCall": None}), "MULTIPLE_TOOL_CALLS", PARTS),
    (generated({"functionCall": None}), "INVALID_TOOL_CALL", CALL),
    (generated({"text": "x"}, {"functionCall": "wait"}), "INVALID_TOOL_CALL", f"{PARTS}/1/functionCall"),
    (generated({**part_of_call(), "thought": True}), "INVALID_TOOL_CALL", CALL),
    (generated(part_of_call(willContinue=True)), "INVALID_TOOL_CALL", CALL),
    (generated(part_of_call(partialArgs=[{}], name="fly")), "INVALID_TOOL_CALL", CALL),
    *(
        (generated(part_of_call(id=value, name="fly")), "INVALID_TOOL_CALL", f"{CALL}/id")
        for value in (None, "", 7, [])
    ),
    (generated(part_of_call(id="seen", name="fly")), "DUPLICATE_TOOL_CALL_ID", f"{CALL}/id"),
    (generated(part_of_call(name="fly", args=[])), "UNKNOWN_TOOL", f"{CALL}/name"),
    (generated(part_of_call(name=ABSENT)), "UNKNOWN_TOOL", f"{CALL}/name"),
    *(
        (generated(part_of_call(args=value)), "MALFORMED_ARGUMENTS", f"{CALL}/args")
        for value in (None, "", '{"claim":"saved"}', [], 0, False)
    ),
    *(
        (generated(part_of_call(args=value)), "INVALID_ARGUMENTS", f"{CALL}/args")
        for value in (ABSENT, {}, {"claim": "won"}, {"claim": "saved", "x": 1})
    ),
    # Check 9.
    (generated(whole={"usageMetadata": {"candidatesTokenCount": 50}}), "TRUNCATED", "/usageMetadata"),
    (generated(whole={"usageMetadata": {"thoughtsTokenCount": 50}}), "TRUNCATED", "/usageMetadata"),
    (
        generated(part_of_call(), whole={"usageMetadata": {"candidatesTokenCount": 20.5, "thoughtsTokenCount": 29.5}}),
        "TRUNCATED",
        "/usageMetadata",
    ),
]


@pytest.mark.parametrize(("body", "reason", "where"), CASES)
def test_the_first_failure_is_named(body: Any, reason: str, where: str) -> None:
    asked = {**GENERATE_CONTENT, "seen_tool_call_ids": frozenset({"seen"}), "output_cap": 50}
    assert failure(body, **asked) == (reason, where)


def test_keys_given_twice_are_refused_in_arguments_too() -> None:
    body = encoded(generated(part_of_call())).replace(b'"claim":', b'"claim": "unknown", "claim":')
    assert failure(body, **GENERATE_CONTENT) == ("DUPLICATE_KEY", "")


def test_an_alias_is_the_model() -> None:
    expected = ExpectedIdentity(model="x", aliases=frozenset({"m"}))
    assert isinstance(judged(generated(), **GENERATE_CONTENT, expected=expected).verdict, TextFinish)


def test_just_below_the_cap_is_whole() -> None:
    body = generated(whole={"usageMetadata": {"candidatesTokenCount": 20, "thoughtsTokenCount": 29}})
    assert isinstance(judged(body, **GENERATE_CONTENT, output_cap=50).verdict, TextFinish)


def test_the_continuation_is_the_content_byte_for_byte() -> None:
    content = (
        b'{ "role" : "model","z":[ ],"parts":[ {"thought":true,"text":"\\u00e9\xc3\xa9","n":1.50,"m":-0},\n'
        b'{"thoughtSignature":"c2ln\\/\\u003d","functionCall":{"args":{},"name":"w\\u0061it","x":2E+5}, "tags":[]} ] }'
    )
    body = b'{"modelVersion":"m","candidates":[ {"finishReason":"STOP","content": @ } ]}'.replace(b"@", content)
    admission = judged(body, **GENERATE_CONTENT)
    assert admission.verdict == Action("wait", b"{}", "", "")
    assert admission.continuation is not None
    assert admission.continuation.message == content


FULL = {
    "promptTokenCount": 100,
    "cachedContentTokenCount": 40,
    "toolUsePromptTokenCount": 1000,
    "candidatesTokenCount": 7,
    "thoughtsTokenCount": 30,
    "totalTokenCount": 1137,
}


@pytest.mark.parametrize(
    ("usage", "read"),
    [
        (FULL, Usage(1100, 37, 1137, cached_tokens=40, reasoning_tokens=30)),
        (None, Usage()),
        (ABSENT, Usage()),
        ({}, Usage()),
        ("none", Usage(invalid=("usage",))),
        ({"promptTokenCount": 10, "candidatesTokenCount": 0}, Usage(10, 0)),
        ({"promptTokenCount": 10, "thoughtsTokenCount": 5}, Usage(10, None, reasoning_tokens=5)),
        ({"toolUsePromptTokenCount": 5, "candidatesTokenCount": 1}, Usage(None, 1)),
        (
            {"promptTokenCount": 10, "toolUsePromptTokenCount": -1, "candidatesTokenCount": 1},
            Usage(None, 1, invalid=("input_tokens",)),
        ),
        (
            {"promptTokenCount": 10, "candidatesTokenCount": 1, "thoughtsTokenCount": 1.5},
            Usage(10, None, invalid=("output_tokens", "reasoning_tokens")),
        ),
        ({"promptTokenCount": True, "candidatesTokenCount": 1}, Usage(None, 1, invalid=("input_tokens",))),
        (
            {"candidatesTokenCount": 2**63 - 1, "thoughtsTokenCount": 1},
            Usage(reasoning_tokens=1, invalid=("output_tokens",)),
        ),
    ],
)
def test_input_and_output_are_sums(usage: Any, read: Usage) -> None:
    admission = judged(generated(whole={"usageMetadata": usage}), **GENERATE_CONTENT)
    assert (admission.usage, admission.reported_cost) == (read, None)


def test_an_answer_that_is_not_admitted_was_paid_for_too() -> None:
    admission = judged(generated(finishReason="OTHER"), **GENERATE_CONTENT)
    assert (admission.usage, admission.served) == (Usage(10, 5, 15), ServedIdentity(model="m"))
