"""What the SQLite store loads and saves in one transaction; a row that is none raises StoreCorruptError."""

# ruff: noqa: S608 - queries are put together from constants and question marks only.

import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from ledger_svc import errors
from ledger_svc.budgets import Account, Study
from ledger_svc.calls import Call
from ledger_svc.storage.base import AttemptPage, StoredAttempt
from ledger_svc.storage.rows import (
    ACCOUNT_COLUMNS,
    CALL_COLUMNS,
    ENTRY_COLUMNS,
    REQUEST_COLUMNS,
    STUDY_COLUMNS,
    account_from_row,
    account_values,
    call_from_row,
    entry_values,
    request_from_row,
    request_values,
    study_from_row,
    study_values,
    typed,
)
from ledger_svc.storage.sqlite_batch import chunks, insert, marks
from ledger_svc.storage.sqlite_keys import RecentKeys, RowIds, last_row_id, move
from ledger_svc.workspace import Changes, Loaded, RequestRecord, Wanted

T = TypeVar("T")

_DERIVED_COLUMNS = ("account_id", "study_id", "state", "lease_expires_at", "reserved_sequence")
READ_ENTRY_COLUMNS = ENTRY_COLUMNS.replace(" body,", " CAST(body AS BLOB),")
"""The columns of `entry_from_row`."""

_STORED_CALL_COLUMNS = "id, call_id, attempt, body, account_id, study_id, state, lease_expires_at, reserved_sequence"

AUDITED_CALLS = """
    SELECT id, call_id, attempt, CASE WHEN (id <= ?2, CASE WHEN id <= ?2 THEN id END) IS (
        SELECT count(*), max(keys.id) FROM call_keys AS keys
        WHERE keys.call_id = calls.call_id AND keys.attempt = calls.attempt
    ) THEN CAST(body AS BLOB) ELSE x'' END, account_id, study_id, state, lease_expires_at, reserved_sequence
    FROM calls WHERE account_id = ?1 ORDER BY reserved_sequence
"""
"""An account's calls, each after its row id, for `audited_call_from_row`; the second value is `moved_up_to`.

One that its key does not lead to has no body, and so has one whose key is where it should not be yet.
"""


def audited_call_from_row(row: Sequence[Any]) -> tuple[bytes, int, bytes]:
    """A call's key and JSON from `AUDITED_CALLS`, without the JSON where a column derived from it differs."""
    call_id, attempt, body, *derived = typed(row, (bytes, int, bytes, str, str, str, int, int))
    try:
        value = json.loads(body)
        agrees = derived == [value[name] for name in _DERIVED_COLUMNS]
    except (KeyError, TypeError, ValueError):
        agrees = False
    return call_id, attempt, body if agrees else b""


def load(db: sqlite3.Connection, keys: RecentKeys, wanted: Wanted, now: int) -> tuple[Loaded, RowIds]:
    """Everything wanted, with the calls' studies, the studies' overdue calls and the studies' accounts."""
    loaded = Loaded()
    row_ids: RowIds = {}
    for request_id in wanted.request_ids:
        loaded.requests[request_id] = find_request(db, request_id)
    overdue = _overdue_ids(db, now, wanted.overdue_count) if wanted.overdue_count else []
    _load_calls(db, keys, loaded, row_ids, wanted.call_ids.union(overdue))
    for study_id in wanted.study_ids | _studies_of(loaded):
        loaded.studies[study_id] = find_study(db, study_id)
        _load_calls(db, keys, loaded, row_ids, _overdue_ids_of_study(db, now, study_id))
    found = [study.account_id for study in loaded.studies.values() if study is not None]
    for account_id in wanted.account_ids | set(found):
        loaded.accounts[account_id] = find_account(db, account_id)
    return loaded, row_ids


def find_account(db: sqlite3.Connection, account_id: str) -> Account | None:
    """The account, or None."""
    return _one(db, f"SELECT {ACCOUNT_COLUMNS} FROM accounts WHERE account_id = ?", account_id, account_from_row)


def find_study(db: sqlite3.Connection, study_id: str) -> Study | None:
    """The study, or None."""
    return _one(db, f"SELECT {STUDY_COLUMNS} FROM studies WHERE study_id = ?", study_id, study_from_row)


