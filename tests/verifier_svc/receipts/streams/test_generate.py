"""Streamed generated content, chunk by chunk (design/admission.md, Streams; docs/formats.md)."""

from typing import Any

import pytest

from tests.verifier_svc.receipts import bodies
from tests.verifier_svc.receipts.bodies import called
from tests.verifier_svc.receipts.streaming import event
from verifier_svc.receipts.verdicts import Action, Decoded, Reason, TextFinish, Usage
from verifier_svc.receipts.wire import WireFormat


def chunk(*parts: Any, role: Any = "model", usage: Any = None, **candidate: Any) -> bytes:
    content = {"parts": list(parts), "role": role}
    counts = {"promptTokenCount": 10, **(usage or {})}
    return event({"candidates": [{"content": content, **candidate}], "modelVersion": "m-1", "usageMetadata": counts})


LAST_COUNTS = {"candidatesTokenCount": 5, "thoughtsTokenCount": 2, "totalTokenCount": 17}
END = chunk({"text": ""}, finishReason="STOP", usage=LAST_COUNTS)
TEXT = (chunk({"text": "hm", "thought": True}), chunk({"text": "Do"}), chunk({"text": "ne."}), END)
CALL = (chunk({"text": "So."}), chunk({**called(id="g1"), "thoughtSignature": "s"}), END)


def read(*events: bytes) -> Decoded:
    return bodies.decoded(WireFormat.GENERATE_CONTENT, b"".join(events), streamed=True)


def unknown(*events: bytes) -> tuple[Reason, str]:
    return bodies.unknown(WireFormat.GENERATE_CONTENT, b"".join(events), streamed=True)


def test_parts_are_kept_apart_and_usage_is_the_last() -> None:
    text, call = read(*TEXT), read(*CALL)
    assert text.verdict == TextFinish("Done.")
    assert text.usage == Usage(10, 7, reasoning=2)
    assert call.verdict == Action("wait", {}, "g1")
    assert call.continuation == (
        b'{"parts":[{"text": "So."},{"functionCall": {"name": "wait", "id": "g1"}, "thoughtSignature": "s"},'
        b'{"text": ""}],"role":"model"}'
    )


@pytest.mark.parametrize("events", [TEXT, CALL])
def test_a_cut_stream_is_incomplete(events: tuple[bytes, ...]) -> None:
    for count in range(len(events)):
        place = f"event {count + 1}"
        assert unknown(*events[:count]) == (Reason.STREAM_INCOMPLETE, place)
        assert unknown(*events[:count], events[count][:-1]) == (Reason.STREAM_INCOMPLETE, place)


def test_a_blocked_prompt_is_whole() -> None:
    blocked = event({"modelVersion": "m-1", "promptFeedback": {"blockReason": "SAFETY"}})
    assert unknown(blocked) == (Reason.FILTERED, "/promptFeedback/blockReason")
    assert unknown(event({"modelVersion": "m-1"})) == (Reason.STREAM_INCOMPLETE, "event 2")


@pytest.mark.parametrize("broken", [event({"error": {"code": 503}}), event({}, "error")])
def test_an_error_after_a_finished_call_runs_nothing(broken: bytes) -> None:
    assert unknown(*CALL[:-1], broken) == (Reason.PROVIDER_ERROR, "event 3")
    assert unknown(*CALL, broken) == (Reason.PROVIDER_ERROR, "event 4")


@pytest.mark.parametrize(
    "contrary",
    [
        chunk({"text": "More."}),
        chunk(called()),
        chunk({"thoughtSignature": "s"}),
        chunk(finishReason="MAX_TOKENS"),
        chunk(role="user"),
        event({"modelVersion": "m-2"}),
    ],
)
def test_what_contradicts_itself(contrary: bytes) -> None:
    assert unknown(*CALL, contrary) == (Reason.STREAM_CONTRADICTION, "event 4")


