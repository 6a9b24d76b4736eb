"""What the PostgreSQL store locks, loads and saves in one transaction.

Every ledger on a database takes the same way: the rows of all accounts that the batch touches are locked in the order
of their ids, and only then is anything else read. A study belongs to one account for good, a call to one study, and
whatever changes either appends to the account's journal; so nobody else changes, until the transaction's end, what was
read. What no lock covers, since it does not exist yet (a new account, study or request id), a unique key decides.
"""

# ruff: noqa: S608 - queries are put together from constants and placeholders only.

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from ledger_svc.budgets import Account, Study
from ledger_svc.calls import Call
from ledger_svc.storage.base import AttemptPage, StoredAttempt
from ledger_svc.storage.postgres_errors import OvertakenError
from ledger_svc.storage.postgres_schema import Connection
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
)
from ledger_svc.workspace import Changes, Loaded, RequestRecord, Wanted

READ_ENTRY_COLUMNS = ENTRY_COLUMNS.replace(" body,", " convert_to(body, 'UTF8'),")
"""The columns of `entry_from_row`."""

NOW = "(SELECT coalesce(%(now)s::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint))"
"""The given moment, or the database's own; a query of its own, so that it is found once and an index can be used."""

_OVERDUE = f"state = 'RESERVED' AND lease_expires_at <= {NOW}"


@dataclass(frozen=True, slots=True)
class Known:
    """Which accounts and studies had a row before the transaction changed anything."""

    account_ids: frozenset[str]
    study_ids: frozenset[str]


async def load(db: Connection, wanted: Wanted, now: int | None) -> tuple[Loaded, int]:
    """Lock and load everything wanted (`storage.base.Store`), and give the moment at which the locks were held.

    Raises OvertakenError where the accounts to be locked changed in between.
    """
    loaded = Loaded()
    account_ids = await _touched_accounts(db, wanted, now)
    await _lock_accounts(db, loaded, account_ids)
    at = await moment(db, now)
    await _load_requests(db, loaded, wanted.request_ids)
    overdue_ids = await _overdue_ids(db, at, account_ids, wanted.overdue_count)
    await _load_calls(db, loaded, wanted.call_ids | overdue_ids)
    await _load_studies(db, loaded, wanted.study_ids | _studies_of(loaded))
    await _load_calls(db, loaded, await _overdue_ids_of_studies(db, at, loaded.studies))
    return loaded, at


def known(loaded: Loaded) -> Known:
    """What exists, as it was loaded."""
    return Known(
        frozenset(key for key, account in loaded.accounts.items() if account is not None),
        frozenset(key for key, study in loaded.studies.items() if study is not None),
    )


async def moment(db: Connection, now: int | None) -> int:
    """`now`, or the database's time in microseconds since the Unix epoch."""
    (row,) = await fetch(db, f"SELECT {NOW}", {"now": now})
    return int(row[0])


async def fetch(db: Connection, query: str, values: dict[str, Any]) -> Sequence[tuple[Any, ...]]:
    """All rows of a query."""
    return await (await db.execute(query, values, binary=True)).fetchall()


async def _touched_accounts(db: Connection, wanted: Wanted, now: int | None) -> list[str]:
    query = f"""
        SELECT account_id FROM unnest(%(account_ids)s::text[]) AS given (account_id)
        UNION SELECT account_id FROM studies WHERE study_id = ANY(%(study_ids)s)
        UNION SELECT account_id FROM calls WHERE call_id = ANY(%(call_ids)s)
        UNION (SELECT account_id FROM calls WHERE {_OVERDUE} ORDER BY lease_expires_at LIMIT %(count)s)
    """
    values = {
        "account_ids": list(wanted.account_ids),
        "study_ids": list(wanted.study_ids),
        "call_ids": list(wanted.call_ids),
        "count": wanted.overdue_count,
        "now": now,
    }
    return [row[0] for row in await fetch(db, query, values)]


