"""`countersign collect` and `countersign report` end to end, against stand-ins."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.countersign.cli.conftest import Command
from tests.countersign.study import fakes as f
from tests.countersign.study.plans import BASE, plan_text, route_text


def test_a_collection_ends_with_its_report(
    command: Command, addresses: Sequence[str], plan_file: Path, tmp_path: Path
) -> None:
    answer = command("collect", plan_file, "--out", tmp_path / "run", *addresses)
    assert answer.status == 0
    assert "4 explicit_finish" in answer.out
    assert "records, calls and balances add up" in answer.out
    assert "[4/4] r/window/need/own/default/1: completed (explicit_finish), verified" in answer.err
    assert "the whole of it can cost at most 0 USD; the account has 1 USD available" in answer.err


def test_with_json_every_line_of_standard_output_is_an_object(
    command: Command, addresses: Sequence[str], plan_file: Path, tmp_path: Path
) -> None:
    first = command("collect", plan_file, "--out", tmp_path / "run", "--json", *addresses).lines()
    assert [line["event"] for line in first] == ["begin", "episode", "episode", "episode", "episode", "report"]
    assert first[1]["verified"] is True
    again = command("collect", plan_file, "--out", tmp_path / "run", "--json", *addresses).lines()
    assert [line["event"] for line in again] == ["begin", "report"]
    assert again[0] == {"event": "begin", "planned": 4, "recorded": 4}
    report = command("report", tmp_path / "run", "--json", "--ledger", addresses[1]).lines()
    assert report == [{key: value for key, value in again[-1].items() if key != "event"}]


def test_a_report_without_a_ledger_says_where_money_is_from(
    command: Command, addresses: Sequence[str], plan_file: Path, tmp_path: Path
) -> None:
    command("collect", plan_file, "--out", tmp_path / "run", *addresses)
    answer = command("report", tmp_path / "run")
    assert answer.status == 0
    assert "money in USD, from the records: charged 0.000004 (4 calls)" in answer.out
    assert "money is from the records" in answer.err
    gone = command("report", tmp_path / "run", "--ledger", f"unix:{tmp_path}/none")
    assert gone.status == 0
    assert "the ledger cannot be reached" in gone.err


def test_a_difference_gives_status_1(
    command: Command, fakes: f.Fakes, addresses: Sequence[str], plan_file: Path, tmp_path: Path
) -> None:
    fakes.verifier.differ.add("r")
    answer = command("collect", plan_file, "--out", tmp_path / "run", *addresses)
    assert answer.status == 1
    assert "4 differs" in answer.out
    assert command("report", tmp_path / "run").status == 1


def test_a_hold_gives_status_3_and_says_what_to_do(
    command: Command, fakes: f.Fakes, addresses: Sequence[str], plan_file: Path, tmp_path: Path
) -> None:
    fakes.adapter.scripts["r"] = f.transport_fails
    answer = command("collect", plan_file, "--out", tmp_path / "run", *addresses)
    assert answer.status == 3
    assert "a hold blocks the study: see 'countersign ledger calls'" in answer.err
    assert "the study is BLOCKED by a hold" in answer.out


def test_the_stop_rule_gives_status_3(
    command: Command, fakes: f.Fakes, addresses: Sequence[str], plan_file: Path, tmp_path: Path
) -> None:
    plan_file.write_text(plan_text(base=BASE.replace('stop = "never"', 'stop = "study"')))
    fakes.adapter.scripts["r"] = f.answers_nonsense
    assert command("collect", plan_file, "--out", tmp_path / "run", *addresses).status == 3


def test_a_service_that_goes_away_gives_status_1(
    command: Command, fakes: f.Fakes, addresses: Sequence[str], plan_file: Path, tmp_path: Path
) -> None:
    fakes.adapter.scripts["r"] = f.cut_off
    answer = command("collect", plan_file, "--out", tmp_path / "run", *addresses)
    assert answer.status == 1
    assert "what is missing is collected when this is run again" in answer.err
    assert "1 service_unavailable" in answer.out


def test_wrong_input_gives_one_line_and_status_2(
    command: Command, fakes: f.Fakes, addresses: Sequence[str], plan_file: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    command("collect", plan_file, "--out", run, *addresses)
    before = {path: path.read_bytes() for path in run.rglob("*.json")}
    plan_file.write_text(plan_text(route_text(more="repetitions = 2")))
    wrong = [
        ("collect", plan_file, "--out", run, *addresses),
        ("collect", tmp_path / "none.toml"),
        ("collect", plan_file, "--max-in-flight", 2),
        ("collect", plan_file, "--max-in-flight", "two"),
        ("collect", plan_file, "--out", plan_file / "x", *addresses),
        ("collect", plan_file, "--out", tmp_path / "b", "--ledger", "here", *addresses[2:]),
        ("collect",),
        ("report", tmp_path / "nowhere"),
        ("report",),
        ("launch",),
        ("--colour",),
    ]
    for arguments in wrong:
        answer = command(*arguments)
        assert answer.status == 2, arguments
        assert answer.out == ""
        assert answer.err.count("\n") == 1, answer.err
        assert answer.err.startswith("countersign: ")
    assert {path: path.read_bytes() for path in run.rglob("*.json")} == before


def test_a_stray_record_is_refused(command: Command, addresses: Sequence[str], plan_file: Path, tmp_path: Path) -> None:
    command("collect", plan_file, "--out", tmp_path / "run", *addresses)
    (tmp_path / "run" / "records" / "stray.json").write_text("{}")
    answer = command("report", tmp_path / "run")
    assert (answer.status, answer.out) == (2, "")
    assert "stray.json is not a record" in answer.err


@pytest.mark.parametrize("arguments", [("--help",), ("collect", "--help"), ("ledger", "--help"), ()])
def test_help_is_on_standard_output(command: Command, arguments: tuple[str, ...]) -> None:
    answer = command(*arguments)
    assert answer.status == 0
    assert "Usage: countersign" in answer.out


def test_the_version(command: Command) -> None:
    assert command("--version").out == "countersign 0.1.0\n"
