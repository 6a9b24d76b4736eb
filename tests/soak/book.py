"""The second reader of the journal: every balance and call derived anew, entry by entry, without the ledger's code.

The chain, the amounts and the transitions are checked here as docs/ledger.md and design/ledger.md state them.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.soak.violations import Invariant, Violation

OPEN_STATES = ("RESERVED", "HELD")
GENESIS = bytes(32)


class Entry(NamedTuple):
    """One row of the journal as it is stored; `at` in microseconds."""

    account_id: str
    sequence: int
    kind: str
    body: bytes
    body_digest: bytes
    previous_chain: bytes
    chain: bytes
    at: int


class Decision(NamedTuple):
    """What the soak's operator decided about a held attempt; `charged_nanos` None: never sent."""

    charged_nanos: int | None
    opens_new_attempt: bool


@dataclass(slots=True)
class Study:
    """One study by the journal."""

    account_id: str
    cap: int
    ceiling: int
    max_in_flight: int
    accounted: int = 0
    reserved_count: int = 0
    held_count: int = 0


@dataclass(slots=True)
class Account:
    """One account by the journal, and where its chain stands."""

    sequence: int = 0
    chain: bytes = GENESIS
    granted: int = 0
    prior: int = 0
    sums: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("CHARGED", "RESERVED", "HELD", "RESOLVED"), 0))

    @property
    def accounted(self) -> int:
        """What calls account for, in whatever state."""
        return sum(self.sums.values())

    def balances(self) -> tuple[int, ...]:
        """Granted, prior spend, charged, reserved, held, resolved."""
        return (self.granted, self.prior, *self.sums.values())


@dataclass(slots=True)
class Attempt:
    """One attempt of a slot by the journal."""

    study_id: str
    episode_id: str
    turn: int
    number: int
    digest: str
    state: str
    reserved: int
    accounted: int
    reserved_at: int
    receipted_at: int | None = None
    response: str | None = None
    opens_new: bool = False
    category: str | None = None
    progress: str | None = None


class Book:
    """All accounts; `take` adds an entry and says what is wrong with it."""

    def __init__(self) -> None:
        self.accounts: dict[str, Account] = {}
        self.studies: dict[str, Study] = {}
        self.attempts: dict[tuple[str, int], Attempt] = {}
        self.by_digest: dict[str, list[Attempt]] = {}
        self.decisions: dict[tuple[str, int], Decision] = {}
        self.entries_count = 0

    def take(self, entry: Entry) -> list[Violation]:
        """Add the entry; what it breaks."""
        account = self.accounts.setdefault(entry.account_id, Account())
        found = [Violation(Invariant.JOURNAL, what) for what in _chain_faults(entry, account)]
        account.sequence, account.chain = entry.sequence, entry.chain
        self.entries_count += 1
        body = json.loads(entry.body)
        if entry.kind == "BUDGET_GRANTED":
            account.granted += body["amount_nanos"]
        elif entry.kind == "PRIOR_SPEND_RECORDED":
            account.prior += body["amount_nanos"]
        elif entry.kind == "STUDY_OPENED":
            limits = (body["cap_nanos"], body["call_ceiling_nanos"], body["max_in_flight"])
            self.studies[body["study_id"]] = Study(entry.account_id, *limits)
        elif entry.kind != "ACCOUNT_OPENED":
            found += self._take_call(entry, account, body["call"])
        return found

    def _take_call(self, entry: Entry, account: Account, body: dict[str, Any]) -> list[Violation]:
        study = self.studies[body["study_id"]]
        key = (body["call_id"], body["attempt"])
        before = self.attempts.get(key)
        where = f"entry {entry.sequence} of {entry.account_id}, call {key[0][:12]} attempt {key[1]}"
        found = [Violation(one.invariant, f"{where}: {one.what}") for one in self._broken(entry, body, before, study)]
        after = self._put(key, body, before)
        if before is not None:
            _count(account, study, before.state, -before.accounted, -1)
        _count(account, study, after.state, after.accounted, 1)
        found += [Violation(Invariant.I2, f"{where}: {what}") for what in _overspent(account, study, entry.kind)]
        self.attempts[key] = after
        return found

    def _put(self, key: tuple[str, int], body: dict[str, Any], before: Attempt | None) -> Attempt:
        receipt, hold, resolution = body["receipt"], body["hold"], body["resolution"]
        after = Attempt(
            *(body["study_id"], body["episode_id"], body["turn"], body["attempt"], body["request_digest"]),
            *(body["state"], body["reserved_nanos"], body["accounted_nanos"], body["reserved_at"]),
            None if receipt is None else receipt["received_at"],
            None if receipt is None else receipt["response_digest"],
            bool(resolution and resolution["opened_new_attempt"]),
            None if hold is None else hold["category"],
            None if hold is None else hold["progress"],
        )
        listed = self.by_digest.setdefault(after.digest, [])
        if before is None:
            listed.append(after)
        elif before in listed:
            listed[listed.index(before)] = after
        return after

    def _broken(self, entry: Entry, body: dict[str, Any], before: Attempt | None, study: Study) -> Iterator[Violation]:
        state = body["state"]
        if entry.kind != f"CALL_{state}":
            yield Violation(Invariant.JOURNAL, f"{entry.kind} of a call that is {state}")
        if state == "RESERVED":
            yield from self._broken_reservation(body, before, study)
        elif before is None:
            yield Violation(Invariant.I1, f"{state} without a reservation")
        elif before.state not in OPEN_STATES:
            yield Violation(Invariant.I3, f"{before.state} is final and became {state}")
        elif state == "CHARGED":
            yield from _broken_charge(body, before)
        elif state == "HELD":
            if body["accounted_nanos"] < before.reserved:
                yield Violation(Invariant.I3, "a hold that keeps less than the reservation")
        else:
            yield from self._broken_resolution(body, before)
        if before is not None and body["request_digest"] != before.digest:
            yield Violation(Invariant.I4, "the request changed after its reservation")

    def _broken_reservation(self, body: dict[str, Any], before: Attempt | None, study: Study) -> Iterator[Violation]:
        if before is not None:
            yield Violation(Invariant.I4, "reserved twice")
        if body["accounted_nanos"] != body["reserved_nanos"]:
            yield Violation(Invariant.I2, "a reservation that does not account for itself")
        if body["reserved_nanos"] > study.ceiling:
            yield Violation(Invariant.I2, "a reservation above the study's ceiling for one call")
        if study.reserved_count >= study.max_in_flight:
            yield Violation(Invariant.I2, "more calls in flight than the study allows")
        if study.held_count:
            yield Violation(Invariant.I3, "a reservation in a study that a hold blocks")
        if body["attempt"] == 1:
            return
        earlier = self.attempts.get((body["call_id"], body["attempt"] - 1))
        if earlier is None or earlier.state != "RESOLVED" or not earlier.opens_new:
            yield Violation(Invariant.I4, "a new attempt that no operator opened")
        elif earlier.response is not None:
            yield Violation(Invariant.I4, "a new attempt of a slot that was answered")

    def _broken_resolution(self, body: dict[str, Any], before: Attempt) -> Iterator[Violation]:
        decided = self.decisions.get((body["call_id"], body["attempt"]))
        resolution = body["resolution"]
        if before.state != "HELD":
            yield Violation(Invariant.I3, f"resolved while {before.state}")
        if decided is None:
            yield Violation(Invariant.I3, "a hold was resolved that the operator did not decide")
        elif decided != (resolution["charged_nanos"], resolution["opened_new_attempt"]):
            yield Violation(Invariant.I3, "resolved otherwise than the operator decided")
        if body["accounted_nanos"] != (resolution["charged_nanos"] or 0):
            yield Violation(Invariant.I2, "a resolution that accounts for another amount than was decided")

    def held(self, study_id: str) -> list[tuple[tuple[str, int], Attempt]]:
        """The study's attempts that are in doubt."""
        return [(key, one) for key, one in self.attempts.items() if one.study_id == study_id and one.state == "HELD"]

    def of_study(self, study_id: str) -> list[tuple[tuple[str, int], Attempt]]:
        """The study's attempts."""
        return [(key, one) for key, one in self.attempts.items() if one.study_id == study_id]


