"""A study from freeze to report through the real services (design/study.md)."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.integration.studies import Lab, answers, completion, nanos, open_lab, route, run_command, toml


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with open_lab(tmp_path_factory.mktemp("lab")) as lab:
        yield lab


@pytest.fixture
def builders(lab: Lab) -> Sequence[str]:
    return ("--adapter", lab.stack.adapter.address, "--verifier", lab.stack.verifier.address)


def succeed(*arguments: object) -> dict[str, Any]:
    """The last object that a command answers; it must succeed."""
    status, output, errors = run_command(*arguments)
    assert status == 0, errors
    return output[-1]


def refused(*arguments: object) -> str:
    """The one line that a command refuses with."""
    status, output, errors = run_command(*arguments)
    assert (status, output, errors.count("\n")) == (2, [], 1), errors
    return errors


def test_a_paid_study_goes_from_its_plan_to_its_report(lab: Lab, builders: Sequence[str], tmp_path: Path) -> None:
    served = lab.provider.url("paid", answers(completion("I stop here.")))
    plan = lab.plan("paid", [route("paid", served)], readiness="required", grant="10.00")
    folder, addresses = tmp_path / "paid", lab.stack.addresses()
    ledger = ("--ledger", lab.stack.ledger.address)
    frozen = succeed("study", "freeze", plan, "--out", folder, *builders)
    assert frozen["episodes"] == 1
    (line,) = frozen["routes"]
    assert line["episode_bound"] == frozen["study_bound"]
    plan.unlink()

    assert "a paid study needs its readiness" in refused("collect", folder, *addresses)
    status, output, _ = run_command("study", "check", folder, *addresses)
    assert status == 1
    assert [one["item"] for one in output[-1]["items"] if not one["holds"]] == ["probes"]
    assert lab.provider.received("paid") == []
    checked = succeed("study", "check", folder, "--probe", *addresses)
    assert checked["ready"]
    solved = next(one["evidence"]["templates"] for one in checked["items"] if one["item"] == "comparators")
    assert list(solved["queue"]) == ["certificate", "expected_loss"]
    assert len(lab.provider.received("paid")) == 1
    priced = succeed("study", "price", folder, *ledger, *builders)
    assert priced["sufficient"]
    assert priced["study_bound"] == frozen["study_bound"]

    collected = succeed("collect", folder, *addresses)
    assert collected["study_id"] == frozen["study_id"]
    assert collected["total"]["completed"] == {"normal_text": 1}
    assert len(lab.provider.received("paid")) == 2
    report = succeed("report", folder, "--out", tmp_path / "report.json", *ledger, *builders[2:])
    assert (report["agrees"], report["total"]["planned"]) == (True, 1)
    probes = lab.summary("paid-lab", f"{frozen['study_id']}-probe").studies[0]
    assert nanos(probes.balances.charged) == 2_000 * 500 + 20 * 1_500


def test_the_evidence_of_a_probe_is_the_ledgers_receipts(lab: Lab, builders: Sequence[str], tmp_path: Path) -> None:
    served = lab.provider.url("probed", answers(completion("I stop here.")))
    plan = lab.plan("probed", [route("probed", served)], readiness="required", comparators="unsolved", grant="10.00")
    succeed("study", "freeze", plan, "--out", tmp_path, *builders)
    checked = succeed("study", "check", tmp_path, "--probe", *lab.stack.addresses())
    (evidence,) = next(one["evidence"]["probes"] for one in checked["items"] if one["item"] == "probes")
    (stored,) = lab.calls(evidence["study_id"])
    assert [one["request_digest"] for one in evidence["receipts"]] == [stored.request_digest.hex()]
    assert [one["response_digest"] for one in evidence["receipts"]] == [stored.response_digest.hex()]
    (record,) = (tmp_path / "probe" / "records").glob("*.json")
    forged = json.loads(record.read_bytes())
    forged["calls"][0]["response_digest"] = "ab" * 32
    record.write_text(json.dumps(forged))
    assert "not ready: probes: probed: its record differs" in refused("collect", tmp_path, *lab.stack.addresses())


def test_an_amended_study_is_analysed_by_the_verifier_with_its_chain(
    lab: Lab, builders: Sequence[str], tmp_path: Path
) -> None:
    plan = lab.plan("amended", [lab.scripted("refuse")])
    addresses = lab.stack.addresses()
    ledger = ("--ledger", lab.stack.ledger.address)
    first = succeed("study", "freeze", plan, "--out", tmp_path, *builders)
    succeed("collect", tmp_path, *addresses)
    records = {path: path.read_bytes() for path in (tmp_path / "records").iterdir()}
    plan.write_text(plan.read_text().replace('cap = "1.00"', 'cap = "0.90"'))
    amended = succeed("study", "amend", tmp_path, plan, "--reason", "A lower cap.", *builders)
    assert amended["study_id"] != first["study_id"]
    collected = succeed("collect", tmp_path, *addresses)
    assert collected["study_id"] == amended["study_id"]
    analysis = succeed("report", tmp_path, "--out", tmp_path / "r.json", *ledger, *builders[2:])
    assert analysis["agrees"]
    assert (analysis["study_id"], analysis["amendments"]) == (amended["study_id"], amended["amendments"])
    assert {path: path.read_bytes() for path in records} == records
    assert (tmp_path / "amended" / "0001" / "analysis.json").is_file()
    assert len(lab.calls(first["study_id"])) == len(lab.calls(amended["study_id"])) == 1


FAMILY = """
[[families]]
name = "queues"
environment = "queue"
held_out = 2
worlds = [{ name = "both", need_a = true, need_b = true }, { name = "only-b", need_a = false, need_b = true }]
[families.contract]
"""


def test_held_out_templates_are_collected_and_analysed_once_they_are_revealed(
    lab: Lab, builders: Sequence[str], tmp_path: Path
) -> None:
    plan = lab.plan("held", [lab.scripted("act-well")])
    fields = {"deadline_a": 3, "deadline_b": {"min": 4, "max": 9}, "verification_delay": [1, 2]}
    rest = {"buffer_extension": {"min": 1, "max": 3}, "max_calls": 12}
    contract = "\n".join(f"{name} = {toml(value)}" for name, value in {**fields, **rest}.items())
    plan.write_text(f"{plan.read_text()}\n{FAMILY}{contract}\n")
    folder, secret = tmp_path / "held", tmp_path / "secret"
    assert "--secret FILE goes with a plan that has families" in refused("study", "freeze", plan, "--out", folder)
    assert "freeze it with" in refused("collect", plan, "--out", folder, *lab.stack.addresses())
    first = succeed("study", "freeze", plan, "--out", folder, "--secret", secret, *builders)
    assert secret.stat().st_mode & 0o777 == 0o600
    assert secret.read_text().strip() not in (folder / "manifest.json").read_text()
    assert first["episodes"] == 1
    wrong = tmp_path / "wrong"
    wrong.write_text("00" * 32)
    wrong.chmod(0o600)
    assert "does not open its commitments" in refused("study", "reveal", folder, "--secret", wrong, *builders)
    revealed = succeed("study", "reveal", folder, "--secret", secret, *builders)
    assert revealed["episodes"] == 1 + 2 * 2
    collected = succeed("collect", folder, *lab.stack.addresses())
    assert collected["total"]["planned"] == sum(collected["total"]["completed"].values()) == 5
    analysis = succeed(
        "report", folder, "--out", tmp_path / "r.json", "--ledger", lab.stack.ledger.address, *builders[2:]
    )
    assert analysis["agrees"]
    splits = {line["template"]: line["split"] for line in analysis["strata"]}
    assert splits == {"queue": "development", "queues-1": "held-out", "queues-2": "held-out"}