def find_request(db: sqlite3.Connection, request_id: str) -> RequestRecord | None:
    """What was done under a request id, or None."""
    query = f"SELECT {REQUEST_COLUMNS} FROM requests WHERE request_id = ?"
    return _one(db, query, request_id, request_from_row)


def count_entries(db: sqlite3.Connection) -> int:
    """How many journal entries there are, at no cost that grows with them.

    The accounts' heads and the append-only journal's last row both tell. Where they disagree, verification says how,
    and the greater counts.
    """
    heads = db.execute("SELECT coalesce(sum(head_sequence), 0) FROM accounts").fetchone()[0]
    last = db.execute("SELECT coalesce(max(rowid), 0) FROM journal").fetchone()[0]
    return int(max(typed((heads, last), (int, int))))


def last_entry_at(db: sqlite3.Connection) -> int:
    """When the latest journal entry was written, as it says itself; 0 where there is none."""
    row = db.execute("SELECT at FROM journal ORDER BY rowid DESC LIMIT 1").fetchone()
    return row[0] if row is not None and isinstance(row[0], int) else 0


def find_attempts(db: sqlite3.Connection, ids: Sequence[int], call_id: bytes) -> tuple[Call, ...]:
    """All attempts of a slot, which are kept at `ids`, oldest first."""
    found = sorted((call for _, call in _found_calls(db, ids, (call_id,))), key=lambda call: call.attempt)
    return tuple(found)


def _found_calls(db: sqlite3.Connection, ids: Sequence[int], call_ids: Collection[bytes]) -> list[tuple[int, Call]]:
    """The calls that are kept at `ids`, with their row ids; each must be of one of the slots."""
    found: list[tuple[int, Call]] = []
    for some in chunks(ids):
        query = f"SELECT id, {CALL_COLUMNS} FROM calls WHERE id IN ({marks(len(some))})"
        found += [(row_id, call_from_row(row)) for row_id, *row in db.execute(query, some)]
    if len(found) != len(ids) or any(call.call_id not in call_ids for _, call in found):
        raise errors.StoreCorruptError("a call's key leads to another call", problem="row")
    return found


def find_stored(
    db: sqlite3.Connection, ids: Sequence[int], call_ids: Sequence[bytes], after_attempt: int, max_bytes: int
) -> AttemptPage:
    """As `Store.stored_attempts`; the slots' attempts are kept at `ids`."""
    slots: dict[bytes, list[tuple[int, Call]]] = {}
    for row_id, call in sorted(_found_calls(db, ids, call_ids), key=lambda each: each[1].attempt):
        slots.setdefault(call.call_id, []).append((row_id, call))
    page = AttemptPage(max_bytes)
    for call_id in call_ids:
        if call_id not in slots:
            page.ended = True
            break
        kept = [row_id for row_id, _ in slots[call_id]]
        for call in (call for _, call in slots[call_id] if call.attempt > after_attempt):
            request = find_payload(db, kept, call.request_digest)
            response = None if call.receipt is None else find_payload(db, kept, call.receipt.response_digest)
            if not page.take(StoredAttempt(call, request, response)):
                return page
        after_attempt = 0
    return page


def find_payload(db: sqlite3.Connection, ids: Iterable[int], digest: bytes) -> bytes | None:
    """The request or response of that digest that an attempt has, of those that are kept at `ids`, or None."""
    for row_id in ids:
        query = "SELECT body FROM payloads WHERE id IN (2 * ?1, 2 * ?1 + 1) AND digest = ?2"
        row: Any = db.execute(query, (row_id, digest)).fetchone()
        if row is not None:
            return row[0] if isinstance(row[0], bytes) else None
    return None


def _one(db: sqlite3.Connection, query: str, key: str, decode: Callable[[Sequence[Any]], T]) -> T | None:
    row = db.execute(query, (key,)).fetchone()
    return None if row is None else decode(row)


