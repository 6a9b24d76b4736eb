"""The checker of the invariants finds what breaks them: findings that hold, each broken in one way."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.hosts import invariants as check
from tests.hosts.invariants import Findings
from tests.hosts.site import CAP_NANOS

COST = 1_000


def findings() -> Findings:
    """One episode with one charged call."""
    call = {
        "slot": ["e", 1], "attempt": 1, "state": "CHARGED", "request": "r", "reserved": 2 * COST, "accounted": COST,
        "reserved_at": 1, "changed_at": 2,
    }  # fmt: skip
    names = ("reserved", "held", "resolved", "prior_spend")
    balances = {**dict.fromkeys(names, 0), "granted": CAP_NANOS, "charged": COST, "available": CAP_NANOS - COST}
    study = {**balances, "blocked": False, "max_in_flight": 1}
    record = {
        "episode_id": "e", "status": "completed", "outcome": {}, "events": [{}], "packet_digest": "p" * 64,
        "verification": {"agrees": True},
    }  # fmt: skip
    counts = {"completed": {"normal_text": 1}, "technical_unknown": {}, "stopped": {}, "not_attempted": 0, "planned": 1}
    total = {**counts, "verification": {"verified": 1, "differs": 0, "not_verified": 0}}
    states = {"charged": 1, "held": 0, "reserved": 0, "resolved": 0}
    report = {"total": total, "money": {"source": "ledger", "calls": states}}
    ledger = {"account": balances, "study": study}
    return Findings([{"sha256": "r", "episode": "p" * 16}], [call], ledger, [record], report)


CHECKS: tuple[Callable[[Findings], None], ...] = (
    check.one_request_for_one_reservation,
    check.within_the_cap,
    check.doubt_is_kept,
    check.no_slot_twice,
    check.nothing_inadmissible_is_played,
    check.the_packet_is_what_was_frozen,
    check.outcomes_are_verified,
    lambda found: check.all_planned_are_counted(found, 1),
)


def sent_twice(found: Findings) -> None:
    found.wire.append(found.wire[0])


def charged_unsent(found: Findings) -> None:
    found.wire.clear()


def above_the_cap(found: Findings) -> None:
    found.calls[0]["reserved"] = CAP_NANOS + 1


def money_lost(found: Findings) -> None:
    found.ledger["account"]["available"] -= 1


def doubt_that_frees(found: Findings) -> None:
    found.calls[0] |= {"state": "HELD", "accounted": COST}


def slot_twice(found: Findings) -> None:
    found.calls.append({**found.calls[0], "attempt": 2})


def outcome_invented(found: Findings) -> None:
    found.records[0]["status"] = "stopped"


def event_unpaid(found: Findings) -> None:
    found.records[0]["events"].append({})


def other_packet(found: Findings) -> None:
    found.wire[0]["episode"] = "q" * 16


def verdict_disputed(found: Findings) -> None:
    found.records[0]["verification"]["agrees"] = False


def verdict_missing(found: Findings) -> None:
    found.records[0]["verification"] = None


def episode_dropped(found: Findings) -> None:
    found.report["total"]["completed"] = {}


def call_uncounted(found: Findings) -> None:
    found.report["money"]["calls"]["charged"] = 0


def test_findings_that_hold_pass() -> None:
    for one in CHECKS:
        one(findings())


BREAKS: dict[Callable[[Findings], None], int] = {
    sent_twice: 0, charged_unsent: 0, above_the_cap: 1, money_lost: 1, doubt_that_frees: 2, slot_twice: 3,
    outcome_invented: 4, event_unpaid: 4, other_packet: 5, verdict_disputed: 6, verdict_missing: 6,
    episode_dropped: 7, call_uncounted: 7,
}  # fmt: skip


@pytest.mark.parametrize(("spoil", "number"), BREAKS.items(), ids=lambda one: getattr(one, "__name__", ""))
def test_what_breaks_an_invariant_is_found(spoil: Callable[[Findings], Any], number: int) -> None:
    found = findings()
    spoil(found)
    with pytest.raises(AssertionError):
        CHECKS[number](found)
