"""The inspector finds what breaks an invariant: a history that holds, spoilt in one way at a time."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from countersign.ledger.v1 import ledger_pb2 as pb
from tests.soak.book import Decision
from tests.soak.fabricated import (
    ACCOUNT,
    CAP,
    CEILING,
    COST,
    EPISODE,
    GRANT,
    RESERVED,
    SECOND,
    STUDY,
    Journal,
    a_record,
    a_report,
    arrive,
    digest_of,
    inspector_of,
    invariants,
    receipt,
)
from tests.soak.inspector import Inspector, journal_faults
from tests.soak.records import Outcomes, SecretScan, record_faults, report_faults
from tests.soak.violations import Invariant


def charged() -> Journal:
    journal = Journal().opened()
    journal.call("RESERVED")
    journal.call("CHARGED")
    return journal


def held() -> Journal:
    journal = Journal().opened()
    journal.call("RESERVED")
    journal.call("HELD")
    return journal


def test_a_history_that_holds_has_no_fault(tmp_path: Path) -> None:
    inspector = inspector_of(tmp_path, charged())
    assert not inspector.found
    assert not inspector.broken.is_set()
    assert not list(inspector.sent_faults())
    balances = (GRANT, 0, COST, 0, 0, 0)
    assert inspector.book.accounts[ACCOUNT].balances() == balances
    assert not list(inspector.balance_faults(ACCOUNT, balances, GRANT - COST))


def test_a_hold_that_the_operator_decided_is_no_fault(tmp_path: Path) -> None:
    journal = held()
    inspector = inspector_of(tmp_path, journal)
    inspector.book.decisions[(digest_of("first"), 1)] = Decision(RESERVED, False)
    inspector.tell(inspector.entry_faults(journal.call("RESOLVED")))
    assert not inspector.found


def test_late_evidence_charges_a_hold(tmp_path: Path) -> None:
    journal = held()
    journal.call("CHARGED", receipt=receipt("first", journal.at, late=True))
    assert not inspector_of(tmp_path, journal).found


def charged_unreserved(journal: Journal) -> None:
    journal.call("CHARGED", "second")


def above_the_budget(journal: Journal) -> None:
    journal.add("PRIOR_SPEND_RECORDED", account_id=ACCOUNT, amount_nanos=GRANT - COST)
    journal.call("RESERVED", "second")


def above_the_cap(journal: Journal) -> None:
    for n in range(CAP // RESERVED + 1):
        slot = f"slot {n}"
        journal.call("RESERVED", slot)
        if n:
            journal.call("HELD", f"slot {n - 1}")


def above_the_ceiling(journal: Journal) -> None:
    journal.call("RESERVED", "second", reserved_nanos=CEILING + 1, accounted_nanos=CEILING + 1)


def too_many_in_flight(journal: Journal) -> None:
    for slot in ("second", "third", "fourth"):
        journal.call("RESERVED", slot, reserved_nanos=1, accounted_nanos=1)


def charged_above(journal: Journal) -> None:
    journal.call("RESERVED", "second")
    journal.call("CHARGED", "second", accounted_nanos=RESERVED + 1)


def resolved_by_nobody(journal: Journal) -> None:
    journal.call("RESERVED", "second")
    journal.call("HELD", "second")
    journal.call("RESOLVED", "second")


def hold_that_frees(journal: Journal) -> None:
    journal.call("RESERVED", "second")
    journal.call("HELD", "second", accounted_nanos=0)


def hold_charged_in_time(journal: Journal) -> None:
    journal.call("RESERVED", "second")
    journal.call("HELD", "second")
    journal.call("CHARGED", "second")


def charged_without_an_answer(journal: Journal) -> None:
    journal.call("RESERVED", "second")
    journal.call("CHARGED", "second", receipt=None)


def blocked_study_goes_on(journal: Journal) -> None:
    journal.call("RESERVED", "second")
    journal.call("HELD", "second")
    journal.call("RESERVED", "third")


def charge_undone(journal: Journal) -> None:
    journal.call("HELD")


def reserved_twice(journal: Journal) -> None:
    journal.call("RESERVED")


def attempt_that_nobody_opened(journal: Journal) -> None:
    journal.call("RESERVED", attempt=2)


def answer_that_nobody_gave(journal: Journal) -> None:
    journal.call("RESERVED", "second")
    journal.call("CHARGED", "second", receipt=receipt("another", journal.at))


def reasoning_altered(journal: Journal) -> None:
    journal.call("RESERVED", "second")
    journal.call("HELD", "second", hold={"category": "HTTP_STATUS", "progress": "SENT", "http_status": 400})


def body_changed(journal: Journal) -> None:
    entry = journal.entries[1]
    journal.entries[1] = entry._replace(body=entry.body.replace(b"1000", b"2000"))


def entry_rewritten(journal: Journal) -> None:
    journal.entries[1] = Journal(entries=journal.entries[:1]).add("BUDGET_GRANTED", amount_nanos=2 * GRANT)


def entry_lost(journal: Journal) -> None:
    del journal.entries[1]


def cut_short(journal: Journal) -> None:
    journal.entries += journal.entries[:2]


def unreadable(journal: Journal) -> None:
    journal.add("CALL_CHARGED", call={"study_id": STUDY})


SPOILT: dict[Callable[[Journal], None], Invariant] = {
    charged_unreserved: Invariant.I1,
    above_the_budget: Invariant.I2,
    above_the_cap: Invariant.I2,
    above_the_ceiling: Invariant.I2,
    too_many_in_flight: Invariant.I2,
    charged_above: Invariant.I2,
    resolved_by_nobody: Invariant.I3,
    hold_that_frees: Invariant.I3,
    hold_charged_in_time: Invariant.I3,
    charged_without_an_answer: Invariant.I3,
    blocked_study_goes_on: Invariant.I3,
    charge_undone: Invariant.I3,
    reserved_twice: Invariant.I4,
    attempt_that_nobody_opened: Invariant.I4,
    answer_that_nobody_gave: Invariant.I5,
    reasoning_altered: Invariant.I9,
    body_changed: Invariant.JOURNAL,
    entry_rewritten: Invariant.JOURNAL,
    entry_lost: Invariant.JOURNAL,
    cut_short: Invariant.JOURNAL,
    unreadable: Invariant.JOURNAL,
}


@pytest.mark.parametrize(("spoil", "broken"), SPOILT.items(), ids=lambda one: getattr(one, "__name__", ""))
def test_a_spoilt_journal_is_found(spoil: Callable[[Journal], None], broken: Invariant, tmp_path: Path) -> None:
    journal = charged()
    spoil(journal)
    inspector = inspector_of(tmp_path, journal)
    assert broken in invariants(inspector.found), inspector.found
    assert inspector.broken.is_set()


def test_a_hold_resolved_otherwise_than_decided_is_found(tmp_path: Path) -> None:
    journal = held()
    inspector = inspector_of(tmp_path, journal)
    inspector.book.decisions[(digest_of("first"), 1)] = Decision(RESERVED, True)
    inspector.tell(inspector.entry_faults(journal.call("RESOLVED")))
    assert invariants(inspector.found) == {Invariant.I3}


def answered_again(inspector: Inspector) -> Any:
    return inspector.arrival_faults(arrive(inspector, "first"), at_once=True)


def answered_again_by_its_times(inspector: Inspector) -> Any:
    return inspector.arrival_faults(arrive(inspector, "first"), at_once=False)


def test_a_request_for_a_slot_that_has_its_answer_is_found(tmp_path: Path) -> None:
    for ask in (answered_again, answered_again_by_its_times):
        inspector = inspector_of(tmp_path, charged())
        assert invariants(list(ask(inspector))) == {Invariant.I1, Invariant.I4}
        assert invariants(list(inspector.sent_faults())) == {Invariant.I1}


def test_a_request_without_a_reservation_is_found(tmp_path: Path) -> None:
    inspector = inspector_of(tmp_path, Journal().opened())
    for at_once in (True, False):
        arrival = inspector.door.by_digest[digest_of("request of first")][0]
        assert invariants(list(inspector.arrival_faults(arrival, at_once=at_once))) == {Invariant.I1}


def test_a_request_before_its_reservation_is_found_by_its_times(tmp_path: Path) -> None:
    journal = Journal().opened()
    early = journal.at
    inspector = inspector_of(tmp_path, journal)
    inspector.tell(inspector.entry_faults(journal.call("RESERVED", "third", reserved_at=early + SECOND)))
    assert not list(inspector.arrival_faults(arrive(inspector, "third", early + 2 * SECOND), at_once=False))
    inspector.door.by_digest.clear()
    found = list(inspector.arrival_faults(arrive(inspector, "third", early - SECOND), at_once=False))
    assert invariants(found) == {Invariant.I1}


def test_the_providers_own_log_is_compared(tmp_path: Path) -> None:
    inspector = inspector_of(tmp_path, charged())
    inspector.packets[(STUDY, EPISODE)] = "a" * 64
    line = {"sha256": digest_of("request of first"), "episode": "a" * 16}
    assert not list(inspector.wire_faults(line))
    assert invariants(list(inspector.wire_faults(line))) == {Invariant.I1}, "twice at the provider, once at the door"
    other = inspector_of(tmp_path, charged())
    other.packets[(STUDY, EPISODE)] = "b" * 64
    assert invariants(list(other.wire_faults(line))) == {Invariant.I6}


@pytest.mark.parametrize(
    ("said", "available"),
    [
        ((GRANT, 0, COST, 0, 0, 0), GRANT),
        ((GRANT, 0, 0, 0, 0, 0), GRANT - 1),
        ((GRANT, 0, COST, 0, 1, 0), GRANT - COST - 1),
        ((GRANT, 0, 2 * GRANT, 0, 0, 0), -GRANT),
    ],
)
def test_balances_that_the_journal_does_not_have_are_found(
    said: tuple[int, ...], available: int, tmp_path: Path
) -> None:
    inspector = inspector_of(tmp_path, charged())
    assert invariants(list(inspector.balance_faults(ACCOUNT, said, available))) == {Invariant.I2}


def test_what_the_ledger_finds_in_its_own_journal_counts() -> None:
    assert not list(journal_faults(pb.VerifyJournalResponse(intact=True, accounts_count=2), 2))
    differs = pb.VerifyJournalResponse(accounts_count=2)
    differs.differences.add(account_id="lab", sequence=3, what="chain")
    assert invariants(list(journal_faults(differs, 2))) == {Invariant.JOURNAL}
    fewer = pb.VerifyJournalResponse(intact=True, accounts_count=1)
    assert invariants(list(journal_faults(fewer, 2))) == {Invariant.JOURNAL}


def test_a_record_and_a_report_that_hold() -> None:
    assert not list(record_faults(a_record()))
    assert not list(report_faults(a_report(), 2, is_settled=True))


@pytest.mark.parametrize(
    ("changes", "broken"),
    [
        ({"status": "stopped", "stop_category": "budget_stop"}, Invariant.I5),
        ({"outcome": None}, Invariant.I5),
        ({"status": "technical_unknown", "outcome": None, "reason": "FILTERED"}, Invariant.I5),
        ({"events": [{}, {}, {}]}, Invariant.I5),
        ({"status": "stopped", "stop_category": "lost", "outcome": None}, Invariant.I8),
        ({"verification": {"agrees": False, "differences": ["outcome"]}}, Invariant.I7),
    ],
)
def test_a_spoilt_record_is_found(changes: dict[str, Any], broken: Invariant) -> None:
    assert invariants(list(record_faults(a_record(**changes)))) == {broken}


@pytest.mark.parametrize(
    ("route", "changes"),
    [
        ("r0.two-tools.messages.whole", {}),
        ("r0.two-tools.messages.whole", {"status": "technical_unknown", "outcome": None, "reason": "FILTERED"}),
        ("r0.drop.messages.whole", {}),
    ],
)
def test_an_ending_that_the_agent_cannot_have_is_found(route: str, changes: dict[str, Any]) -> None:
    identity = {**a_record()["identity"], "route": route}
    assert invariants(list(record_faults(a_record(identity=identity, **changes)))) == {Invariant.I5}


def test_an_outcome_that_differs_from_its_like_is_found() -> None:
    outcomes = Outcomes()
    assert not list(outcomes.faults(a_record()))
    assert not list(outcomes.faults(a_record()))
    assert invariants(list(outcomes.faults(a_record(outcome={"primary_loss": 1})))) == {Invariant.I5}


@pytest.mark.parametrize(
    ("changes", "broken"),
    [
        ({"stopped": {}}, Invariant.I8),
        ({"planned": 1, "stopped": {}}, Invariant.I8),
        ({"verification": {"verified": 0, "differs": 1, "not_verified": 0}}, Invariant.I7),
        ({"verification": {"verified": 0, "differs": 0, "not_verified": 1}}, Invariant.I7),
    ],
)
def test_a_spoilt_report_is_found(changes: dict[str, Any], broken: Invariant) -> None:
    assert broken in invariants(list(report_faults(a_report(**changes), 2, is_settled=True)))


def test_an_episode_that_was_dropped_with_its_plan_is_found() -> None:
    assert Invariant.I8 in invariants(list(report_faults(a_report(), 3, is_settled=False)))


def test_money_of_a_settled_study_must_add_up() -> None:
    report = a_report()
    report["money"] = {"adds_up": False, "differences": ["a call"]}
    assert invariants(list(report_faults(report, 2, is_settled=True))) == {Invariant.I2}
    assert not list(report_faults(report, 2, is_settled=False))


def test_a_secret_in_a_file_is_found_wherever_a_look_ends(tmp_path: Path) -> None:
    log = tmp_path / "adapter.log"
    scan = SecretScan((b"secret",))
    log.write_bytes(b"nothing here, se")
    assert not list(scan.faults([log]))
    with log.open("ab") as more:
        more.write(b"cret")
    assert invariants(list(scan.faults([log]))) == {Invariant.I9}
    assert not list(scan.faults([tmp_path / "absent"]))
