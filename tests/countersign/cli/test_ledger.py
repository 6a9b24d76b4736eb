"""`countersign ledger` against a stand-in."""

from pathlib import Path

import pytest

from countersign.ledger.v1 import ledger_pb2 as ledger
from tests.countersign.cli.conftest import Command
from tests.countersign.study.fakes import Fakes


@pytest.fixture
def at(fakes: Fakes) -> tuple[str, str]:
    """The option that names the stand-in, which has a study with a charged and a held call."""
    fakes.ledger.studies["s"] = ledger.OpenStudyRequest(study_id="s", max_in_flight=1)
    fakes.ledger.studies["s"].call_ceiling.currency_code = "USD"
    fakes.ledger.put("s", "e", 1, ledger.CALL_STATE_CHARGED)
    held = fakes.ledger.put("s", "e", 2, ledger.CALL_STATE_HELD)
    held.hold_category = ledger.HOLD_CATEGORY_TRANSPORT_UNKNOWN
    held.progress = ledger.REQUEST_PROGRESS_SENT
    return ("--ledger", fakes.addresses.ledger)


def test_the_summary_names_every_balance(command: Command, at: tuple[str, str]) -> None:
    account, study = command("ledger", "summary", "lab", "--json", *at).lines()
    assert (account["charged"], account["held"], account["currency"]) == ("0.000001", "0.000001", "USD")
    assert study["study_id"] == "s"
    assert study["calls"] == {"charged": 1, "reserved": 0, "held": 1, "resolved": 0}
    assert "1 charged, 1 held" in command("ledger", "summary", "lab", *at).out


def test_calls_are_listed_and_chosen_by_state(command: Command, at: tuple[str, str]) -> None:
    calls = command("ledger", "calls", "s", "--json", *at).lines()
    assert [(call["turn"], call["state"], call["why"]) for call in calls] == [
        (1, "CHARGED", None),
        (2, "HELD", "TRANSPORT_UNKNOWN SENT"),
    ]
    assert [call["turn"] for call in command("ledger", "calls", "s", "--state", "held", "--json", *at).lines()] == [2]


def test_a_hold_is_resolved_once_with_evidence(command: Command, fakes: Fakes, at: tuple[str, str]) -> None:
    call_id = fakes.ledger.calls[1].call_id.hex()
    decision = ("ledger", "resolve", call_id, "--charged", "0.0000005", "--evidence", "bill 7", "--by", "ada")
    first = command(*decision, "--json", *at).lines()[0]
    assert (first["state"], first["accounted"], first["evidence"], first["replayed"]) == (
        "RESOLVED",
        "0.0000005",
        "bill 7",
        False,
    )
    assert command(*decision, "--json", *at).lines()[0]["replayed"] is True
    other = command("ledger", "resolve", call_id, "--never-sent", "--evidence", "bill 7", "--by", "ada", *at)
    assert other.status == 2
    assert "REQUEST_ID_CONFLICT" in other.err


def test_a_grant_happens_once_for_equal_inputs(command: Command, fakes: Fakes, at: tuple[str, str]) -> None:
    grant = ("ledger", "grant", "lab", "2.5", "--by", "ada", "--reason", "more", "--json", *at)
    assert command(*grant).lines() == [{"account_id": "lab", "granted_total": "2.5", "replayed": False}]
    assert command(*grant).lines() == [{"account_id": "lab", "granted_total": "2.5", "replayed": True}]
    assert fakes.ledger.granted == 2_500_000_000


def test_a_journal_that_is_not_intact_gives_status_1(command: Command, fakes: Fakes, at: tuple[str, str]) -> None:
    good = command("ledger", "verify", "--json", *at)
    whole = {"intact": True, "entries": 4, "accounts": 1, "differences": [], "heads": [], "checkpoint": None}
    assert (good.status, good.lines()) == (0, [whole])
    fakes.ledger.tampered = True
    bad = command("ledger", "verify", *at)
    assert bad.status == 1
    assert "NOT INTACT" in bad.out
    assert "account lab: entry 3 was changed: it does not follow from the entry before it" in bad.out


def test_wrong_input_gives_one_line_and_status_2(
    command: Command, at: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COUNTERSIGN_LEDGER", raising=False)
    by = ("--by", "ada", "--evidence", "e")
    for arguments in (
        ("summary", "lab"),
        ("summary", "lab", "--store", tmp_path / "none"),
        ("summary", "lab", "--store", tmp_path, *at),
        ("calls", "s", "--state", "lost", *at),
        ("resolve", "77", "--never-sent", *by, *at),
        ("resolve", "00" * 32, *by, *at),
        ("resolve", "00" * 32, "--never-sent", "--charged", "1", *by, *at),
        ("resolve", "00" * 32, "--charged", "much", *by, *at),
        ("resolve", "00" * 32, "--never-sent", *by, *at),
        ("grant", "lab", "nan", "--by", "ada", "--reason", "r", *at),
        ("grant", "lab", "1", *at),
    ):
        answer = command("ledger", *arguments)
        assert (answer.status, answer.out) == (2, ""), arguments
        assert answer.err.count("\n") == 1


def test_a_ledger_that_is_not_there_is_wrong_input(command: Command, tmp_path: Path) -> None:
    answer = command("ledger", "verify", "--ledger", f"unix:{tmp_path}/none")
    assert (answer.status, answer.err.count("\n")) == (2, 1)
    assert "the ledger cannot be reached" in answer.err
