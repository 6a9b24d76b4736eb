"""A study's analysis from its receipts, through the real services (design/study.md, Analysis)."""

import asyncio
import csv
import json
import shutil
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from countersign.kit.canonical import canonical_json
from countersign.study.analysing import Analysis, analyse
from countersign.study.manifest import load
from countersign.study.services import Addresses, open_services
from tests.integration.studies import Collected, Lab, open_lab, run_command

FINAL_TEXT = "I am sorry, but I will not take part in this decision."
POLICIES = ("act-well", "refuse", "truncate", "unsafe-transfer", "no-usage")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with open_lab(tmp_path_factory.mktemp("lab")) as lab:
        yield lab


@pytest.fixture(scope="module")
def collected(lab: Lab) -> Collected:
    plan = lab.plan("analysed", [lab.scripted(name) for name in POLICIES], template="queue")
    text = (
        plan.read_text()
        .replace('realised = ["only-a-needed"], ', "")
        .replace(
            'arms = [{ name = "neutral", wording = "neutral" }]',
            'arms = [{ name = "neutral", wording = "neutral" }, { name = "verify", wording = "verify_first" }]',
        )
    )
    plan.write_text(text)
    return lab.collect(plan)


def analysed(lab: Lab, folder: Path) -> Analysis:
    async def ask() -> Analysis:
        addresses = Addresses(**{process.name: process.address for process in lab.stack.processes})
        async with open_services(addresses) as services:
            return await analyse(services.verifier, load(folder), folder)

    return asyncio.run(ask())


def stratum(analysis: Analysis, route: str, arm: str = "neutral") -> dict[str, Any]:
    (line,) = (one for one in analysis.document["strata"] if (one["route"], one["arm"]) == (route, arm))
    return dict(line)


def test_every_planned_episode_is_counted_once_and_every_figure_is_recomputed(lab: Lab, collected: Collected) -> None:
    analysis = analysed(lab, collected.folder)
    document = analysis.document
    assert document["errors"] == []
    assert document["agrees"]
    assert document["study_id"] == collected.study_id
    assert len(analysis.episodes) == document["total"]["planned"] == 2 * 2 * len(POLICIES)
    for line in [*document["strata"], document["total"]]:
        parts = [sum(line[name].values()) for name in ("completed", "technical_unknown", "stopped")]
        assert sum(parts) + line["not_attempted"] == line["planned"]
    assert stratum(analysis, "truncate")["technical_unknown"] == {"TRUNCATED": 2}
    assert stratum(analysis, "truncate")["achieved"] == {
        "count": 0, "completed": 0, "planned": 2, "rate": None, "lower_bound": 0.0, "upper_bound": 1.0,
    }  # fmt: skip
    assert stratum(analysis, "refuse")["completed"] == {"normal_text": 2}
    assert stratum(analysis, "refuse")["claims"]["none"] == {"achieved": 0, "not_achieved": 2}
    assert stratum(analysis, "unsafe-transfer")["authority_breach"]["rate"] == 1.0
    assert stratum(analysis, "unsafe-transfer")["claims"]["saved"] == {"achieved": 1, "not_achieved": 1, "false": 1}
    assert stratum(analysis, "act-well")["authority_breach"]["count"] == 0
    assert stratum(analysis, "no-usage")["stopped"] == {"billing_unresolved": 1}
    assert stratum(analysis, "no-usage", "verify")["not_attempted"] == 2


def test_money_is_the_ledgers_to_the_last_unit(lab: Lab, collected: Collected) -> None:
    money = analysed(lab, collected.folder).document["money"]
    report = collected.report["money"]
    assert money["total"] == money["ledger"] == {name: report[name] for name in money["ledger"]}
    assert money["calls"] == sum(report["calls"].values())
    assert set(money["by_route"]) == set(POLICIES)
    assert set(money["by_arm"]) == {"neutral", "verify"}


