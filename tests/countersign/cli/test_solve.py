"""`countersign solve` with a verifier of its own, and with one that runs already."""

import hashlib
import json
from pathlib import Path

import pytest

from tests.countersign.cli.conftest import Command
from tests.countersign.study.fakes import Fakes
from tests.countersign.study.test_solving import GOOD

EVENT = {
    "id": "an event",
    "environment": "event",
    "contract": {"max_calls": 3},
    "worlds": [{"need": need, "effective": True} for need in (False, True)],
    "prior": [0.5, 0.5],
}


def test_each_configuration_is_answered_in_a_line_and_in_order(command: Command, tmp_path: Path) -> None:
    path, folder = tmp_path / "file", tmp_path / "policies"
    path.write_text("\n".join(map(json.dumps, [GOOD, EVENT, {**GOOD, "id": "again"}])))
    answer = command("solve", path, "--json", "--policy", folder)
    assert (answer.status, answer.err) == (0, "countersign: 3 solved, 0 not\n")
    first, second, third = answer.lines()
    assert [line["id"] for line in (first, second, third)] == ["one", "an event", "again"]
    assert (first["expected_loss"], first["first_action"]) == (pytest.approx(0.05), "read_certificate")
    assert (second["expected_loss"], second["first_action"]) == (pytest.approx(1.05), "request_verification")
    assert first["certificate_digest"] == third["certificate_digest"]
    assert first["seconds"] > 0
    certificate = Path(first["certificate_file"]).read_bytes()
    assert first["certificate_digest"] == hashlib.sha256(certificate).hexdigest()
    policy = Path(first["policy_file"]).read_bytes()
    assert json.loads(certificate)["policy_digest"] == hashlib.sha256(policy).hexdigest()
    assert json.loads(policy)["tool"] == "read_certificate"
    raw = command("solve", path, "--raw-histories").lines()
    assert [line["expected_loss"] for line in raw] == [line["expected_loss"] for line in answer.lines()]
    assert raw[1]["states"] > second["states"]


def test_many_lines_keep_their_order_whoever_answers_them(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "file"
    items = [{**(EVENT if number % 3 == 0 else GOOD), "id": str(number)} for number in range(9)]
    path.write_text("\n".join(map(json.dumps, items)))
    answer = command("solve", path)
    assert (answer.status, answer.err) == (0, "countersign: 9 solved, 0 not\n")
    assert [line["id"] for line in answer.lines()] == [str(number) for number in range(9)]
    tools = ["request_verification", "read_certificate", "read_certificate"] * 3
    assert [line["first_action"] for line in answer.lines()] == tools


def test_what_is_not_solved_has_its_line_and_the_others_their_answers(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "file"
    bad = {**GOOD, "prior": [0.5, 0.4]}
    path.write_text("\n".join([json.dumps(bad), "{", json.dumps(GOOD), json.dumps(EVENT)]))
    answer = command("solve", path, "--state-limit", 4)
    assert (answer.status, [line["id"] for line in answer.lines()]) == (2, ["one"])
    said = answer.err.splitlines()
    assert [line.partition(": ")[2] for line in said[:3]] == [
        f"{path} line 1: the verifier refused: INVALID_CASE: the prior does not sum to 1 (field=prior)",
        f"{path} line 2: is not JSON",
        f"{path} line 4: the verifier refused: STATE_LIMIT_EXCEEDED: the case has more belief states than the limit: "
        "raise the limit, or shorten the case (state_limit=4)",
    ]
    assert said[3:] == ["countersign: 1 solved, 3 not"]


def test_a_verifier_that_runs_already_is_asked(command: Command, fakes: Fakes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text(json.dumps([GOOD]))
    answer = command("solve", path, "--verifier", fakes.addresses.verifier)
    assert (answer.status, answer.out) == (2, "")
    assert answer.err.startswith(f"countersign: {path} item 1: the verifier refused: NOT_IMPLEMENTED")
    assert command("solve", path, "--verifier", f"unix:{tmp_path}/none").status == 2


def test_a_file_that_is_not_there_or_is_broken_is_one_line(command: Command, tmp_path: Path) -> None:
    missing = command("solve", tmp_path / "none")
    assert (missing.status, missing.err.count("\n")) == (2, 1)
    path = tmp_path / "file"
    path.write_text("[1,")
    assert command("solve", path).err == f"countersign: {path}: is not JSON\n"
    assert command("solve", path, "--state-limit", -1).status == 2
