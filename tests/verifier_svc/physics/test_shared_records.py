"""Every published event and queue record is recomputed exactly."""

import json
from pathlib import Path
from typing import Any

import pytest

from verifier_svc.physics.play import PlayedEvent, play, setting_for
from verifier_svc.physics.state import Call
from verifier_svc.physics.trace import TraceEvent, verify_trace


def records(shared_data: Path, environment: str) -> list[dict[str, Any]]:
    lines = (shared_data / "episodes" / "records.jsonl").read_text("utf-8").splitlines()
    return [record for record in map(json.loads, lines) if record["environment"] == environment]


def calls_of(record: dict[str, Any]) -> list[Call]:
    prefix = [Call(tool) for tool in record["operator_prefix"]]
    return prefix + [Call(action["tool"], action["claim"]) for action in record["actions"]]


def view(event: PlayedEvent) -> list[Any]:
    seen = event.observation
    evidence = [report["id"] for report in seen["evidence"]]
    pending = [[report["id"], report["due_tick"]] for report in seen["pending"]]
    if "epoch" in seen:
        facts = [seen["tick"], seen["deadline"], seen["epoch"], seen["saved"], seen["deadline_loss"]]
        return [*facts, seen["done"], seen["calls_left"], evidence, pending]
    by_job = [list(seen[name].values()) for name in ("deadlines", "saved", "deadline_loss")]
    verifier = [seen["buffer_remaining"], seen["verifier_busy_until"]]
    return [seen["tick"], *by_job, seen["done"], seen["calls_left"], *verifier, evidence, pending]


@pytest.mark.parametrize(("environment", "count"), [("event", 29), ("queue", 18)])
def test_outcomes_steps_and_views_agree(
    shared_data: Path, wording: dict[str, Any], environment: str, count: int
) -> None:
    found = records(shared_data, environment)
    assert len(found) == count
    for record in found:
        setting = setting_for(environment, record["world"], record["contract"], "note", wording)
        played = play(setting, calls_of(record))
        assert setting.outcome(played.state) == record["outcome"], record["id"]
        assert [event.own_fields for event in played.events] == record["step_results"], record["id"]
        assert [view(event) for event in played.events] == record["views"], record["id"]


@pytest.mark.parametrize("environment", ["event", "queue"])
def test_their_traces_verify(shared_data: Path, wording: dict[str, Any], environment: str) -> None:
    for record in records(shared_data, environment):
        events = [
            TraceEvent(number, call.tool, call.claim, number - 1, number)
            for number, call in enumerate(calls_of(record), start=1)
        ]
        prefix = record["operator_prefix"]
        verdict = verify_trace(
            environment, record["world"], record["contract"], prefix, events, record["outcome"], "note", wording
        )
        assert verdict.agrees, verdict.differences
        assert verdict.outcome == record["outcome"]