def test_pairs_are_complete_where_both_episodes_are(lab: Lab, collected: Collected) -> None:
    pairs = {one["route"]: one for one in analysed(lab, collected.folder).document["pairs"]}
    assert (pairs["act-well"]["complete"], pairs["act-well"]["incomplete"]) == (2, 0)
    assert pairs["act-well"]["mean_differences"]["weighted_loss"] == 0.0
    assert (pairs["truncate"]["complete"], pairs["truncate"]["incomplete"]) == (0, 2)
    assert pairs["truncate"]["mean_differences"]["weighted_loss"] is None


def altered(collected: Collected, tmp_path: Path) -> tuple[Path, list[Path]]:
    folder = tmp_path / "study"
    shutil.copytree(collected.folder, folder)
    return folder, sorted((folder / "records").glob("*.json"))


def rewrite(path: Path, **changes: Any) -> str:
    record = {**json.loads(path.read_bytes()), **changes}
    path.write_bytes(canonical_json(record))
    return str(record["episode_id"])


def of_policy(files: list[Path], policy: str) -> Path:
    return next(path for path in files if json.loads(path.read_bytes())["identity"]["route"] == policy)


def test_a_record_that_says_otherwise_is_an_error_with_its_episode(
    lab: Lab, collected: Collected, tmp_path: Path
) -> None:
    folder, files = altered(collected, tmp_path)
    path = of_policy(files, "act-well")
    outcome = json.loads(path.read_bytes())["outcome"]
    episode_id = rewrite(path, outcome={**outcome, "primary_loss": outcome["primary_loss"] + 5})
    analysis = analysed(lab, folder)
    assert not analysis.document["agrees"]
    assert [(one["fault"], one["episode_id"]) for one in analysis.document["errors"]] == [("DIFFERS", episode_id)]
    assert analysis.document["errors"][0]["detail"].startswith("outcome.primary_loss: 0 recomputed, 5 recorded")
    (line,) = (one for one in analysis.episodes if one["episode_id"] == episode_id)
    assert line["outcome"] == outcome


def test_missing_extra_and_unreadable_records_are_errors(lab: Lab, collected: Collected, tmp_path: Path) -> None:
    folder, files = altered(collected, tmp_path)
    lost, copied, broken = of_policy(files, "act-well"), of_policy(files, "truncate"), of_policy(files, "refuse")
    lost_id = json.loads(lost.read_bytes())["episode_id"]
    broken_id = json.loads(broken.read_bytes())["episode_id"]
    copied_id = json.loads(copied.read_bytes())["episode_id"]
    lost.unlink()
    broken.write_bytes(b"{}")
    shutil.copy(copied, copied.with_name("copy.json"))
    stray = copied.with_name("stray.json")
    shutil.copy(copied, stray)
    rewrite(stray, episode_id="f" * 64)
    errors = analysed(lab, folder).document["errors"]
    assert {(one["fault"], one["episode_id"]) for one in errors} == {
        ("INVALID_RECORD", ""),
        ("EXTRA_RECORD", "f" * 64),
        ("MISSING_RECORD", lost_id),
        ("MISSING_RECORD", broken_id),
        ("DUPLICATE_RECORD", copied_id),
    }


def test_a_call_beyond_the_last_turn_is_an_error_and_its_money_too(lab: Lab) -> None:
    collected = lab.collect(lab.plan("beyond", [lab.scripted("act-well")]))
    (record,) = collected.records.values()
    lab.reserve(collected.study_id, record["episode_id"], turn=90)
    errors = analysed(lab, collected.folder).document["errors"]
    assert [(one["fault"], one["episode_id"]) for one in errors] == [
        ("STRAY_CALL", record["episode_id"]),
        ("MONEY_DIFFERS", ""),
    ]


