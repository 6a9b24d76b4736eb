"""`countersign study freeze`, `amend` and `price`, and `collect` and `report` of what they leave, against stand-ins."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.countersign.cli.conftest import Command
from tests.countersign.study.fakes import Fakes
from tests.countersign.study.plans import BASE, plan_text, route_text

PRICED = route_text(price="{ input_per_million = 2, output_per_million = 8 }")


@pytest.fixture
def builders(addresses: Sequence[str]) -> Sequence[str]:
    """The options that name the stand-ins of the adapter and the verifier."""
    return addresses[2:]


def test_freezing_writes_the_manifest_that_collecting_would(
    command: Command, addresses: Sequence[str], builders: Sequence[str], plan_file: Path, tmp_path: Path
) -> None:
    frozen = command("study", "freeze", plan_file, "--out", tmp_path / "a", "--json", *builders)
    assert frozen.status == 0
    (line,) = frozen.lines()
    assert line["episodes"] == 4
    assert line["study_bound"] == "0"
    content = (tmp_path / "a" / "manifest.json").read_bytes()
    assert json.loads(content)["manifest_digest"] == line["manifest_digest"]
    assert command("collect", plan_file, "--out", tmp_path / "b", *addresses).status == 0
    assert (tmp_path / "b" / "manifest.json").read_bytes() == content


def test_freezing_again_changes_nothing_and_another_plan_is_refused(
    command: Command, builders: Sequence[str], plan_file: Path, tmp_path: Path
) -> None:
    arguments = ("study", "freeze", plan_file, "--out", tmp_path / "a", *builders)
    assert "4 planned episodes, every packet audited" in command(*arguments).out
    content = (tmp_path / "a" / "manifest.json").read_bytes()
    assert "frozen before" in command(*arguments).err
    plan_file.write_text(plan_text(route_text(more="repetitions = 2")))
    refused = command(*arguments)
    assert (refused.status, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert "manifest of another study" in refused.err
    assert (tmp_path / "a" / "manifest.json").read_bytes() == content


@pytest.mark.parametrize("by", ["", "manifest.json"])
def test_a_frozen_study_is_collected_without_its_plan(
    command: Command, addresses: Sequence[str], builders: Sequence[str], plan_file: Path, tmp_path: Path, by: str
) -> None:
    folder = tmp_path / "a"
    command("study", "freeze", plan_file, "--out", folder, *builders)
    plan_file.unlink()
    collected = command("collect", folder / by, "--json", *addresses)
    assert collected.status == 0
    assert collected.lines()[-1]["total"]["completed"] == {"explicit_finish": 4}
    again = command("collect", folder / by, "--json", *addresses).lines()
    assert again[0] == {"event": "begin", "planned": 4, "recorded": 4}
    wrong = command("collect", folder / by, "--out", tmp_path / "b", *addresses)
    assert (wrong.status, wrong.err.count("\n")) == (2, 1)


def test_an_amended_study_is_collected_and_reported_apart(
    command: Command, addresses: Sequence[str], builders: Sequence[str], plan_file: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "a"
    first = command("collect", plan_file, "--out", folder, "--json", *addresses).lines()[-1]
    before = {path: path.read_bytes() for path in folder.rglob("*.json")}
    plan_file.write_text(plan_text(route_text(more="repetitions = 2")))
    reason = ("--reason", "Twice as many.")
    amended = command("study", "amend", folder, plan_file, *reason, "--json", *builders)
    assert amended.status == 0
    (line,) = amended.lines()
    assert (line["episodes"], len(line["amendments"])) == (8, 1)
    second = command("collect", folder, "--json", *addresses).lines()[-1]
    assert second["study_id"] == line["study_id"] != first["study_id"]
    assert second["total"]["completed"] == {"explicit_finish": 8}
    report = command("report", folder, "--json", "--ledger", addresses[1]).lines()[-1]
    assert report["study_id"] == line["study_id"]
    assert report["total"]["planned"] == 8
    assert {path: path.read_bytes() for path in before} == before
    assert len(list((folder / "amended" / "0001" / "records").glob("*.json"))) == 8
    nothing = command("study", "amend", folder, plan_file, *reason, *builders)
    assert (nothing.status, nothing.out, nothing.err.count("\n")) == (2, "", 1)


def test_a_price_is_exact_for_a_call_an_episode_and_the_study(
    command: Command, fakes: Fakes, addresses: Sequence[str], plan_file: Path, tmp_path: Path
) -> None:
    plan_file.write_text(plan_text(PRICED))
    (line,) = command("study", "price", plan_file, "--json", *addresses[2:]).lines()
    route = {"route": "r", "episodes": 4, "call_bound": "0.0409", "episode_bound": "0.3272", "total_bound": "1.3088"}
    assert line == {
        "currency": "USD",
        "routes": [route],
        "study_bound": "1.3088",
        "available": None,
        "sufficient": None,
    }
    fakes.ledger.granted = 1_308_800_000
    (line,) = command("study", "price", plan_file, "--json", *addresses).lines()
    assert (line["available"], line["sufficient"]) == ("1.3088", True)
    fakes.ledger.granted -= 1
    command("study", "freeze", plan_file, "--out", tmp_path / "a", *addresses[2:])
    assert "has 1.308799999 USD available: NOT enough" in command("study", "price", tmp_path / "a", *addresses).out


def test_wrong_input_gives_one_line_and_status_2(
    command: Command, builders: Sequence[str], plan_file: Path, tmp_path: Path
) -> None:
    wrong = [
        ("study", "freeze", tmp_path / "none.toml", *builders),
        ("study", "freeze", plan_file, "--adapter", "here"),
        ("study", "amend", tmp_path, plan_file, "--reason", "x", *builders),
        ("study", "amend", tmp_path, plan_file),
        ("study", "price", tmp_path, *builders),
        ("study", "launch"),
    ]
    plan_file.write_text(plan_text(base=BASE))
    for arguments in wrong:
        answer = command(*arguments)
        assert (answer.status, answer.out, answer.err.count("\n")) == (2, "", 1), answer.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plan.toml"]


def test_a_paid_study_is_collected_once_its_check_says_ready(
    command: Command, fakes: Fakes, addresses: Sequence[str], builders: Sequence[str], plan_file: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "a"
    base = BASE.replace('readiness = "waived"', 'comparators = "unsolved"').replace("grant = 1", "grant = 2")
    plan_file.write_text(plan_text(PRICED, base=base))
    command("study", "freeze", plan_file, "--out", folder, *builders)
    refused = command("collect", folder, *addresses)
    assert (refused.status, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert "a paid study needs its readiness" in refused.err
    unprobed = command("study", "check", folder, "--json", *addresses)
    assert unprobed.status == 1
    assert fakes.adapter.ran == []
    assert [one["item"] for one in unprobed.lines()[0]["items"] if not one["holds"]] == ["probes"]
    assert "not ready: probes: r: not probed" in command("collect", folder, *addresses).err
    probed = command("study", "check", folder, "--probe", *addresses)
    assert probed.status == 0
    assert "1 handshakes of one call each can cost at most 0.0409 USD together" in probed.err
    assert "1 routes answered, every record verified" in probed.out
    assert len(fakes.adapter.ran) == 1
    (line,) = command("study", "check", folder, "--probe", "--json", *addresses).lines()
    assert (line["ready"], line["required"], len(fakes.adapter.ran)) == (True, True, 1)
    assert json.loads((folder / "readiness.json").read_bytes())["readiness_digest"] == line["readiness_digest"]
    assert command("collect", folder, *addresses).status == 0
    assert len(fakes.adapter.ran) == 5


def test_a_free_study_needs_no_readiness(
    command: Command, addresses: Sequence[str], builders: Sequence[str], plan_file: Path, tmp_path: Path
) -> None:
    command("study", "freeze", plan_file, "--out", tmp_path / "a", *builders)
    checked = command("study", "check", tmp_path / "a", *addresses)
    assert checked.status == 1
    assert "this study needs no readiness" in checked.err
    assert command("collect", tmp_path / "a", *addresses).status == 0