def _broken_charge(body: dict[str, Any], before: Attempt) -> Iterator[Violation]:
    if body["receipt"] is None:
        yield Violation(Invariant.I3, "charged without an answer")
    elif before.state == "HELD" and (before.response is not None or not body["receipt"]["late"]):
        yield Violation(Invariant.I3, "a hold was freed by something other than late evidence")
    if body["accounted_nanos"] > before.reserved:
        yield Violation(Invariant.I2, "charged above the reservation")


def _chain_faults(entry: Entry, account: Account) -> Iterator[str]:
    where = f"entry {entry.sequence} of {entry.account_id}"
    if entry.sequence != account.sequence + 1:
        yield f"{where} follows entry {account.sequence}"
    if entry.previous_chain != account.chain:
        yield f"{where} does not follow from the entry before it"
    if hashlib.sha256(entry.body).digest() != entry.body_digest:
        yield f"{where}: its body is not what its digest says"
    if chain_of(entry) != entry.chain:
        yield f"{where}: its chain digest is another one"


def chain_of(entry: Entry) -> bytes:
    """The chain digest that the entry must have."""
    said = {
        "account_id": entry.account_id,
        "at_micros": entry.at,
        "body_digest": entry.body_digest.hex(),
        "kind": entry.kind,
        "previous_chain": entry.previous_chain.hex(),
        "sequence": entry.sequence,
    }
    return hashlib.sha256(json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()).digest()


def _count(account: Account, study: Study, state: str, nanos: int, calls: int) -> None:
    account.sums[state] += nanos
    study.accounted += nanos
    study.reserved_count += calls * (state == "RESERVED")
    study.held_count += calls * (state == "HELD")


def _overspent(account: Account, study: Study, kind: str) -> Iterator[str]:
    if account.accounted > account.granted - account.prior:
        yield f"after {kind} the account's calls come to {account.accounted} of {account.granted - account.prior}"
    if study.accounted > study.cap:
        yield f"after {kind} the study's calls come to {study.accounted} of its cap of {study.cap}"
