"""What one transaction has loaded and changed: commands decide on it, a store loads and saves it.

A workspace holds everything that its commands asked for (`Wanted`) in full, so that a command decided second sees what
the first one changed, and so that nothing is read while it is decided. It has no I/O and no clock.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from countersign.kit.canonical import canonical_json
from ledger_svc import errors
from ledger_svc.budgets import Account, Study
from ledger_svc.calls import Call, CallState, is_overdue
from ledger_svc.codec import call_to_json, call_to_text
from ledger_svc.journal import Entry, EntryKind, entry_after

_KIND_OF_STATE = {
    CallState.RESERVED: EntryKind.CALL_RESERVED,
    CallState.CHARGED: EntryKind.CALL_CHARGED,
    CallState.HELD: EntryKind.CALL_HELD,
    CallState.RESOLVED: EntryKind.CALL_RESOLVED,
}


class Wanted(Struct, frozen=True, gc=False):
    """What must be loaded. A store adds the calls' studies, the studies' accounts and the studies' overdue calls.

    `overdue_count` asks for that many overdue reservations more, of whatever study.
    """

    account_ids: frozenset[str] = frozenset()
    study_ids: frozenset[str] = frozenset()
    call_ids: frozenset[bytes] = frozenset()
    request_ids: frozenset[str] = frozenset()
    overdue_count: int = 0

    @staticmethod
    def union(parts: Iterable["Wanted"]) -> "Wanted":
        """What all the parts want together, each thing once."""
        parts = list(parts)
        return Wanted(
            frozenset().union(*[part.account_ids for part in parts]),
            frozenset().union(*[part.study_ids for part in parts]),
            frozenset().union(*[part.call_ids for part in parts]),
            frozenset().union(*[part.request_ids for part in parts]),
            max([part.overdue_count for part in parts], default=0),
        )


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """A mutation that was done under the caller's own id, and the number it was answered with."""

    request_id: str
    inputs_digest: bytes
    answer_nanos: int


@dataclass(slots=True)
class Loaded:
    """What a store found; a key that is absent was not asked for, a value of None does not exist.

    `calls` holds all attempts of a slot, oldest first.
    """

    accounts: dict[str, Account | None] = field(default_factory=dict)
    studies: dict[str, Study | None] = field(default_factory=dict)
    calls: dict[bytes, tuple[Call, ...]] = field(default_factory=dict)
    requests: dict[str, RequestRecord | None] = field(default_factory=dict)


@dataclass(slots=True)
class Changes:
    """What a store must save in one transaction: whole rows by key, new entries in order, payloads by digest."""

    accounts: dict[str, Account] = field(default_factory=dict)
    studies: dict[str, Study] = field(default_factory=dict)
    calls: dict[tuple[bytes, int], Call] = field(default_factory=dict)
    requests: dict[str, RequestRecord] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    payloads: dict[bytes, bytes] = field(default_factory=dict)
    call_texts: dict[tuple[bytes, int], str] = field(default_factory=dict)
    """`codec.call_to_text` of each of `calls`, as its last entry has it."""


