"""The store for several ledgers on one database: PostgreSQL, psycopg 3 (design/ledger.md, Storage; docs/postgres.md).

A batch is one transaction, in which account rows are locked in a fixed order (`postgres_rows`). What goes wrong before
COMMIT was sent has certainly left nothing: another ledger's transaction in the way, or a lost connection, is met by a
new attempt, at most `MAX_ATTEMPTS` in all. From COMMIT on nothing is tried again: where its outcome is not heard, the
batch is answered with StoreUnavailableError (`commit_unknown`), and asking again by the same id finds the truth.
"""

# ruff: noqa: S608 - queries are put together from constants and placeholders only.

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import psycopg
from psycopg.errors import Diagnostic

from ledger_svc import errors
from ledger_svc.audit import Auditor
from ledger_svc.budgets import Account, Study
from ledger_svc.calls import Call, CallState
from ledger_svc.journal import Entry
from ledger_svc.storage import postgres_errors
from ledger_svc.storage import postgres_rows as rows
from ledger_svc.storage.base import AttemptPage, Balances
from ledger_svc.storage.postgres_connection import Pool, PostgresOptions, connect, connection_text, open_pool
from ledger_svc.storage.postgres_errors import OvertakenError
from ledger_svc.storage.postgres_schema import Connection, check_version, migrate
from ledger_svc.storage.rows import (
    ACCOUNT_COLUMNS,
    CALL_COLUMNS,
    STUDY_COLUMNS,
    account_from_row,
    call_from_row,
    entry_from_row,
    in_states,
    study_from_row,
)
from ledger_svc.workspace import Wanted, Workspace

T = TypeVar("T")

