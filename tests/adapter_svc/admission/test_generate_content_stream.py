"""Streams of the generate_content format: what makes an answer, and what does not (design/admission.md, Streams)."""

from typing import Any

import pytest

from adapter_svc.admission import Action, TextFinish, Usage
from tests.adapter_svc.admission.bodies import (
    GENERATE_CONTENT,
    candidate,
    encoded,
    event,
    failure,
    generated,
    joined,
    judged,
    part_of_call,
)
from tests.adapter_svc.admission.helpers import ABSENT

STREAMED = {**GENERATE_CONTENT, "streamed": True}


def chunk(*parts: Any, whole: dict[str, Any] | None = None, **changes: Any) -> str:
    """A chunk that is not the last."""
    return event(generated(*parts, whole=whole, **{"finishReason": ABSENT, **changes}))


def last(*parts: Any, whole: dict[str, Any] | None = None, **changes: Any) -> str:
    return event(generated(*parts, whole=whole, **changes))


PIECES = [chunk({"text": "all "}), chunk({"text": "do"}), last({"text": "ne"})]


def test_chunks_make_an_action() -> None:
    thought, signed = {"text": "Hm.", "thought": True}, {**part_of_call(id="c"), "thoughtSignature": "c2ln"}
    events = [chunk(thought), chunk({"text": "I claim."}), chunk(signed), last({"text": ""})]
    admission = judged(joined(events), **STREAMED)
    assert admission.verdict == Action("finish", b'{"claim":"saved"}', "c", "I claim.")
    assert admission.usage == Usage(10, 5, 15)


@pytest.mark.parametrize(
    "events",
    [
        PIECES,
        [one.replace("\n", "\r\n") for one in PIECES],
        [*PIECES[:2], last({"text": "ne"}, index=ABSENT)],
        [chunk({"text": "all "}, finishReason=None), last({"text": "done"})],
        [chunk({"text": "all "}, whole={"responseId": "r"}), last({"text": "done"}, whole={"responseId": ""})],
        [
            chunk({"text": "all "}),
            chunk(content=ABSENT),
            chunk(content=None),
            chunk(content={}),
            last({"text": "done"}),
        ],
        [chunk({"text": "all done"}), last(content={"parts": None})],
        [chunk({"text": "all done"}), last(content={"role": "model"})],
        [event({"modelVersion": "m", "promptFeedback": {"safetyRatings": []}}), *PIECES],
        [event({"usageMetadata": {"promptTokenCount": 1}, "candidates": []}), *PIECES],
        [*PIECES[:2], last({"text": "ne"}, whole={"modelVersion": ABSENT})],
        [chunk({"text": "all "}, groundingMetadata={}, avgLogprobs=1), last({"text": "done"}, avgLogprobs=2)],
    ],
)
def test_what_says_nothing_changes_nothing(events: list[str]) -> None:
    assert judged(joined(events), **STREAMED).verdict == TextFinish("all done")


@pytest.mark.parametrize(
    ("events", "number"),
    [
        ([*PIECES, PIECES[1]], 4),
        ([*PIECES, PIECES[-1]], 4),
        ([*PIECES, event({"usageMetadata": {}})], 4),
        ([event({"modelVersion": "m", "promptFeedback": {"blockReason": "OTHER"}}), *PIECES], 2),
        ([PIECES[0], chunk({"text": "x"}, whole={"modelVersion": "m-2"})], 2),
        ([chunk(whole={"responseId": "a"}), last(whole={"responseId": "b"})], 2),
        ([PIECES[0], chunk(content={"parts": [], "role": "user"})], 2),
        ([chunk(whole={"promptFeedback": {"a": 1}}), last(whole={"promptFeedback": {"a": True}})], 2),
    ],
)
def test_a_contradiction_is_named_by_its_event(events: list[str], number: int) -> None:
    assert failure(joined(events), **STREAMED) == ("STREAM_CONTRADICTION", f"event {number}")


@pytest.mark.parametrize(
    ("events", "number"), [([], 1), (PIECES[:1], 2), (PIECES[:2], 3), ([chunk(part_of_call())], 2)]
)
def test_without_a_last_chunk_a_stream_is_incomplete(events: list[str], number: int) -> None:
    assert failure(joined(events), **STREAMED) == ("STREAM_INCOMPLETE", f"event {number}")


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("error", [event({"error": {"code": 500}}), event({}, name="error")])
def test_an_error_is_the_providers_wherever_it_comes(error: str, number: int) -> None:
    body = joined([*PIECES[:number], error, *PIECES[number:]])
    assert failure(body, **STREAMED) == ("PROVIDER_ERROR", f"event {number + 1}")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("[DONE]", "MALFORMED_JSON"),
        ("[{}]", "MALFORMED_JSON"),
        ('{"candidates":[}', "MALFORMED_JSON"),
        ('{"modelVersion":"m","modelVersion":"m"}', "DUPLICATE_KEY"),
    ],
)
def test_every_event_is_strict_json(data: str, reason: str) -> None:
    assert failure(joined([PIECES[0], event(data, name="")]), **STREAMED) == (reason, "event 2")