class Workspace:
    """The loaded rows as they stand after the commands decided so far, at the time `now` (microseconds)."""

    def __init__(self, loaded: Loaded, now: int) -> None:
        self._loaded = loaded
        self.now = now
        self.changes = Changes()
        self.moves: list[tuple[Call | None, Call]] = []
        """Every call that was posted, as it stood before and as it stands after, in order."""
        # Nothing becomes overdue while `now` stands still: who is not among these never will be.
        self._once_overdue = [
            (call_id, call.attempt)
            for call_id, attempts in loaded.calls.items()
            for call in attempts
            if is_overdue(call, now)
        ]

    def find_account(self, account_id: str) -> Account | None:
        """The account, or None; raises KeyError where nobody asked for it."""
        return self._loaded.accounts[account_id]

    def account(self, account_id: str) -> Account:
        """The account; raises UnknownAccountError."""
        account = self.find_account(account_id)
        if account is None:
            raise errors.UnknownAccountError("no account of that id; open it first", account_id=account_id)
        return account

    def find_study(self, study_id: str) -> Study | None:
        """The study, or None; raises KeyError where nobody asked for it."""
        return self._loaded.studies[study_id]

    def study(self, study_id: str) -> Study:
        """The study; raises UnknownStudyError."""
        study = self.find_study(study_id)
        if study is None:
            raise errors.UnknownStudyError("no study of that id; open it first", study_id=study_id)
        return study

    def attempts(self, call_id: bytes) -> tuple[Call, ...]:
        """All attempts of a slot, oldest first; empty where there is none."""
        return self._loaded.calls[call_id]

    def known_attempts(self, call_id: bytes) -> tuple[Call, ...]:
        """All attempts of a slot, oldest first; raises UnknownCallError where there is none."""
        attempts = self.attempts(call_id)
        if not attempts:
            raise errors.UnknownCallError("no call of that id", call_id=call_id)
        return attempts

    def overdue(self, study_id: str | None) -> list[Call]:
        """The loaded reservations whose lease is over, of one study or of all."""
        if not self._once_overdue:
            return []
        return [
            call
            for call_id, attempt in self._once_overdue
            for call in self._loaded.calls[call_id]
            if call.attempt == attempt and is_overdue(call, self.now) and study_id in (None, call.slot.study_id)
        ]

    def request(self, request_id: str) -> RequestRecord | None:
        """What was done under this request id, or None."""
        return self._loaded.requests[request_id]

    def remember(self, record: RequestRecord) -> None:
        """Keep what was done under a request id."""
        self._loaded.requests[record.request_id] = record
        self.changes.requests[record.request_id] = record

    def keep(self, payload: bytes, digest: bytes) -> None:
        """Keep a payload under its SHA-256."""
        self.changes.payloads[digest] = payload

    def next_sequence(self, account_id: str) -> int:
        """The sequence that the account's next journal entry will have."""
        return self.account(account_id).head_sequence + 1

    def post(self, account: Account, kind: EntryKind, body: Mapping[str, Any]) -> None:
        """Save the changed account together with the journal entry that says why."""
        self._post(account, kind, canonical_json(body))

    def _post(self, account: Account, kind: EntryKind, body: bytes) -> None:
        sequence = account.head_sequence + 1
        entry = entry_after(account.account_id, sequence, account.head_chain, kind, body, self.now)
        account = account.with_head(sequence, entry.chain)
        self._loaded.accounts[account.account_id] = account
        self.changes.accounts[account.account_id] = account
        self.changes.entries.append(entry)

    def put_study(self, study: Study) -> None:
        """Save a new or changed study; the caller posts why."""
        self._loaded.studies[study.study_id] = study
        self.changes.studies[study.study_id] = study

    def post_call(self, before: Call | None, after: Call, **noted: str) -> None:
        """Save a new or changed call with its balances and its journal entry; `noted` joins the entry's body."""
        self.moves.append((before, after))
        account = self.account(after.account_id).moved(before, after)
        self.put_study(self.study(after.slot.study_id).moved(before, after))
        call_id = after.call_id
        self._loaded.calls[call_id] = _with(self.attempts(call_id), after)
        text = call_to_text(after)
        self.changes.calls[call_id, after.attempt] = after
        self.changes.call_texts[call_id, after.attempt] = text
        body = canonical_json({"call": call_to_json(after), **noted}) if noted else f'{{"call":{text}}}'.encode()
        self._post(account, _KIND_OF_STATE[after.state], body)


def _with(attempts: tuple[Call, ...], call: Call) -> tuple[Call, ...]:
    """The attempts, oldest first, with one that is new or has changed."""
    if not attempts:
        return (call,)
    return tuple(sorted((*(each for each in attempts if each.attempt != call.attempt), call), key=_attempt_of))


def _attempt_of(call: Call) -> int:
    return call.attempt
