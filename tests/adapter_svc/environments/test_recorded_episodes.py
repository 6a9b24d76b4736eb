"""The simulators agree with every published episode of their environment (data/episodes)."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from adapter_svc.environments import Action, EventRecord, contract_from_json, play, world_from_json
from tests.adapter_svc.environments.helpers import MESSAGE, WORDING

EXPECTED_RECORDS = {"event": 29, "queue": 18, "pending": 35, "probe": 77}


def _records(shared_data: Path, environment: str) -> list[dict[str, Any]]:
    lines = (shared_data / "episodes" / "records.jsonl").read_text(encoding="utf-8").splitlines()
    records = [record for record in map(json.loads, lines) if record["environment"] == environment]
    assert len(records) == EXPECTED_RECORDS[environment]
    return records


def _ids(reports: list[dict[str, Any]]) -> list[str]:
    return [report["id"] for report in reports]


def _due(reports: list[dict[str, Any]]) -> list[list[Any]]:
    return [[report["id"], report["due_tick"]] for report in reports]


def _event_view(seen: dict[str, Any]) -> list[Any]:
    keys = ("tick", "deadline", "epoch", "saved", "deadline_loss", "done", "calls_left")
    return [*(seen[key] for key in keys), _ids(seen["evidence"]), _due(seen["pending"])]


def _queue_view(seen: dict[str, Any]) -> list[Any]:
    by_job = [[seen[key]["a"], seen[key]["b"]] for key in ("deadlines", "saved", "deadline_loss")]
    plain = [seen[key] for key in ("done", "calls_left", "buffer_remaining", "verifier_busy_until")]
    return [seen["tick"], *by_job, *plain, _ids(seen["evidence"]), _due(seen["pending"])]


def _pending_view(seen: dict[str, Any]) -> list[Any]:
    plain = [seen[key] for key in ("tick", "saved", "deadline_loss", "done", "calls_left")]
    operation = [seen["operation"][key] for key in ("id", "state", "commit_tick", "cancel_due_tick")]
    return [*plain, *operation, _ids(seen["evidence"]), _due(seen["pending"])]


def _probe_view(seen: dict[str, Any]) -> list[Any]:
    keys = ("tick", "reserve_remaining", "saved", "deadline_loss", "done", "calls_left")
    return [*(seen[key] for key in keys), _ids(seen["evidence"]), _due(seen["pending"])]


VIEWS: Mapping[str, Callable[[dict[str, Any]], list[Any]]] = {
    "event": _event_view,
    "queue": _queue_view,
    "pending": _pending_view,
    "probe": _probe_view,
}


def _view(environment: str, event: EventRecord) -> list[Any]:
    return VIEWS[environment](event.result_object()["observation"])


def _assert_agrees(record: dict[str, Any]) -> None:
    environment = record["environment"]
    playback = play(
        environment,
        world_from_json(environment, record["world"]),
        contract_from_json(environment, record["contract"]),
        record["operator_prefix"],
        [Action(action["tool"], action["claim"]) for action in record["actions"]],
        MESSAGE,
        WORDING,
    )
    assert playback.outcome is not None, record["id"]
    assert playback.outcome.to_json() == record["outcome"], record["id"]
    if "step_results" in record:
        assert list(playback.own_results) == record["step_results"], record["id"]
    if "views" in record:
        assert [_view(environment, event) for event in playback.events] == record["views"], record["id"]


@pytest.mark.parametrize("environment", sorted(EXPECTED_RECORDS))
def test_every_record_agrees(environment: str, shared_data: Path) -> None:
    for record in _records(shared_data, environment):
        _assert_agrees(record)


def test_nearly_every_record_states_its_results_and_views(shared_data: Path) -> None:
    records = [record for environment in EXPECTED_RECORDS for record in _records(shared_data, environment)]
    assert len(records) == 159
    assert sum("step_results" in record and "views" in record for record in records) == 156