MAX_ATTEMPTS = 3
_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class PostgresStore:
    """A `storage.base.Store` in one PostgreSQL database, which other ledgers may use at the same time.

    Make one with `open`.
    """

    def __init__(self, pool: Pool, conninfo: str, options: PostgresOptions) -> None:
        self._pool = pool
        self._conninfo = conninfo
        self._options = options
        self._closed = False

    @classmethod
    async def open(cls, dsn: str, options: PostgresOptions | None = None) -> "PostgresStore":
        """Connect and bring the schema up to date; `dsn` is libpq's, as key=value or as a URI.

        Raises InvalidArgumentError (no DSN), StoreUnavailableError (no server, password, database, right, or one that
        is not durable), StoreCorruptError (tables of something else) or SchemaTooNewError.
        """
        options = options or PostgresOptions()
        conninfo = connection_text(dsn)
        async with _lone_connection(conninfo, options) as db:
            await migrate(db)
        return cls(await open_pool(conninfo, options), conninfo, options)

    async def _run(self, work: Callable[[Connection], Awaitable[T]], *, commits: bool = False) -> T:
        """Do the work on a connection of the pool, and commit what it began where it did; anew where nothing is left.

        Work that raises is rolled back.
        """
        attempts_left = MAX_ATTEMPTS
        while True:
            attempts_left -= 1
            try:
                return await self._attempt(work, commits)
            except (psycopg.Error, OvertakenError) as error:
                again = postgres_errors.is_conflict(error) or postgres_errors.is_lost(error)
                if not again or attempts_left == 0:
                    raise postgres_errors.of_statement(error) from None
                if postgres_errors.is_lost(error):
                    # The pool's other connections have most likely gone with this one.
                    await self._pool.check()

    async def _attempt(self, work: Callable[[Connection], Awaitable[T]], commits: bool) -> T:
        committed = False
        try:
            async with self._pool.connection() as db:
                answer = await self._worked(db, work)
                if commits:
                    await _commit(db, self._options.commit_millis / 1_000)
                committed = commits
        except psycopg.Error:
            # What the connection meets after COMMIT changes nothing of the answer.
            if not committed:
                raise
        return answer

    async def _worked(self, db: Connection, work: Callable[[Connection], Awaitable[T]]) -> T:
        try:
            async with asyncio.timeout(self._options.work_millis / 1_000):
                return await work(db)
        except TimeoutError:
            await db.close()
            raise postgres_errors.too_slow() from None
        except psycopg.Error as error:
            if not postgres_errors.is_conflict(error):
                # A server that lost its role (a primary that became a standby) is asked no more.
                await db.close()
            raise

    async def transact(self, wanted: Wanted, now: int | None, work: Callable[[Workspace], T]) -> T:
        """See `Store.transact`. Where `now` is None, the database's clock decides, read once the locks are held."""

        async def run(db: Connection) -> T:
            await _begin(db)
            loaded, at = await rows.load(db, wanted, now)
            before = rows.known(loaded)
            book = Workspace(loaded, at)
            answer = work(book)
            await rows.save(db, book.changes, before)
            return answer

        return await self._run(run, commits=True)

    async def check(self) -> None:
        """See `Store.check`."""

        async def run(db: Connection) -> None:
            await _begin(db)
            await db.execute("UPDATE probe SET written_count = written_count + 1")

        await self._run(run, commits=True)

    async def account_ids(self) -> list[str]:
        """See `Store.account_ids`."""
        query = "SELECT account_id FROM accounts UNION SELECT DISTINCT account_id FROM journal ORDER BY 1"
        return await self._run(lambda db: _first_column(db, query, {}))

    async def balances(self, account_id: str, study_id: str | None, after_sequence: int, limit: int) -> Balances | None:
        """See `Store.balances`."""

        async def query(db: Connection) -> Balances | None:
            await db.execute(_SNAPSHOT)
            account = await rows.find_account(db, account_id)
            if account is None:
                return None
            if study_id is None:
                return Balances(account, await _studies(db, account, after_sequence, limit))
            study = await rows.find_study(db, study_id)
            return Balances(account, [] if study is None or study.account_id != account_id else [study])

        return await self._run(query)

    async def accounts(self, after_id: str, limit: int) -> list[Account]:
        """See `Store.accounts`."""
        query = (
            f"SELECT {ACCOUNT_COLUMNS} FROM accounts WHERE account_id > %(after)s ORDER BY account_id LIMIT %(limit)s"
        )
        values = {"after": after_id, "limit": limit}
        return [account_from_row(row) for row in await self._run(lambda db: rows.fetch(db, query, values))]

    async def study(self, study_id: str) -> Study | None:
        """See `Store.study`."""
        return await self._run(lambda db: rows.find_study(db, study_id))

    async def currency_of_account(self, account_id: str) -> str | None:
        """See `Store.currency_of_account`."""
        account = await self._run(lambda db: rows.find_account(db, account_id))
        return None if account is None else account.currency

    async def attempts(self, call_id: bytes) -> tuple[Call, ...]:
        """See `Store.attempts`."""
        return await self._run(lambda db: rows.find_attempts(db, call_id))

    async def calls(self, study_id: str, states: Collection[CallState], after_sequence: int, limit: int) -> list[Call]:
        """See `Store.calls`."""
        return await self._run(lambda db: _calls(db, "study_id", study_id, states, after_sequence, limit))

    async def calls_of_account(
        self, account_id: str, states: Collection[CallState], after_sequence: int, limit: int
    ) -> list[Call]:
        """As `calls`, over all studies of an account."""
        return await self._run(lambda db: _calls(db, "account_id", account_id, states, after_sequence, limit))

    async def entries(self, account_id: str, after_sequence: int, limit: int) -> list[Entry]:
        """At most `limit` entries of an account's journal after a sequence, in order, as stored and unchecked."""
        query = (
            f"SELECT {rows.READ_ENTRY_COLUMNS} FROM journal WHERE account_id = %(id)s AND sequence > %(after)s "
            "ORDER BY sequence LIMIT %(limit)s"
        )
        values = {"id": rows.searchable(account_id), "after": after_sequence, "limit": limit}
        return [entry_from_row(row) for row in await self._run(lambda db: rows.fetch(db, query, values))]

    async def payload(self, call_id: bytes, digest: bytes) -> bytes | None:
        """See `Store.payload`. Payloads are kept by their digests alone."""
        return await self._run(lambda db: rows.find_payload(db, digest))

    async def stored_attempts(self, call_ids: Sequence[bytes], after_attempt: int, max_bytes: int) -> AttemptPage:
        """See `Store.stored_attempts`."""

        async def query(db: Connection) -> AttemptPage:
            await db.execute(_SNAPSHOT)
            return await rows.find_stored(db, call_ids, after_attempt, max_bytes)

        return await self._run(query)

    async def has_overdue(self, now: int | None) -> bool:
        """See `Store.has_overdue`."""
        query = f"SELECT 1 FROM calls WHERE state = 'RESERVED' AND lease_expires_at <= {rows.NOW} LIMIT 1"
        return bool(await self._run(lambda db: rows.fetch(db, query, {"now": now})))

    async def audit(self, *auditors: Auditor) -> None:
        """See `Store.audit`. It has one connection of its own for all, so that other reads need not wait for it."""
        self._check_open()
        async with _lone_connection(self._conninfo, self._options) as db:
            for auditor in auditors:
                await db.execute(_SNAPSHOT)
                await _feed(db, auditor)
                await db.execute("COMMIT")

    async def examine(self) -> None:
        """Look for damage in the engine's own structures: the server does so by itself, wherever it reads.

        It checks its pages' checksums where it was set up with them; its indexes are its administrator's to check, by
        `pg_amcheck`, which needs rights that the ledger's role has not.
        """
        self._check_open()

    def _check_open(self) -> None:
        if self._closed:
            raise errors.StoreUnavailableError("the store is closed", problem="closed")

    async def close(self) -> None:
        """See `Store.close`."""
        self._closed = True
        await self._pool.close()


