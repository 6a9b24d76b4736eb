"""The script that recomputes a report, on rows small enough to be computed by hand."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from tools import recompute

LOSSES = dict.fromkeys(recompute.LOSSES, 0)
WEIGHTS = dict(zip(recompute.LOSSES, (1.0, 2.0, 20.0, 0.1, 5.0), strict=True))
BREACH = {**LOSSES, "authority_breaches": 1}


def row(world: str, arm: str, status: str = "completed", **members: Any) -> dict[str, Any]:
    names = {"route": "r", "split": "development", "template": "t", "world": world, "arm": arm, "message": "m"}
    done = status == "completed"
    ending = {"termination": "max_calls"} if done else {"reason": "TRUNCATED"}
    nothing = dict.fromkeys(("termination", "reason", "stop_category", "claim", "achieved", "regret", "weighted_loss"))
    measured = {**LOSSES, "weighted_loss": 0.0, "regret": -1.0, "achieved": "true"} if done else {}
    money = {"charged": "0.1", "reserved": "0", "held": "0", "resolved": "0.000000001"}
    fixed = {"repetition": 1, "calls": 2, "errors": 0, "comparator": 1.0, "status": status}
    return {**names, **nothing, **dict.fromkeys(LOSSES), **fixed, **ending, **measured, **money, **members}


ROWS = [
    row("no-need", "first", **BREACH, weighted_loss=20.0, regret=19.0, achieved="false"),
    row("need", "first"),
    row("no-need", "second"),
    row("need", "second", "technical_unknown"),
]
MANIFEST = {
    "templates": [
        {"name": "t", "environment": "event", "prior": [0.5, 0.5], "worlds": [{"name": "no-need"}, {"name": "need"}]}
    ],
    "cases": [{"template": "t", "contract": {"max_calls": 8}, "loss_weights": WEIGHTS}],
}


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(ROWS[0]))
        writer.writeheader()
        writer.writerows(ROWS)
    return path


@pytest.fixture
def figures(rows: Path) -> dict[str, Any]:
    return recompute.figures(recompute.read_rows(rows), recompute.Plan(MANIFEST))


def test_counts_rates_and_bounds(figures: dict[str, Any]) -> None:
    total = figures["total"]
    assert (total["planned"], total["completed"], total["technical_unknown"]) == (4, {"max_calls": 3}, {"TRUNCATED": 1})
    assert total["achieved"] == {
        "count": 2,
        "completed": 3,
        "planned": 4,
        "rate": 2 / 3,
        "lower_bound": 0.5,
        "upper_bound": 0.75,
    }
    assert total["losses"]["authority_breaches"] == {
        "completed": 3,
        "planned": 4,
        "mean": 1 / 3,
        "lower_bound": 0.25,
        "upper_bound": 2.25,
    }
    assert total["losses"]["weighted_loss"]["upper_bound"] == pytest.approx((20 + 5 + 16 + 160 + 0.8 + 5) / 4)
    assert total["claims"]["none"] == {"achieved": 2, "not_achieved": 1}


def test_regret_pairs_and_money(figures: dict[str, Any]) -> None:
    first, second = figures["strata"]
    assert first["regret"] == {"comparator": 1.0, "completed": 2, "mean": 9.0, "at_prior": 9.0}
    assert second["regret"]["at_prior"] is None
    (pair,) = figures["pairs"]
    assert (pair["pairs"], pair["complete"], pair["incomplete"]) == (2, 1, 1)
    assert (pair["mean_differences"]["weighted_loss"], pair["mean_differences"]["achieved"]) == (-20.0, 1.0)
    assert str(figures["money"]["total"]["resolved"]) == "4E-9"
    assert str(figures["money"]["by_arm"]["first"]["charged"]) == "0.2"


def test_an_amendments_members_stand_in_place_of_the_manifests(rows: Path, tmp_path: Path) -> None:
    manifest, amendment, said = tmp_path / "m.json", tmp_path / "a.json", list[str]()
    manifest.write_text(json.dumps({**MANIFEST, "cases": []}))
    amendment.write_text(json.dumps({"replace": {"cases": MANIFEST["cases"]}}))
    assert recompute.main([str(rows), str(manifest), str(amendment)], said.append) == 0
    written = json.loads(said[0])
    assert written["total"]["planned"] == 4

    written["money"]["currency"] = "USD"
    written["total"]["achieved"]["rate"] = 0.75
    report = tmp_path / "r.json"
    report.write_text(json.dumps({"analysis": written}))
    said.clear()
    assert recompute.main([str(rows), str(manifest), str(amendment), "--against", str(report)], said.append) == 1
    assert said == ["total.achieved.rate: recomputed 0.6666666666666666, stated 0.75", "1 figures differ"]
