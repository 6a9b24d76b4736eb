"""Rows of the SQLite store to domain objects and back; a row that is none raises StoreCorruptError."""

# ruff: noqa: S608 - queries are put together from constants and question marks only.

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from countersign.kit.canonical import canonical_json
from ledger_svc import errors
from ledger_svc.budgets import Account, Study, Tally, Totals
from ledger_svc.calls import Call
from ledger_svc.codec import call_from_json, call_to_json
from ledger_svc.journal import Entry
from ledger_svc.workspace import Changes, Loaded, RequestRecord, Wanted

T = TypeVar("T")

_TALLIES = (
    "charged_nanos, charged_count, reserved_nanos, reserved_count, "
    "held_nanos, held_count, resolved_nanos, resolved_count"
)
ACCOUNT_COLUMNS = f"account_id, currency, granted_nanos, prior_spend_nanos, head_sequence, head_chain, {_TALLIES}"
STUDY_COLUMNS = (
    "study_id, account_id, cap_nanos, call_ceiling_nanos, max_in_flight, manifest_digest, opened_sequence, " + _TALLIES
)
CALL_COLUMNS = "call_id, attempt, body"
ENTRY_COLUMNS = "account_id, sequence, kind, CAST(body AS BLOB), body_digest, previous_chain, chain, at"


@contextmanager
def _decoding() -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, ValueError):
        raise errors.StoreCorruptError("a stored row cannot be read", problem="row") from None


def _totals(values: Sequence[int]) -> Totals:
    tallies = [Tally(values[index], values[index + 1]) for index in range(0, 8, 2)]
    return Totals(*tallies)


def _tally_values(totals: Totals) -> tuple[int, ...]:
    tallies = (totals.charged, totals.reserved, totals.held, totals.resolved)
    return tuple(value for tally in tallies for value in (tally.nanos, tally.count))


def account_from_row(row: Sequence[Any]) -> Account:
    """An account from `ACCOUNT_COLUMNS`."""
    account_id, currency, granted_nanos, prior_spend_nanos, head_sequence, head_chain, *tallies = row
    return Account(account_id, currency, granted_nanos, prior_spend_nanos, _totals(tallies), head_sequence, head_chain)


def study_from_row(row: Sequence[Any]) -> Study:
    """A study from `STUDY_COLUMNS`."""
    study_id, account_id, cap_nanos, call_ceiling_nanos, max_in_flight, manifest_digest, opened_sequence, *tallies = row
    return Study(
        study_id,
        account_id,
        cap_nanos,
        call_ceiling_nanos,
        max_in_flight,
        manifest_digest,
        opened_sequence,
        _totals(tallies),
    )


def call_from_row(row: Sequence[Any]) -> Call:
    """A call from `CALL_COLUMNS`."""
    call_id, attempt, body = row
    with _decoding():
        call = call_from_json(json.loads(body))
        if (call.call_id, call.attempt) != (call_id, attempt):
            raise ValueError("the row's key is not its call's")
    return call


def entry_from_row(row: Sequence[Any]) -> Entry:
    """A journal entry from `ENTRY_COLUMNS`, unchecked."""
    return Entry(*row)


def load(db: sqlite3.Connection, wanted: Wanted, now: int) -> Loaded:
    """Everything wanted, with the calls' studies, the studies' overdue calls and the studies' accounts."""
    loaded = Loaded()
    for request_id in wanted.request_ids:
        loaded.requests[request_id] = _one(
            db,
            "SELECT request_id, inputs_digest, answer_nanos FROM requests WHERE request_id = ?",
            request_id,
            lambda row: RequestRecord(*row),
        )
    _load_calls(db, loaded, {*wanted.call_ids, *_overdue_ids(db, now, wanted.overdue_count)})
    for study_id in wanted.study_ids | _studies_of(loaded):
        loaded.studies[study_id] = find_study(db, study_id)
        _load_calls(db, loaded, _overdue_ids_of_study(db, now, study_id))
    found = [study.account_id for study in loaded.studies.values() if study is not None]
    for account_id in wanted.account_ids | set(found):
        loaded.accounts[account_id] = find_account(db, account_id)
    return loaded


def find_account(db: sqlite3.Connection, account_id: str) -> Account | None:
    """The account, or None."""
    return _one(db, f"SELECT {ACCOUNT_COLUMNS} FROM accounts WHERE account_id = ?", account_id, account_from_row)