@asynccontextmanager
async def _lone_connection(conninfo: str, options: PostgresOptions) -> AsyncIterator[Connection]:
    """A connection outside the pool; whatever the driver raises inside becomes the ledger's own error."""
    try:
        db = await connect(conninfo, options)
        try:
            yield db
        finally:
            await db.close()
    except psycopg.Error as error:
        raise postgres_errors.of_statement(error) from None


async def _begin(db: Connection) -> None:
    await db.execute("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
    await check_version(db)


async def _commit(db: Connection, seconds: float) -> None:
    """Commit durably; raises StoreUnavailableError (`commit_unknown`) where that is not certain.

    A COMMIT that was told to wait for its standby no longer is carried out with a warning.
    """
    warned: list[Diagnostic] = []
    db.add_notice_handler(warned.append)
    try:
        async with asyncio.timeout(seconds):
            cursor = await db.execute("COMMIT")
    except (psycopg.Error, TimeoutError):
        await db.close()
        raise postgres_errors.commit_unknown() from None
    finally:
        db.remove_notice_handler(warned.append)
    if warned or cursor.statusmessage != "COMMIT":
        raise postgres_errors.commit_unknown()


async def _first_column(db: Connection, query: str, values: dict[str, Any]) -> list[Any]:
    return [row[0] for row in await rows.fetch(db, query, values)]


async def _calls(
    db: Connection, column: str, value: str, states: Collection[CallState], after_sequence: int, limit: int
) -> list[Call]:
    query = (
        f"SELECT {CALL_COLUMNS} FROM calls WHERE {column} = %(id)s AND reserved_sequence > %(after)s "
        f"AND {in_states(states)} ORDER BY reserved_sequence LIMIT %(limit)s"
    )
    values = {
        "id": rows.searchable(value),
        "after": after_sequence,
        "limit": limit,
    }
    return [call_from_row(row) for row in await rows.fetch(db, query, values)]


async def _studies(db: Connection, account: Account, after_sequence: int, limit: int) -> list[Study]:
    query = (
        f"SELECT {STUDY_COLUMNS} FROM studies WHERE account_id = %(id)s AND opened_sequence > %(after)s "
        "ORDER BY opened_sequence LIMIT %(limit)s"
    )
    values = {"id": account.account_id, "after": after_sequence, "limit": limit}
    return [study_from_row(row) for row in await rows.fetch(db, query, values)]


async def _feed(db: Connection, auditor: Auditor) -> None:
    values = {"id": auditor.account_id}
    entries = f"SELECT {rows.READ_ENTRY_COLUMNS} FROM journal WHERE account_id = %(id)s ORDER BY sequence"
    async for row in _stream(db, entries, values):
        auditor.entry(entry_from_row(row))
    auditor.account(await rows.find_account(db, auditor.account_id))
    for row in await rows.fetch(db, f"SELECT {STUDY_COLUMNS} FROM studies WHERE account_id = %(id)s", values):
        auditor.study(study_from_row(row))
    calls = (
        "SELECT call_id, attempt, convert_to(body, 'UTF8') FROM calls WHERE account_id = %(id)s "
        "ORDER BY reserved_sequence"
    )
    async for call_id, attempt, body in _stream(db, calls, values):
        auditor.call(call_id, attempt, body)
    for request_id in auditor.wanted_requests():
        auditor.request(request_id, await rows.find_request(db, request_id))
    for digest, what, subject in auditor.wanted_payloads():
        auditor.payload(digest, what, subject, await rows.find_payload(db, digest))
    auditor.finish()


async def _stream(db: Connection, query: str, values: dict[str, Any]) -> AsyncIterator[tuple[Any, ...]]:
    """The rows of a query, of which never all are in memory."""
    async with db.cursor(name="audit") as cursor:
        await cursor.execute(query, values, binary=True)
        async for row in cursor:
            yield row
