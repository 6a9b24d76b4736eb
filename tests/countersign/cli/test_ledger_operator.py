"""An operator's tools against a real ledger: budgets, standings, what is in doubt and deciding on it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger_svc.ledger import Ledger
from tests.countersign.cli.conftest import Command
from tests.countersign.cli.served import served, with_ledger
from tests.ledger_svc import support
from tests.ledger_svc.support import LEASE, Clock, furnish

CALL_ID = support.slot().call_id().hex()


@pytest.fixture
def at(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A ledger with a held call in `study`, and one in `slow` whose lease has ended; the option that names it."""

    async def fill(ledger: Ledger) -> None:
        await furnish(ledger, granted_nanos=1000, cap_nanos=400)
        await ledger.submit(support.open_study(100, study_id="slow"))
        await ledger.submit(support.open_study(100, study_id="idle"))
        await ledger.reserve(support.reserve(30))
        await ledger.submit(support.hold())
        await ledger.reserve(support.reserve(5, at=support.slot(study_id="slow")))

    path, clock = tmp_path / "ledger.db", Clock()
    with_ledger(path, fill, clock)
    clock.advance(LEASE)
    with served(path, clock) as option:
        yield option


def test_holds_say_how_far_since_when_and_how_much(command: Command, at: tuple[str, str]) -> None:
    first, second = command("ledger", "holds", "lab", "--json", *at).lines()
    assert (first["call_id"], first["study_id"], first["turn"], first["attempt"]) == (CALL_ID, "study", 1, 1)
    assert (first["hold"], first["progress"], first["http_status"]) == ("TRANSPORT_UNKNOWN", "SENT", None)
    assert (first["accounted"], first["reserved"], first["currency"]) == ("0.00000003", "0.00000003", "USD")
    assert (first["changed_at"], first["response_stored"]) == ("2023-11-14T22:13:20Z", False)
    assert (second["study_id"], second["hold"], second["progress"]) == ("slow", "LEASE_EXPIRED", None)
    assert second["changed_at"] == second["lease_expires_at"] == "2023-11-14T22:14:20Z"
    words = command("ledger", "holds", "lab", *at).out
    assert "held since 2023-11-14T22:13:20Z: TRANSPORT_UNKNOWN; the whole request left" in words
    assert "keeps 0.00000003 USD" in words
    assert "LEASE_EXPIRED; how far the request got is not known" in words
    assert "in doubt: 2 calls, 0.000000035 USD" in words
    assert command("ledger", "holds", "--study", "slow", "--json", *at).lines() == [second]
    assert command("ledger", "holds", "--study", "idle", *at).out == "nothing is in doubt\n"


def test_a_hold_without_evidence_of_sending_opens_its_slot_again(command: Command, at: tuple[str, str]) -> None:
    decision = ("ledger", "resolve", CALL_ID, "--never-sent", "--evidence", "proxy log 12", "--by", "ada")
    line = command(*decision, "--new-attempt", "--json", *at).lines()[0]
    assert (line["state"], line["accounted"], line["opened_new_attempt"]) == ("RESOLVED", "0", True)
    assert [held["study_id"] for held in command("ledger", "holds", "lab", "--json", *at).lines()] == ["slow"]
    words = command(*decision, "--new-attempt", *at).out
    assert words == f"call {CALL_ID} attempt 1 is RESOLVED at 0; its slot may be reserved once more\n"


def test_a_study_is_shown_with_its_holds(command: Command, at: tuple[str, str]) -> None:
    found = command("ledger", "study", "study", "--json", *at).lines()[0]
    assert (found["account_id"], found["granted"], found["held"], found["blocked"]) == (
        "lab",
        "0.0000004",
        "0.00000003",
        True,
    )
    assert [hold["call_id"] for hold in found["holds"]] == [CALL_ID]
    words = command("ledger", "study", "study", *at).out
    assert "study study of account lab, BLOCKED by a hold" in words
    assert f"call {CALL_ID} attempt 1" in words
    assert "study idle of account lab, open" in command("ledger", "study", "idle", *at).out


