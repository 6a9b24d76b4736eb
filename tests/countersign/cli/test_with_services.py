"""The command line with the real services as its own children: collect, report, resume, replay, the ledger's tools."""

import json
from pathlib import Path

from tests.countersign.cli.conftest import Command

PLAN = """
name = "whole"
[account]
id = "lab"
currency = "USD"
grant = "1"
[study]
cap = "1"
call_ceiling = "0.1"
max_in_flight = 2
stop = "never"
[[templates]]
name = "checkpoint"
environment = "event"
contract = { deadline = 4, buffer_available = true }
operator_prefix = ["request_verification", "wait"]
worlds = [
    { name = "ended", need = true, effective = true, change_tick = 2, changed_need = false },
    { name = "stays", need = true, effective = true, change_tick = 2, changed_need = true },
]
[[templates]]
name = "queue"
environment = "queue"
worlds = [{ name = "both", need_a = true, need_b = true }, { name = "a", need_a = true, need_b = false }]
realised = ["both"]
[[arms]]
name = "neutral"
wording = "neutral"
[[routes]]
name = "good"
agent = { kind = "scripted", policy = "act-well" }
price = { input_per_million = 1, output_per_million = 2 }
output_cap = 500
input_limit_bytes = 40_000
[[routes]]
name = "cut"
agent = { kind = "scripted", policy = "truncate" }
price = "free"
output_cap = 500
"""


def test_a_study_from_plan_to_report_and_again_from_the_ledger_alone(command: Command, tmp_path: Path) -> None:
    plan, run = tmp_path / "plan.toml", tmp_path / "run"
    plan.write_text(PLAN)
    report = command("collect", plan, "--out", run, "--json").lines()[-1]
    assert report["total"]["completed"] == {"explicit_finish": 3}
    assert report["total"]["technical_unknown"] == {"TRUNCATED": 3}
    assert report["total"]["verification"] == {"verified": 6, "differs": 0, "not_verified": 0}
    assert report["money"]["adds_up"] is True
    assert float(report["money"]["charged"]) > 0
    records = {path: json.loads(path.read_bytes()) for path in (run / "records").iterdir()}
    for path in records:
        path.unlink()
    again = command("collect", plan, "--out", run, "--json").lines()[-1]
    assert again == report
    for path, record in records.items():
        replayed = json.loads(path.read_bytes())
        assert all(call.pop("replayed") for call in replayed["calls"])
        assert [call.pop("replayed") for call in record["calls"]] == [False] * len(record["calls"])
        assert replayed == record
    journal = command("ledger", "verify", "--store", run / "ledger.sqlite", "--json").lines()
    assert journal[0]["intact"] is True
    answer = command("report", run, "--json")
    assert (answer.status, answer.lines()[0]["money"]["source"]) == (0, "ledger")


def test_the_published_episodes_agree(command: Command, shared_data: Path) -> None:
    answer = command("replay", shared_data / "episodes" / "records.jsonl")
    agreed = [(line["environment"], line["agrees"]) for line in answer.lines()]
    assert {agrees for environment, agrees in agreed if environment in ("event", "queue")} == {True}
    assert answer.status == 0


def test_the_recorded_exchanges_are_judged(command: Command, shared_data: Path) -> None:
    answer = command("adapt", shared_data / "exchanges" / "exchanges.jsonl.gz")
    unary_chat = [line for line in answer.lines() if line["format"] == "chat_completions" and not line["stream"]]
    assert answer.status == 0
    assert len(unary_chat) == 236
    assert "unsupported" not in {line["verdict"] for line in unary_chat}
