"""What the SQLite store loads and saves; a row that is none raises StoreCorruptError."""

# ruff: noqa: S608 - queries are put together from constants and question marks only.

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ledger_svc.budgets import Account, Study
from ledger_svc.calls import Call
from ledger_svc.storage.rows import (
    ACCOUNT_COLUMNS,
    CALL_COLUMNS,
    ENTRY_FIELDS,
    REQUEST_COLUMNS,
    STUDY_COLUMNS,
    account_from_row,
    account_values,
    call_from_row,
    call_values,
    entry_from_row,
    entry_values,
    study_from_row,
    study_values,
)
from ledger_svc.workspace import Changes, Loaded, RequestRecord, Wanted

__all__ = [
    "CALL_COLUMNS",
    "ENTRY_COLUMNS",
    "STUDY_COLUMNS",
    "call_from_row",
    "entry_from_row",
    "find_account",
    "find_attempts",
    "find_study",
    "load",
    "save",
    "study_from_row",
]

T = TypeVar("T")

ENTRY_COLUMNS = ENTRY_FIELDS.replace(" body,", " CAST(body AS BLOB),")


def load(db: sqlite3.Connection, wanted: Wanted, now: int) -> Loaded:
    """Everything wanted, with the calls' studies, the studies' overdue calls and the studies' accounts."""
    loaded = Loaded()
    for request_id in wanted.request_ids:
        loaded.requests[request_id] = _one(
            db,
            f"SELECT {REQUEST_COLUMNS} FROM requests WHERE request_id = ?",
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
        [account_values(account) for account in changes.accounts.values()],
    )
    db.executemany(
        f"INSERT INTO studies ({STUDY_COLUMNS}) VALUES ({_marks(15)}) {_upsert('study_id', STUDY_COLUMNS)}",
        [study_values(study) for study in changes.studies.values()],
    )
    db.executemany(
        "INSERT INTO payloads (digest, body) VALUES (?, ?) ON CONFLICT DO NOTHING", list(changes.payloads.items())
    )
    db.executemany(
        f"INSERT INTO calls ({CALL_COLUMNS}) VALUES (?, ?, ?) {_upsert('call_id, attempt', 'body')}",
        [call_values(key, call) for key, call in changes.calls.items()],
    )
    db.executemany(
        f"INSERT INTO requests ({REQUEST_COLUMNS}) VALUES (?, ?, ?)",
        [(record.request_id, record.inputs_digest, record.answer_nanos) for record in changes.requests.values()],
    )
    db.executemany(
        f"INSERT INTO journal ({ENTRY_FIELDS}) VALUES ({_marks(8)})",
        [entry_values(entry) for entry in changes.entries],
    )


def _marks(count: int) -> str:
    return ", ".join("?" * count)


def _upsert(key: str, columns: str) -> str:
    changed = [name for name in columns.split(", ") if name not in key.split(", ")]
    return f"ON CONFLICT ({key}) DO UPDATE SET " + ", ".join(f"{name} = excluded.{name}" for name in changed)
