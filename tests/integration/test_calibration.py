"""The instrument measured: what was injected into a study is what its report says, and nothing else.

COUNTERSIGN_CALIBRATION=full asks for all of the shipped plans, more than a thousand episodes.
"""

import csv
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from countersign.study.plan_model import PlanFile
from tests.conftest import PROJECT_ROOT
from tests.integration.calibration import (
    CHARGE,
    IN_DOUBT,
    LOST,
    REASONS,
    WAYS,
    WORKERS,
    Run,
    expected,
    write_plan,
)
from tests.integration.stack import running_stack, scripted_agent
from tests.integration.studies import run_command

FULL = os.environ.get("COUNTERSIGN_CALIBRATION") == "full"
REPETITIONS, ARMS = (2, 2) if FULL else (1, 1)

pytestmark = pytest.mark.timeout(3_600 if FULL else 600)


@dataclass(frozen=True)
class Calibrated:
    """A settled study, its analysis as exported, and what the ledger has of it."""

    plan: PlanFile
    run: Run
    folder: Path
    report: dict[str, Any]
    lines: list[dict[str, Any]]
    reserved: list[dict[str, Any]]

    @property
    def analysis(self) -> dict[str, Any]:
        analysis: dict[str, Any] = self.report["analysis"]
        return analysis

    def must_be(self, line: Mapping[str, Any]) -> dict[str, Any]:
        """What must have come of the episode: a call that was under way at the adapter's death leaves doubt."""
        if line["episode_id"] in {call["episode_id"] for call in self.reserved}:
            return IN_DOUBT
        return expected(self.plan, line["identity"])


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Calibrated]:
    folder = tmp_path_factory.mktemp("calibration")
    with running_stack() as stack, scripted_agent(folder, "refuse") as agent:
        plan = write_plan(folder / "plan.toml", agent, REPETITIONS, ARMS)
        run = Run(stack, folder / "plan.toml")
        run.collect(stack.adapter, 20 * REPETITIONS)
        run.collect(stack.ledger, 50 * REPETITIONS)
        run.settle()
        out = [part for name in ("r.csv", "r.json", "r.html") for part in ("--out", folder / name)]
        status, output, errors = run_command("report", run.folder, *out, "--ledger", stack.ledger.address)
        assert status == 0, errors
        calls = ("ledger", "calls", output[-1]["study_id"], "--ledger", stack.ledger.address, "--state", "reserved")
        status, reserved, errors = run_command(*calls)
        assert status == 0, errors
        lines = [json.loads(line) for line in (run.folder / "episodes.jsonl").read_text("utf-8").splitlines()]
        yield Calibrated(plan, run, folder, json.loads((folder / "r.json").read_text("utf-8")), lines, reserved)


def test_each_episode_came_to_what_was_injected(calibrated: Calibrated) -> None:
    for line in calibrated.lines:
        must = calibrated.must_be(line)
        assert {name: line[name] for name in must} == must, line["identity"]
        assert line["errors"] == []
    planned = (len(WAYS) - 1 + len(REASONS)) * 5 * 2 * ARMS * REPETITIONS + (len(LOST) + 1) * 2
    assert len(calibrated.lines) == planned
    assert len(calibrated.lines) >= 1_000 or not FULL


def test_the_killed_adapter_left_its_calls_in_doubt_and_nothing_else(calibrated: Calibrated) -> None:
    assert len({call["episode_id"] for call in calibrated.reserved}) == len(calibrated.reserved) <= WORKERS
    found = Counter(line["stop_category"] for line in calibrated.lines if line["status"] == "stopped")
    doubtful = {call["episode_id"] for call in calibrated.reserved}
    lost = sum(line["identity"]["route"] in LOST and line["episode_id"] not in doubtful for line in calibrated.lines)
    assert found == +Counter({"transport_unknown": lost, "unresolved_prior_request": len(doubtful)})