def find_study(db: sqlite3.Connection, study_id: str) -> Study | None:
    """The study, or None."""
    return _one(db, f"SELECT {STUDY_COLUMNS} FROM studies WHERE study_id = ?", study_id, study_from_row)


def find_attempts(db: sqlite3.Connection, call_id: bytes) -> tuple[Call, ...]:
    """All attempts of a slot, oldest first."""
    rows = db.execute(f"SELECT {CALL_COLUMNS} FROM calls WHERE call_id = ? ORDER BY attempt", (call_id,))
    return tuple(call_from_row(row) for row in rows)


def _one(db: sqlite3.Connection, query: str, key: str, decode: Callable[[Sequence[Any]], T]) -> T | None:
    row = db.execute(query, (key,)).fetchone()
    return None if row is None else decode(row)


def _load_calls(db: sqlite3.Connection, loaded: Loaded, call_ids: set[bytes]) -> None:
    for call_id in call_ids - loaded.calls.keys():
        loaded.calls[call_id] = find_attempts(db, call_id)


def _studies_of(loaded: Loaded) -> set[str]:
    return {call.slot.study_id for attempts in loaded.calls.values() for call in attempts}


def _overdue_ids(db: sqlite3.Connection, now: int, limit: int) -> list[bytes]:
    query = (
        "SELECT call_id FROM calls WHERE state = 'RESERVED' AND lease_expires_at <= ? ORDER BY lease_expires_at LIMIT ?"
    )
    return [row[0] for row in db.execute(query, (now, limit))]


def _overdue_ids_of_study(db: sqlite3.Connection, now: int, study_id: str) -> set[bytes]:
    query = "SELECT call_id FROM calls WHERE state = 'RESERVED' AND lease_expires_at <= ? AND study_id = ?"
    return {row[0] for row in db.execute(query, (now, study_id))}


def save(db: sqlite3.Connection, changes: Changes) -> None:
    """Write every change; parents go before children."""
    db.executemany(
        f"INSERT INTO accounts ({ACCOUNT_COLUMNS}) VALUES ({_marks(14)}) {_upsert('account_id', ACCOUNT_COLUMNS)}",
        [_account_values(account) for account in changes.accounts.values()],
    )
    db.executemany(
        f"INSERT INTO studies ({STUDY_COLUMNS}) VALUES ({_marks(15)}) {_upsert('study_id', STUDY_COLUMNS)}",
        [_study_values(study) for study in changes.studies.values()],
    )
    db.executemany(
        "INSERT INTO payloads (digest, body) VALUES (?, ?) ON CONFLICT DO NOTHING", list(changes.payloads.items())
    )
    db.executemany(
        f"INSERT INTO calls ({CALL_COLUMNS}) VALUES (?, ?, ?) {_upsert('call_id, attempt', 'body')}",
        [(*key, canonical_json(call_to_json(call)).decode()) for key, call in changes.calls.items()],
    )
    db.executemany(
        "INSERT INTO requests (request_id, inputs_digest, answer_nanos) VALUES (?, ?, ?)",
        [(record.request_id, record.inputs_digest, record.answer_nanos) for record in changes.requests.values()],
    )
    db.executemany(
        "INSERT INTO journal (account_id, sequence, kind, body, body_digest, previous_chain, chain, at) "
        f"VALUES ({_marks(8)})",
        [_entry_values(entry) for entry in changes.entries],
    )


def _marks(count: int) -> str:
    return ", ".join("?" * count)


def _upsert(key: str, columns: str) -> str:
    changed = [name for name in columns.split(", ") if name not in key.split(", ")]
    return f"ON CONFLICT ({key}) DO UPDATE SET " + ", ".join(f"{name} = excluded.{name}" for name in changed)


def _account_values(account: Account) -> tuple[Any, ...]:
    return (
        account.account_id,
        account.currency,
        account.granted_nanos,
        account.prior_spend_nanos,
        account.head_sequence,
        account.head_chain,
        *_tally_values(account.totals),
    )


def _study_values(study: Study) -> tuple[Any, ...]:
    return (
        study.study_id,
        study.account_id,
        study.cap_nanos,
        study.call_ceiling_nanos,
        study.max_in_flight,
        study.manifest_digest,
        study.opened_sequence,
        *_tally_values(study.totals),
    )


def _entry_values(entry: Entry) -> tuple[Any, ...]:
    return (
        entry.account_id,
        entry.sequence,
        entry.kind,
        entry.body.decode(),
        entry.body_digest,
        entry.previous_chain,
        entry.chain,
        entry.at,
    )
