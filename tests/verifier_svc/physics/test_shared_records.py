"""Every published record is recomputed exactly."""

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


COUNTS = [("event", 29), ("queue", 18), ("pending", 35), ("probe", 77)]


def words(environment: str) -> dict[str, Any]:
    """Wording without a text: no fact depends on one."""
    return {"environments": {environment: {"authority_rule": "", "semantics": ""}}}


def view(environment: str, event: PlayedEvent) -> list[Any]:
    seen = event.observation
    pending = [[report["id"], report["due_tick"]] for report in seen["pending"]]
    after = [seen["done"], seen["calls_left"]]
    reports = [[report["id"] for report in seen["evidence"]], pending]
    fate = [seen["saved"], seen["deadline_loss"]]
    match environment:
        case "event":
            return [seen["tick"], seen["deadline"], seen["epoch"], *fate, *after, *reports]
        case "queue":
            by_job = [list(seen[name].values()) for name in ("deadlines", "saved", "deadline_loss")]
            return [seen["tick"], *by_job, *after, seen["buffer_remaining"], seen["verifier_busy_until"], *reports]
        case "pending":
            names = ("id", "state", "commit_tick", "cancel_due_tick")
            return [seen["tick"], *fate, *after, *(seen["operation"][name] for name in names), *reports]
        case _:
            return [seen["tick"], seen["reserve_remaining"], *fate, *after, *reports]


@pytest.mark.parametrize(("environment", "count"), COUNTS)
def test_outcomes_steps_and_views_agree(shared_data: Path, environment: str, count: int) -> None:
    found = records(shared_data, environment)
    assert len(found) == count
    for record in found:
        setting = setting_for(environment, record["world"], record["contract"], "note", words(environment))
        played = play(setting, calls_of(record))
        assert setting.outcome(played.state) == record["outcome"], record["id"]
        if "views" in record:
            assert [event.own_fields for event in played.events] == record["step_results"], record["id"]
            assert [view(environment, event) for event in played.events] == record["views"], record["id"]


@pytest.mark.parametrize("environment", ["event", "queue", "pending", "probe"])
def test_their_traces_verify(shared_data: Path, environment: str) -> None:
    start = 2 if environment == "pending" else 0
    for record in records(shared_data, environment):
        events = [
            TraceEvent(number, call.tool, call.claim, start + number - 1, start + number)
            for number, call in enumerate(calls_of(record), start=1)
        ]
        prefix, outcome = record["operator_prefix"], record["outcome"]
        verdict = verify_trace(
            environment, record["world"], record["contract"], prefix, events, outcome, "note", words(environment)
        )
        assert verdict.agrees, verdict.differences
        assert verdict.outcome == outcome