def test_the_report_counts_what_was_injected_by_reason(calibrated: Calibrated) -> None:
    musts = [calibrated.must_be(line) for line in calibrated.lines]
    total = calibrated.analysis["total"]
    assert total["planned"] == len(musts)
    assert total["not_attempted"] == 0
    for status, detail in (("completed", "termination"), ("technical_unknown", "reason"), ("stopped", "stop_category")):
        assert total[status] == Counter(must[detail] for must in musts if must["status"] == status)
    outcomes = [must["outcome"] for must in musts if must["status"] == "completed"]
    assert total["authority_breach"]["count"] == sum(one["authority_breaches"] > 0 for one in outcomes)
    assert total["false_claim"]["count"] == sum(one["false_outcome_claims"] > 0 for one in outcomes)
    for name in ("primary_loss", "protected_loss", "operation_cost"):
        mean = sum(one[name] for one in outcomes) / len(outcomes)
        assert total["losses"][name]["mean"] == pytest.approx(mean, abs=1e-12)
    page = (calibrated.folder / "r.html").read_text("utf-8")
    for reason, count in total["technical_unknown"].items():
        assert f"{count} {reason.replace('_', ' ')}" in page
    for category, count in total["stopped"].items():
        assert f"{count} {category.replace('_', ' ')}" in page


def test_the_sensible_ways_lose_nothing_to_the_comparator_and_no_other_way_wins(calibrated: Calibrated) -> None:
    at_prior: dict[str, list[float]] = {}
    for line in calibrated.analysis["strata"]:
        if line["regret"]["at_prior"] is not None:
            at_prior.setdefault(line["route"], []).append(line["regret"]["at_prior"])
    for way in ("act-well", "deadline-refresh"):
        assert at_prior[way] == pytest.approx([0.0] * len(at_prior[way]), abs=1e-9)
    assert all(value > -1e-9 for values in at_prior.values() for value in values)
    for way in set(WAYS) - {"act-well", "deadline-refresh", "no-usage"}:
        assert max(at_prior[way]) > 1.0, way


def test_the_money_is_the_operators_word_and_the_ledgers(calibrated: Calibrated) -> None:
    money = calibrated.analysis["money"]
    assert money["total"] == money["ledger"]
    assert Decimal(money["ledger"]["resolved"]) == calibrated.run.resolved * Decimal(CHARGE)
    assert money["ledger"]["held"] == "0"
    assert (money["ledger"]["reserved"] == "0") == (not calibrated.reserved)


def test_every_figure_follows_from_the_exported_rows(calibrated: Calibrated) -> None:
    folder = calibrated.folder
    manifest = str(calibrated.run.folder / "manifest.json")
    command = [sys.executable, "tools/recompute.py", str(folder / "r.csv"), manifest]
    done = subprocess.run(
        [*command, "--against", str(folder / "r.json")], cwd=PROJECT_ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "every figure is the same"), done.stderr


def test_a_figure_that_does_not_follow_from_the_rows_is_named(calibrated: Calibrated, tmp_path: Path) -> None:
    rows = list(csv.DictReader((calibrated.folder / "r.csv").read_text("utf-8").splitlines()))
    row = next(row for row in rows if row["status"] == "completed")
    row["authority_breaches"] = str(int(row["authority_breaches"]) + 1)
    with (tmp_path / "r.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(row))
        writer.writeheader()
        writer.writerows(rows)
    paths = [str(tmp_path / "r.csv"), str(calibrated.run.folder / "manifest.json")]
    command = [sys.executable, "tools/recompute.py", *paths, "--against", str(calibrated.folder / "r.json")]
    done = subprocess.run(command, cwd=PROJECT_ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "total.losses.authority_breaches.mean: recomputed" in done.stdout


def test_the_inspect_log_has_the_same_numbers(calibrated: Calibrated) -> None:
    log = pytest.importorskip("inspect_ai.log", reason="the extra 'inspect' is not installed: inspect-ai writes logs")
    path = calibrated.folder / "r.eval"
    ledger = ("--ledger", calibrated.run.stack.ledger.address)
    status, _, errors = run_command("report", calibrated.run.folder, "--out", path, *ledger)
    assert status == 0, errors
    read = log.read_eval_log(str(path))
    lines = {line["episode_id"]: line for line in calibrated.lines}
    assert [sample.id for sample in read.samples] == sorted(lines), "Inspect reads samples in the order of their ids"
    for sample in read.samples:
        line = lines[sample.id]
        assert (sample.error is None) == bool(sample.scores) == (line["status"] == "completed")
        assert sample.metadata["stop_category"] == line["stop_category"]
        if sample.scores:
            assert sample.scores["weighted_loss"].value == line["weighted_loss"]
            assert sample.scores["achieved"].value == line["achieved"]
    total = calibrated.analysis["total"]
    metrics = {score.name: {name: one.value for name, one in score.metrics.items()} for score in read.results.scores}
    for name in ("achieved", "authority_breach", "false_claim"):
        assert metrics[name] == {key: total[name][key] for key in ("rate", "lower_bound", "upper_bound")}
