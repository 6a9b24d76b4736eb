"""A trace that was changed anywhere is caught, and the place named."""

from dataclasses import replace
from typing import Any

import pytest

from verifier_svc.physics.play import play, setting_for
from verifier_svc.physics.state import Call
from verifier_svc.physics.trace import TraceEvent, TraceVerdict, verify_trace

WORLD = {"need": True, "effective": True, "change_tick": 2, "changed_need": True}
CONTRACT = {"deadline": 4, "buffer_available": True}
PREFIX = ["request_verification", "wait"]
CALLS = [*map(Call, PREFIX), Call("reserve_buffer"), Call("transfer"), Call("finish", "saved")]


@pytest.fixture
def honest(wording: dict[str, Any]) -> tuple[list[TraceEvent], dict[str, Any]]:
    setting = setting_for("event", WORLD, CONTRACT, "note", wording)
    played = play(setting, CALLS)
    events = [
        TraceEvent(event.sequence, event.tool, event.claim, event.start_tick, event.end_tick, event.result)
        for event in played.events
    ]
    return events, setting.outcome(played.state)


def verify(
    wording: dict[str, Any], events: list[TraceEvent], outcome: dict[str, Any] | None, **changes: Any
) -> TraceVerdict:
    return verify_trace("event", WORLD, CONTRACT, PREFIX, events, outcome, "note", wording, **changes)


def test_an_honest_trace_agrees(wording: dict[str, Any], honest: Any) -> None:
    events, outcome = honest
    verdict = verify(wording, events, outcome)
    assert (verdict.agrees, verdict.differences, verdict.outcome) == (True, (), outcome)


@pytest.mark.parametrize("index", range(5))
@pytest.mark.parametrize(
    ("field", "value"), [("sequence", 9), ("start_tick", 7), ("end_tick", 8), ("result", b"{}"), ("claim", "perhaps")]
)
def test_a_changed_field_of_an_event_is_named(
    wording: dict[str, Any], honest: Any, index: int, field: str, value: Any
) -> None:
    events, outcome = honest
    events[index] = replace(events[index], **{field: value})
    verdict = verify(wording, events, outcome)
    assert not verdict.agrees
    assert verdict.differences[0].sequence == index + 1
    assert verdict.differences[0].field in (field, "call", "result")


def test_another_prefix_tool_is_caught_twice_over(wording: dict[str, Any], honest: Any) -> None:
    events, outcome = honest
    events[1] = replace(events[1], tool="request_human")
    verdict = verify(wording, events, outcome)
    fields = [(difference.sequence, difference.field) for difference in verdict.differences]
    assert (2, "prefix_tool") in fields
    assert (2, "result") in fields


def test_a_result_is_compared_only_where_given(wording: dict[str, Any], honest: Any) -> None:
    events, outcome = honest
    assert verify(wording, [replace(event, result=None) for event in events], outcome).agrees


def test_a_trace_cut_short_has_not_ended(wording: dict[str, Any], honest: Any) -> None:
    events, _outcome = honest
    verdict = verify(wording, events[:-1], None)
    assert [difference.field for difference in verdict.differences] == ["ended"]
    assert verdict.outcome is None
    assert verify(wording, events[:-1], None, must_end=False).agrees


def test_an_event_after_the_end_is_caught(wording: dict[str, Any], honest: Any) -> None:
    events, outcome = honest
    verdict = verify(wording, [*events, TraceEvent(6, "wait", None, 5, 6)], outcome)
    assert [(difference.sequence, difference.field) for difference in verdict.differences] == [(6, "call")]


def test_every_changed_member_of_the_outcome_is_caught(wording: dict[str, Any], honest: Any) -> None:
    events, outcome = honest
    for name in outcome:
        for changed in ({**outcome, name: 77}, {key: value for key, value in outcome.items() if key != name}):
            verdict = verify(wording, events, changed)
            assert [difference.field for difference in verdict.differences] == [f"outcome.{name}"]
    assert not verify(wording, events, {**outcome, "saved": 1}).agrees
    assert not verify(wording, events, {**outcome, "bonus": 0}).agrees