def test_an_account_is_shown_with_its_blocked_studies(command: Command, at: tuple[str, str]) -> None:
    found = command("ledger", "account", "lab", "--json", *at).lines()[0]
    assert (found["granted"], found["held"], found["available"]) == ("0.000001", "0.000000035", "0.000000965")
    assert (found["studies"], found["blocked_studies"], found["calls"]["held"]) == (3, ["study", "slow"], 2)
    words = command("ledger", "account", "lab", *at).out
    assert "  available    0.000000965\n" in words
    assert "  BLOCKED      study, slow (see 'countersign ledger holds lab')\n" in words


def test_all_accounts_are_listed(command: Command, at: tuple[str, str]) -> None:
    whole, *studies = command("ledger", "summary", "lab", "--json", *at).lines()
    listed = command("ledger", "account", "--json", *at).lines()
    assert [line["account_id"] for line in listed] == sorted(line["account_id"] for line in listed)
    assert whole in listed
    assert studies
    words = command("ledger", "account", *at).out
    assert all(line["account_id"] in words for line in listed)
    assert "0.000000965" in words


def test_an_account_and_a_study_are_opened_once(command: Command, at: tuple[str, str]) -> None:
    account = ("ledger", "open-account", "new", "--currency", "EUR", "--by", "ada", *at)
    assert command(*account).out == "account new is open, in EUR\n"
    assert command(*account, "--json").lines() == [{"account_id": "new", "currency": "EUR", "replayed": True}]
    granted = command("ledger", "grant", "new", "5", "--by", "ada", "--reason", "pilot", "--json", *at).lines()
    assert granted == [{"account_id": "new", "granted_total": "5", "replayed": False}]
    spent = ("ledger", "prior-spend", "new", "1.25", "--by", "ada", "--reason", "by hand", *at)
    assert command(*spent).out == "recorded; the account's prior spend came to 1.25 EUR\n"
    assert command(*spent, "--json").lines() == [{"account_id": "new", "prior_spend_total": "1.25", "replayed": True}]
    study = ("ledger", "open-study", "first", "--account", "new", "--cap", "2", "--by", "ada", *at)
    digest = ("--manifest-digest", "ab" * 32)
    assert command(*study, *digest, "--call-ceiling", "0.5").out == "study first of account new is open\n"
    assert command(*study, *digest, "--call-ceiling", "0.50", "--json").lines()[0]["replayed"] is True
    found = command("ledger", "study", "first", "--json", *at).lines()[0]
    assert (found["granted"], found["call_ceiling"], found["max_in_flight"]) == ("2", "0.5", 1)
    assert (found["manifest_digest"], found["currency"]) == ("ab" * 32, "EUR")
    assert command("ledger", "account", "new", "--json", *at).lines()[0]["available"] == "3.75"
    other = command(*study, *digest)
    assert (other.status, other.err.count("\n")) == (2, 1)
    assert "ALREADY_EXISTS" in other.err


def test_wrong_input_gives_one_line_and_status_2(command: Command, at: tuple[str, str]) -> None:
    by, study = ("--by", "ada"), ("open-study", "x", "--account", "lab", "--by", "ada")
    for arguments in (
        ("holds",),
        ("holds", "lab", "--study", "study"),
        ("holds", "nowhere"),
        ("holds", "--study", "nowhere"),
        ("study", "nowhere"),
        ("account", "nowhere"),
        ("calls", "nowhere"),
        ("open-account", "x", "--currency", "dollars", *by),
        ("open-account", "lab", "--currency", "EUR", *by),
        ("open-account", "x", *by),
        (*study, "--cap", "1", "--manifest-digest", "ab"),
        (*study, "--cap", "much", "--manifest-digest", "ab" * 32),
        (*study, "--cap", "1", "--max-in-flight", "0", "--manifest-digest", "ab" * 32),
        ("prior-spend", "lab", "0", "--reason", "r", *by),
        ("prior-spend", "nowhere", "1", "--reason", "r", *by),
    ):
        answer = command("ledger", *arguments, *at)
        assert (answer.status, answer.out, answer.err.count("\n")) == (2, "", 1), arguments