async def _lock_accounts(db: Connection, loaded: Loaded, account_ids: Collection[str]) -> None:
    loaded.accounts.update(dict.fromkeys(account_ids))
    query = f"SELECT {ACCOUNT_COLUMNS} FROM accounts WHERE account_id = ANY(%(ids)s) ORDER BY account_id FOR UPDATE"
    for row in await fetch(db, query, {"ids": list(account_ids)}):
        account = account_from_row(row)
        loaded.accounts[account.account_id] = account


async def find_request(db: Connection, request_id: str) -> RequestRecord | None:
    """What was done under a request id, or None."""
    found = await fetch(db, f"SELECT {REQUEST_COLUMNS} FROM requests WHERE request_id = %(id)s", {"id": request_id})
    return request_from_row(found[0]) if found else None


async def _load_requests(db: Connection, loaded: Loaded, request_ids: Collection[str]) -> None:
    loaded.requests.update(dict.fromkeys(request_ids))
    query = f"SELECT {REQUEST_COLUMNS} FROM requests WHERE request_id = ANY(%(ids)s)"
    for row in await fetch(db, query, {"ids": list(request_ids)}):
        loaded.requests[row[0]] = request_from_row(row)


async def _overdue_ids(db: Connection, at: int, account_ids: Sequence[str], count: int) -> set[bytes]:
    if count == 0:
        return set()
    query = (
        f"SELECT call_id FROM calls WHERE {_OVERDUE} AND account_id = ANY(%(ids)s) "
        "ORDER BY lease_expires_at LIMIT %(count)s"
    )
    return {row[0] for row in await fetch(db, query, {"now": at, "ids": list(account_ids), "count": count})}


async def _overdue_ids_of_studies(db: Connection, at: int, study_ids: Collection[str]) -> set[bytes]:
    query = f"SELECT call_id FROM calls WHERE {_OVERDUE} AND study_id = ANY(%(ids)s)"
    return {row[0] for row in await fetch(db, query, {"now": at, "ids": list(study_ids)})}


async def _load_calls(db: Connection, loaded: Loaded, call_ids: Iterable[bytes]) -> None:
    missing = set(call_ids) - loaded.calls.keys()
    if not missing:
        return
    loaded.calls.update(dict.fromkeys(missing, ()))
    query = f"SELECT {CALL_COLUMNS} FROM calls WHERE call_id = ANY(%(ids)s) ORDER BY call_id, attempt"
    found = [call_from_row(row) for row in await fetch(db, query, {"ids": list(missing)})]
    for call_id, attempts in groupby(found, key=lambda call: call.call_id):
        loaded.calls[call_id] = tuple(attempts)


async def _load_studies(db: Connection, loaded: Loaded, study_ids: Collection[str]) -> None:
    loaded.studies.update(dict.fromkeys(study_ids))
    query = f"SELECT {STUDY_COLUMNS} FROM studies WHERE study_id = ANY(%(ids)s)"
    for row in await fetch(db, query, {"ids": list(study_ids)}):
        study = study_from_row(row)
        loaded.studies[study.study_id] = study
        if loaded.accounts.get(study.account_id) is None:
            raise OvertakenError


def _studies_of(loaded: Loaded) -> set[str]:
    return {call.slot.study_id for attempts in loaded.calls.values() for call in attempts}


async def save(db: Connection, changes: Changes, before: Known) -> None:
    """Write every change: tables and keys in a fixed order, so that no two ledgers wait for each other.

    A row that is new must not exist: where another ledger was first, that is a unique violation, not its loss.
    """
    accounts = {key: account_values(account) for key, account in changes.accounts.items()}
    studies = {key: study_values(study) for key, study in changes.studies.items()}
    await _write(db, "accounts", ACCOUNT_COLUMNS, accounts, before.account_ids)
    await _write(db, "studies", STUDY_COLUMNS, studies, before.study_ids)
    await _insert(db, "payloads", "digest, body", sorted(changes.payloads.items()), "ON CONFLICT DO NOTHING")
    calls = [(*key, changes.call_texts[key]) for key in changes.calls]
    await _insert(db, "calls", CALL_COLUMNS, calls, "ON CONFLICT (call_id, attempt) DO UPDATE SET body = excluded.body")
    values = [request_values(changes.requests[key]) for key in sorted(changes.requests)]
    await _insert(db, "requests", REQUEST_COLUMNS, values)
    await _insert(db, "journal", ENTRY_COLUMNS, [entry_values(entry) for entry in changes.entries])


