"""The invariants of design/architecture.md, checked from outside: the wire, the ledger, the records and the report."""

import base64
from collections import Counter
from dataclasses import dataclass
from typing import Any

from tests.hosts.site import CAP_NANOS, Study

LIVE = ("RESERVED", "CHARGED", "HELD")
FINAL = ("CHARGED", "RESOLVED")
OPAQUE = ("c2ln", "ZW5j", "reasoning")
"""Parts of the reasoning that the scripted agent sends: signatures, encrypted blocks, the members' names."""


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything that can be seen of a study after a collection."""

    wire: list[dict[str, Any]]
    calls: list[dict[str, Any]]
    ledger: dict[str, Any]
    records: list[dict[str, Any]]
    report: dict[str, Any]

    def states(self) -> Counter[str]:
        """How many calls are in each state."""
        return Counter(call["state"] for call in self.calls)

    def in_doubt(self) -> set[str]:
        """The episodes with a call that is neither charged nor resolved."""
        return {call["slot"][0] for call in self.calls if call["state"] not in FINAL}


def look(study: Study) -> Findings:
    """See everything, and check every invariant in it."""
    report = study.report()
    ledger = study.site.inspect(report["study_id"], study.name)
    found = Findings(study.wire(), ledger["calls"], ledger, study.records(), report)
    one_request_for_one_reservation(found)
    within_the_cap(found)
    doubt_is_kept(found)
    no_slot_twice(found)
    nothing_inadmissible_is_played(found)
    the_packet_is_what_was_frozen(found)
    outcomes_are_verified(found)
    all_planned_are_counted(found, study.episodes)
    reasoning_stays_private(found, study)
    assert ledger["journal"]["intact"], ledger["journal"]
    return found


def one_request_for_one_reservation(found: Findings) -> None:
    """I1: what the provider received was reserved, byte for byte, and paid for no more than once a reservation."""
    reserved = Counter(call["request"] for call in found.calls)
    received = Counter(line["sha256"] for line in found.wire)
    assert received <= reserved, "a request without a reservation of its own"
    charged = Counter(call["request"] for call in found.calls if call["state"] == "CHARGED")
    assert charged <= received, "a charge without a request"


def within_the_cap(found: Findings) -> None:
    """I2: never above the cap, at no time of the study's history; the balances add up."""
    for balances in (found.ledger["account"], found.ledger["study"]):
        spent = sum(balances[name] for name in ("charged", "reserved", "held", "resolved", "prior_spend"))
        assert balances["granted"] == CAP_NANOS
        assert spent + balances["available"] == CAP_NANOS
        assert balances["available"] >= 0
    steps: list[tuple[int, int, int]] = []
    for call in found.calls:
        steps.append((call["reserved_at"], call["reserved"], 1))
        if call["state"] != "RESERVED":
            over = -1 if call["state"] in FINAL else 0
            steps.append((call["changed_at"], call["accounted"] - call["reserved"], over))
    nanos = in_flight = 0
    for _, change, begun in sorted(steps):
        nanos, in_flight = nanos + change, in_flight + begun
        assert nanos <= CAP_NANOS
        assert in_flight <= found.ledger["study"]["max_in_flight"]


def doubt_is_kept(found: Findings) -> None:
    """I3: what was sent and has no receipt keeps its reservation, and blocks its study once it is a hold."""
    for call in found.calls:
        if call["state"] in ("HELD", "RESERVED"):
            assert call["accounted"] >= call["reserved"]
    assert found.ledger["study"]["blocked"] is any(call["state"] == "HELD" for call in found.calls)
    settled = {call["request"] for call in found.calls if call["state"] in (*FINAL, "HELD", "RESERVED")}
    assert {line["sha256"] for line in found.wire} <= settled


def no_slot_twice(found: Findings) -> None:
    """I4: a slot has one live attempt at most, and another one only after an operator's decision."""
    by_slot: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for call in found.calls:
        by_slot.setdefault(tuple(call["slot"]), []).append(call)
    for attempts in by_slot.values():
        assert sum(call["state"] in LIVE for call in attempts) <= 1
        assert all(call["state"] == "RESOLVED" for call in sorted(attempts, key=lambda one: one["attempt"])[:-1])


def nothing_inadmissible_is_played(found: Findings) -> None:
    """I5: an episode without an end of its own has no outcome, and no more events than it has paid answers."""
    charged = Counter(call["slot"][0] for call in found.calls if call["state"] in FINAL)
    for record in found.records:
        if record["status"] != "completed":
            assert record["outcome"] is None
        assert len(record["events"]) <= charged[record["episode_id"]]


def the_packet_is_what_was_frozen(found: Findings) -> None:
    """I6: every request showed the packet whose digest was frozen; the provider computed it from what it received."""
    assert {line["episode"] for line in found.wire} <= {record["packet_digest"][:16] for record in found.records}


def outcomes_are_verified(found: Findings) -> None:
    """I7: no outcome contradicts the verifier's recomputation; one that lacks it says so."""
    for record in found.records:
        if record["verification"] is not None:
            assert record["verification"]["agrees"], record["verification"]
    unverified = [one for one in found.records if one["status"] != "stopped" and one["verification"] is None]
    assert found.report["total"]["verification"]["not_verified"] == len(unverified)
    assert found.report["total"]["verification"]["differs"] == 0


def all_planned_are_counted(found: Findings, planned: int) -> None:
    """I8: every planned episode is somewhere in the report, and its money is the ledger's."""
    total = found.report["total"]
    counted = sum(sum(total[name].values()) for name in ("completed", "technical_unknown", "stopped"))
    assert counted + total["not_attempted"] == total["planned"] == planned
    if found.report["money"]["source"] == "ledger":
        states = found.states()
        expected = {name: states[name.upper()] for name in ("charged", "held", "reserved", "resolved")}
        assert {name: found.report["money"]["calls"][name] for name in expected} == expected


def reasoning_stays_private(found: Findings, study: Study) -> None:
    """I9: reasoning came back unchanged (the agent refuses it otherwise), and is in receipts alone; so are tokens."""
    receipts = b"".join(base64.b64decode(one) for one in found.ledger["receipts"]).decode()
    assert "the reasoning of assistant turn" not in receipts
    assert not receipts or all(part in receipts for part in ("c2ln", "reasoning"))
    written = study.site.logs() + "".join(path.read_text() for path in study.out.rglob("*") if path.is_file())
    written += study.said() + (study.folder / "report.jsonl").read_text()
    for secret in (*OPAQUE[:2], *study.site.tokens):
        assert secret not in written
