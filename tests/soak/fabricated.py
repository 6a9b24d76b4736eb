"""A fabricated history, for tests of the inspector: a journal that holds, a door, a report, to be spoilt one by one."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.soak.book import GENESIS, Entry, chain_of
from tests.soak.door import Arrival
from tests.soak.inspector import Inspector
from tests.soak.violations import Invariant, Violation

ACCOUNT, STUDY, EPISODE = "lab", "study-1", "e" * 64
GRANT, CAP, CEILING, IN_FLIGHT = 1_000, 800, 300, 2
RESERVED, COST = 200, 50
SECOND = 1_000_000
"""Of the journal's time, in microseconds."""


def digest_of(text: str) -> str:
    """A digest by name."""
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass
class Journal:
    """Writes entries whose chain holds."""

    at: int = 1_700_000_000 * SECOND
    entries: list[Entry] = field(default_factory=list)

    def add(self, kind: str, **body: Any) -> Entry:
        """Add one entry, a second after the one before."""
        self.at += SECOND
        text = json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
        chain = self.entries[-1].chain if self.entries else GENESIS
        entry = Entry(ACCOUNT, len(self.entries) + 1, kind, text, hashlib.sha256(text).digest(), chain, b"", self.at)
        self.entries.append(entry._replace(chain=chain_of(entry)))
        return self.entries[-1]

    def opened(self) -> "Journal":
        """An account with a grant, and a study."""
        self.add("ACCOUNT_OPENED", account_id=ACCOUNT, currency="USD")
        self.add("BUDGET_GRANTED", account_id=ACCOUNT, amount_nanos=GRANT)
        self.add("STUDY_OPENED", study_id=STUDY, cap_nanos=CAP, call_ceiling_nanos=CEILING, max_in_flight=IN_FLIGHT)
        return self

    def call(self, state: str, slot: str = "first", **changes: Any) -> Entry:
        """One entry about the call of a slot, as it would be after an undisturbed history."""
        body = {
            "call_id": digest_of(slot), "attempt": 1, "study_id": STUDY, "episode_id": EPISODE, "turn": 1,
            "request_digest": digest_of(f"request of {slot}"), "state": state, "reserved_nanos": RESERVED,
            "accounted_nanos": COST if state == "CHARGED" else RESERVED, "reserved_at": self.at,
            "hold": None, "receipt": None, "resolution": None,
        }  # fmt: skip
        if state == "CHARGED":
            body["receipt"] = receipt(slot, self.at + SECOND)
        if state in ("HELD", "RESOLVED"):
            body["hold"] = {"category": "TRANSPORT_UNKNOWN", "progress": "SENT", "http_status": None}
        if state == "RESOLVED":
            body["resolution"] = {"charged_nanos": RESERVED, "opened_new_attempt": False}
        return self.add(f"CALL_{state}", call={**body, **changes})


def receipt(slot: str, at: int, *, late: bool = False) -> dict[str, Any]:
    """What a journal says of the answer to a slot's request."""
    return {"response_digest": digest_of(f"answer to {slot}"), "received_at": at, "late": late}


def inspector_of(folder: Path, journal: Journal) -> Inspector:
    """An inspector that has seen the first slot's request at the door, and those of the journal's other slots, each
    answered; and then the journal.
    """
    inspector = Inspector(folder)
    for slot in ("first", "second"):
        if slot == "first" or any(digest_of(slot).encode() in entry.body for entry in journal.entries):
            arrive(inspector, slot).answer = digest_of(f"answer to {slot}")
    for entry in journal.entries:
        inspector.tell(inspector.entry_faults(entry))
    return inspector


def arrive(inspector: Inspector, slot: str, at_micros: int = 1_700_000_100 * SECOND) -> Arrival:
    """A request of the slot reaches the door."""
    door = inspector.door
    door.count += 1
    arrival = Arrival(door.count, at_micros * 1_000, digest_of(f"request of {slot}"), "/v1/chat/completions")
    door.by_digest.setdefault(arrival.digest, []).append(arrival)
    return arrival


def invariants(violations: list[Violation]) -> set[Invariant]:
    """Which invariants are broken."""
    return {one.invariant for one in violations}


def a_record(**changes: Any) -> dict[str, Any]:
    """A record that holds."""
    identity = {"route": "r0.act-well.chat_completions.whole", "template": "event", "world": "need"}
    good: dict[str, Any] = {
        "study_id": STUDY, "episode_id": EPISODE, "identity": identity, "status": "completed",
        "termination": "explicit_finish", "reason": None, "stop_category": None, "outcome": {"primary_loss": 0},
        "prefix_count": 0, "events": [{}, {}],
        "calls": [{"response_digest": "a"}, {"response_digest": "b"}],
        "verification": {"agrees": True, "differences": []},
    }  # fmt: skip
    return {**good, **changes}


def a_report(**changes: Any) -> dict[str, Any]:
    """A report that holds, of two planned episodes."""
    line = {
        "planned": 2, "completed": {"explicit_finish": 1}, "technical_unknown": {}, "stopped": {"budget_stop": 1},
        "not_attempted": 0, "verification": {"verified": 1, "differs": 0, "not_verified": 0},
    }  # fmt: skip
    money = {"adds_up": True, "differences": []}
    return {"study_id": STUDY, "total": {**line, **changes}, "strata": [dict(line)], "money": money}