async def _write(
    db: Connection, table: str, columns: str, rows: dict[str, tuple[Any, ...]], existing: frozenset[str]
) -> None:
    await _insert(db, table, columns, [rows[key] for key in sorted(rows.keys() - existing)])
    await _update(db, table, columns, [rows[key] for key in sorted(rows.keys() & existing)])


async def _insert(db: Connection, table: str, columns: str, rows: Sequence[Sequence[Any]], conflict: str = "") -> None:
    if rows:
        marks = ", ".join(["%s"] * len(columns.split(", ")))
        query = f"INSERT INTO {table} ({columns}) VALUES ({marks}) {conflict}"
        await db.cursor().executemany(query, rows)


async def _update(db: Connection, table: str, columns: str, rows: Sequence[Sequence[Any]]) -> None:
    """Write whole rows, found by the first column."""
    if rows:
        key, *names = columns.split(", ")
        query = f"UPDATE {table} SET " + ", ".join(f"{name} = %s" for name in names) + f" WHERE {key} = %s"
        await db.cursor().executemany(query, [(*row[1:], row[0]) for row in rows])


async def find_account(db: Connection, account_id: str) -> Account | None:
    """The account, or None."""
    query = f"SELECT {ACCOUNT_COLUMNS} FROM accounts WHERE account_id = %(id)s"
    rows = await fetch(db, query, {"id": searchable(account_id)})
    return account_from_row(rows[0]) if rows else None


async def find_study(db: Connection, study_id: str) -> Study | None:
    """The study, or None."""
    query = f"SELECT {STUDY_COLUMNS} FROM studies WHERE study_id = %(id)s"
    rows = await fetch(db, query, {"id": searchable(study_id)})
    return study_from_row(rows[0]) if rows else None


async def find_attempts(db: Connection, call_id: bytes) -> tuple[Call, ...]:
    """All attempts of a slot, oldest first."""
    query = f"SELECT {CALL_COLUMNS} FROM calls WHERE call_id = %(id)s ORDER BY attempt"
    return tuple(call_from_row(row) for row in await fetch(db, query, {"id": call_id}))


async def find_stored(db: Connection, call_ids: Sequence[bytes], after_attempt: int, max_bytes: int) -> AttemptPage:
    """As `Store.stored_attempts`."""
    query = f"SELECT {CALL_COLUMNS} FROM calls WHERE call_id = ANY(%(ids)s) ORDER BY attempt"
    slots: dict[bytes, list[Call]] = {}
    for row in await fetch(db, query, {"ids": list(call_ids)}):
        call = call_from_row(row)
        slots.setdefault(call.call_id, []).append(call)
    page = AttemptPage(max_bytes)
    for call_id in call_ids:
        if call_id not in slots:
            page.ended = True
            break
        for call in (call for call in slots[call_id] if call.attempt > after_attempt):
            request = await find_payload(db, call.request_digest)
            response = None if call.receipt is None else await find_payload(db, call.receipt.response_digest)
            if not page.take(StoredAttempt(call, request, response)):
                return page
        after_attempt = 0
    return page


async def find_payload(db: Connection, digest: bytes) -> bytes | None:
    """The stored payload, or None."""
    rows = await fetch(db, "SELECT body FROM payloads WHERE digest = %(digest)s", {"digest": digest})
    return bytes(rows[0][0]) if rows else None


def searchable(text: str) -> str:
    """The text where an id could be so, else an id that nothing has: PostgreSQL's text cannot hold NUL."""
    return "" if "\0" in text else text