def test_a_stop_in_every_chunk_cannot_be_told_from_a_cut() -> None:
    every = [chunk({"text": text}, finishReason="STOP") for text in ("Do", "ne.")]
    assert unknown(*every) == (Reason.STREAM_CONTRADICTION, "event 2")


@pytest.mark.parametrize("late", [chunk({"text": ""}, finishReason="STOP"), chunk(finishReason=None), event({})])
def test_nothing_comes_after_the_last_chunk(late: bytes) -> None:
    assert unknown(*CALL, late) == (Reason.STREAM_CONTRADICTION, "event 4")
    blocked = event({"modelVersion": "m-1", "promptFeedback": {"blockReason": "SAFETY"}})
    assert unknown(blocked, late) == (Reason.STREAM_CONTRADICTION, "event 2")


def test_what_must_be_the_same_in_every_chunk() -> None:
    for first, second in (({"safetyRatings": []}, {}), ({}, {"blockReason": "SAFETY"})):
        events = (event({"promptFeedback": first}), event({"promptFeedback": second}))
        assert unknown(*events, *CALL) == (Reason.STREAM_CONTRADICTION, "event 2")
    same = event({"modelVersion": "", "promptFeedback": {"a": 1.0}})
    assert read(event({"promptFeedback": {"a": 1}}), same, *CALL).verdict == Action("wait", {}, "g1")


def test_counts_are_those_of_the_last_chunk_or_none() -> None:
    last = event({"candidates": [{"content": {"parts": []}, "finishReason": "STOP"}]})
    assert (read(*CALL[:-1], last).verdict, read(*CALL[:-1], last).usage) == (Action("wait", {}, "g1"), None)


def test_two_candidates_are_two() -> None:
    other = chunk({"text": "x"}, index=1, finishReason="STOP")
    assert unknown(other, *CALL) == (Reason.INVALID_CHOICES, "/candidates")
    assert unknown(*CALL[:-1], chunk({"text": "x"}, index=1)) == (Reason.STREAM_INCOMPLETE, "event 4")


def test_an_empty_reason_is_a_reason() -> None:
    found = unknown(*CALL[:-1], chunk(finishReason=""))
    assert found == (Reason.UNRECOGNIZED_STOP_REASON, "/candidates/0/finishReason")


def test_metadata_of_a_tool_is_not_lost_in_a_later_chunk() -> None:
    searched = chunk({"text": "x"}, groundingMetadata={"webSearchQueries": ["q"]})
    found = unknown(searched, chunk({"text": ""}, finishReason="STOP", groundingMetadata={}))
    assert found == (Reason.SERVER_TOOL_USED, "/candidates/0/groundingMetadata")


@pytest.mark.parametrize(
    ("odd", "expected", "where"),
    [
        (event({"candidates": ["x"]}), Reason.INVALID_CHOICES, "/candidates"),
        (event({"candidates": [{"index": "0"}]}), Reason.INVALID_CHOICES, "/candidates"),
        (event({"candidates": {"a": 1}}), Reason.INVALID_CHOICES, "/candidates"),
        (event({"candidates": "x"}), Reason.INVALID_CHOICES, "/candidates"),
        (event({"candidates": [{"content": "x"}]}), Reason.INVALID_MESSAGE, "/candidates/0/content"),
        (event({"candidates": [{"content": {"parts": {}}}]}), Reason.INVALID_MESSAGE, "/candidates/0/content/parts"),
        (chunk("x"), Reason.INVALID_MESSAGE, "/candidates/0/content/parts/1"),
    ],
)
def test_what_has_not_the_form_of_a_chunk_is_judged_as_the_unary_form_would_be(
    odd: bytes, expected: Reason, where: str
) -> None:
    assert unknown(chunk({"text": "Do"}), odd, END) == (expected, where)


def test_a_stop_without_parts_is_empty() -> None:
    found = unknown(event({"candidates": [{"finishReason": "STOP"}], "modelVersion": "m-1"}))
    assert found == (Reason.EMPTY_TEXT, "/candidates/0/content")