PARTS = "/candidates/0/content/parts"


@pytest.mark.parametrize(
    ("events", "reason", "where"),
    [
        ([PIECES[0], last(finishReason="MAX_TOKENS")], "TRUNCATED", "/candidates/0/finishReason"),
        ([PIECES[0], last(finishReason="")], "UNRECOGNIZED_STOP_REASON", "/candidates/0/finishReason"),
        ([PIECES[0], last(finishReason="SAFETY", content=ABSENT)], "FILTERED", "/candidates/0/finishReason"),
        (
            [event({"modelVersion": "m", "promptFeedback": {"blockReason": "X"}})],
            "FILTERED",
            "/promptFeedback/blockReason",
        ),
        ([last(whole={"modelVersion": ABSENT})], "IDENTITY_MISSING", "/modelVersion"),
        ([last(content=ABSENT)], "EMPTY_TEXT", "/candidates/0/content"),
        ([chunk(part_of_call()), last(part_of_call())], "MULTIPLE_TOOL_CALLS", PARTS),
        ([chunk({"executableCode": {}}), last()], "SERVER_TOOL_USED", f"{PARTS}/0"),
        (
            [chunk(groundingMetadata={"webSearchQueries": ["x"]}), last(groundingMetadata={"webSearchQueries": []})],
            "SERVER_TOOL_USED",
            "/candidates/0/groundingMetadata",
        ),
        (
            [chunk(urlContextMetadata={"urlMetadata": [{}]}), last()],
            "SERVER_TOOL_USED",
            "/candidates/0/urlContextMetadata",
        ),
        ([chunk(groundingMetadata=7), last()], "SERVER_TOOL_USED", "/candidates/0/groundingMetadata"),
        ([chunk(), last(index=1), last()], "INVALID_CHOICES", "/candidates"),
        ([last(whole={"candidates": [candidate(), candidate(index=1)]})], "INVALID_CHOICES", "/candidates"),
        ([event({"modelVersion": "m", "candidates": 7}), last()], "INVALID_CHOICES", "/candidates"),
        ([event({"modelVersion": "m", "candidates": [7]}), last()], "INVALID_CHOICES", "/candidates"),
        ([chunk(content="x"), last()], "INVALID_MESSAGE", "/candidates/0/content"),
        ([chunk(content={"parts": {}, "role": "model"}), last()], "INVALID_MESSAGE", PARTS),
        ([last(content={"parts": [{"text": "x"}]})], "INVALID_MESSAGE", "/candidates/0/content/role"),
    ],
)
def test_the_rules_judge_what_the_chunks_make(events: list[str], reason: str, where: str) -> None:
    assert failure(joined(events), **STREAMED) == (reason, where)


def test_a_body_in_place_of_a_stream_is_incomplete() -> None:
    assert failure(encoded(generated()), **STREAMED) == ("STREAM_INCOMPLETE", "event 1")


def test_counts_are_the_last_chunks() -> None:
    early = {"usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 21, "cachedContentTokenCount": 1}}
    final = {"usageMetadata": {"promptTokenCount": 87, "candidatesTokenCount": 1, "thoughtsTokenCount": 78}}
    events = [chunk(whole=early), last(whole=final)]
    assert judged(joined(events), **STREAMED).usage == Usage(87, 79, reasoning_tokens=78)
    assert judged(joined([chunk(whole=early), last(whole={"usageMetadata": ABSENT})]), **STREAMED).usage == Usage()


def test_opaque_bytes_survive_the_chunks() -> None:
    """docs/formats.md, Opaque items of a streamed answer."""
    thought = '{ "thought" : true,"text":"\\u00e9\u00e9","z":[ ],"n":1.50}'
    call = '{"thoughtSignature":"c2ln\\/","functionCall":{"name":"wait","args":{ },"x":-0}, "tags":[ ]}'
    events = [
        f'{{"modelVersion":"m","candidates":[{{"content":{{"role" : "model","parts":[{thought} , {{"text":""}}]}}}}]}}',
        f'{{"candidates":[{{"content": {{"parts":[ {call} ],"role":"m\\u006fdel"}},"finishReason":"STOP"}}]}}',
    ]
    admission = judged(joined(event(one, name="") for one in events), **STREAMED)
    assert admission.verdict == Action("wait", b"{}", "", "")
    assert admission.continuation is not None
    assert admission.continuation.message.decode() == f'{{"parts":[{thought},{{"text":""}},{call}],"role":"model"}}'