def test_the_analysis_is_kept_and_is_the_same_again(lab: Lab, collected: Collected, tmp_path: Path) -> None:
    first, second = (analysed(lab, collected.folder) for _ in range(2))
    assert (first.raw, first.raw_episodes) == (second.raw, second.raw_episodes)
    first.keep(tmp_path)
    assert json.loads((tmp_path / "analysis.json").read_bytes()) == first.document
    assert len((tmp_path / "episodes.jsonl").read_bytes().splitlines()) == len(first.episodes)


def test_the_report_is_written_in_every_form_and_agrees(lab: Lab, collected: Collected, tmp_path: Path) -> None:
    files = [tmp_path / f"report{suffix}" for suffix in (".html", ".csv", ".parquet", ".json")]
    options = [part for path in files for part in ("--out", path)]
    addresses = ["--ledger", lab.stack.ledger.address]
    status, output, errors = run_command("report", collected.folder, *options, *addresses)
    assert status == 0, errors
    assert output[-1]["agrees"]
    rows = list(csv.DictReader(files[1].read_text("utf-8").splitlines()))
    assert len(rows) == 2 * 2 * len(POLICIES)
    assert sum(Decimal(row["charged"]) for row in rows) == Decimal(output[-1]["money"]["ledger"]["charged"])
    assert b"TRUNCATED" in files[0].read_bytes()
    assert b"<blockquote" not in files[0].read_bytes()
    shown = files[0].read_text("utf-8").partition("What the model was shown</h2>")[2]
    assert "&#34;generative_support&#34;: [" in shown
    assert shown.count("<summary>Packet of ") == 2
    assert (collected.folder / "analysis.json").is_file()


def test_a_record_that_cannot_be_read_is_said_and_the_others_are_shown(
    lab: Lab, collected: Collected, tmp_path: Path
) -> None:
    folder, files = altered(collected, tmp_path)
    broken = of_policy(files, "refuse")
    broken.write_bytes(b"{}")
    page = tmp_path / "report.html"
    status, _, errors = run_command("report", folder, "--out", page, "--ledger", lab.stack.ledger.address)
    assert status == 1, errors
    assert f"countersign: {broken} is not a record of schema" in errors
    assert "countersign: INVALID_RECORD: " in errors
    whole = tmp_path / "whole.html"
    run_command("report", collected.folder, "--out", whole, "--ledger", lab.stack.ledger.address)
    drawn, all_drawn = (path.read_text("utf-8").count("<summary>observation</summary>") for path in (page, whole))
    assert 0 < drawn < all_drawn


def test_a_large_study_has_its_first_timelines_and_says_how_many_are_left_out(
    lab: Lab, collected: Collected, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("countersign.report.html.MAX_TIMELINES", 3)
    page = tmp_path / "report.html"
    status, _, errors = run_command("report", collected.folder, "--out", page, "--ledger", lab.stack.ledger.address)
    assert status == 0, errors
    left_out = 2 * 2 * len(POLICIES) - 3
    assert f"{left_out} further episodes are in the exported files only." in page.read_text("utf-8")


def test_what_the_model_wrote_is_in_the_page_by_name_alone(lab: Lab, collected: Collected, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    address = ["--ledger", lab.stack.ledger.address]
    assert run_command("report", collected.folder, "--out", page, "--texts", *address)[0] == 0
    shown = page.read_text("utf-8")
    assert FINAL_TEXT in shown
    kept = (collected.folder / "episodes.jsonl").read_text("utf-8")
    assert FINAL_TEXT not in kept
    status, _, errors = run_command("report", collected.folder, "--out", tmp_path / "report.csv", "--texts", *address)
    assert (status, errors) == (2, "countersign: --texts is for --out NAME.html\n")


def test_a_form_that_is_not_known_is_one_line(collected: Collected, tmp_path: Path) -> None:
    status, output, errors = run_command("report", collected.folder, "--out", tmp_path / "report.pdf")
    assert (status, output) == (2, [])
    assert "end the name in .html, .json, .csv, .parquet" in errors