def _load_calls(
    db: sqlite3.Connection, keys: RecentKeys, loaded: Loaded, row_ids: RowIds, call_ids: Collection[bytes]
) -> None:
    missing = [call_id for call_id in call_ids if call_id not in loaded.calls]
    loaded.calls.update(dict.fromkeys(missing, ()))
    found = _found_calls(db, keys.find_all(db, missing), missing)
    for row_id, call in sorted(found, key=lambda each: each[1].attempt):
        loaded.calls[call.call_id] += (call,)
        row_ids[call.call_id, call.attempt] = row_id


def _studies_of(loaded: Loaded) -> set[str]:
    return {call.slot.study_id for attempts in loaded.calls.values() for call in attempts}


def _overdue_ids(db: sqlite3.Connection, now: int, limit: int) -> list[bytes]:
    query = (
        "SELECT call_id FROM calls WHERE state = 'RESERVED' AND lease_expires_at <= ? ORDER BY lease_expires_at LIMIT ?"
    )
    return [row[0] for row in db.execute(query, (now, limit))]


def _overdue_ids_of_study(db: sqlite3.Connection, now: int, study_id: str) -> set[bytes]:
    # Named, or SQLite would rather search all of the study's calls.
    query = (
        "SELECT call_id FROM calls INDEXED BY calls_reserved "
        "WHERE state = 'RESERVED' AND lease_expires_at <= ? AND study_id = ?"
    )
    return {row[0] for row in db.execute(query, (now, study_id))}


def save(db: sqlite3.Connection, changes: Changes, row_ids: RowIds) -> RowIds:
    """Write every change; parents go before children. `row_ids` is what `load` gave for the same transaction.

    Gives where the new calls are kept.
    """
    accounts = [account_values(account) for account in changes.accounts.values()]
    insert(db, "accounts", ACCOUNT_COLUMNS, accounts, _upsert("account_id", ACCOUNT_COLUMNS))
    studies = [study_values(study) for study in changes.studies.values()]
    insert(db, "studies", STUDY_COLUMNS, studies, _upsert("study_id", STUDY_COLUMNS))
    new = _save_calls(db, changes, row_ids)
    insert(db, "requests", REQUEST_COLUMNS, [request_values(record) for record in changes.requests.values()])
    insert(db, "journal", ENTRY_COLUMNS, [entry_values(entry) for entry in changes.entries])
    return new


def _save_calls(db: sqlite3.Connection, changes: Changes, row_ids: RowIds) -> RowIds:
    """New calls get the next row ids; a call's payloads are kept at places that follow from its own."""
    keys = [key for key in changes.calls if key not in row_ids]
    first = 1 + last_row_id(db) if keys else 0
    new = {key: row_id for row_id, key in enumerate(keys, first)}
    ids = {**row_ids, **new}
    texts = changes.call_texts
    rows = [_call_values(ids[key], key[0], call, texts[key]) for key, call in changes.calls.items()]
    insert(db, "calls", _STORED_CALL_COLUMNS, rows, _CHANGED_CALL)
    insert(db, "payloads", "id, digest, body", list(_payload_rows(changes, ids)), "ON CONFLICT DO NOTHING")
    if new:
        move(db, first, first + len(new) - 1)
    return new


_CHANGED_CALL = "ON CONFLICT (id) DO UPDATE SET body = excluded.body, state = excluded.state"


def _call_values(row_id: int, call_id: bytes, call: Call, text: str) -> tuple[Any, ...]:
    return (
        row_id,
        call_id,
        call.attempt,
        text,
        call.account_id,
        call.slot.study_id,
        call.state.value,
        call.lease_expires_at,
        call.reserved_sequence,
    )


def _payload_rows(changes: Changes, ids: RowIds) -> Iterator[tuple[int, bytes, bytes]]:
    for key, call in changes.calls.items():
        if call.request_digest in changes.payloads:
            yield 2 * ids[key], call.request_digest, changes.payloads[call.request_digest]
        if call.receipt is not None and call.receipt.response_digest in changes.payloads:
            digest = call.receipt.response_digest
            yield 2 * ids[key] + 1, digest, changes.payloads[digest]


def _upsert(key: str, columns: str) -> str:
    changed = [name for name in columns.split(", ") if name not in key.split(", ")]
    return f"ON CONFLICT ({key}) DO UPDATE SET " + ", ".join(f"{name} = excluded.{name}" for name in changed)
