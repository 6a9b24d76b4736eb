"""The embedded store: SQLite in WAL mode, `synchronous=FULL`, one writer thread (design/ledger.md, Storage)."""

# ruff: noqa: S608 - queries are put together from constants and question marks only.

import asyncio
import os
import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TypeVar

from ledger_svc import errors
from ledger_svc.audit import Auditor
from ledger_svc.budgets import Account, Study
from ledger_svc.calls import Call, CallState
from ledger_svc.journal import Entry
from ledger_svc.storage import sqlite_rows as rows
from ledger_svc.storage.base import AttemptPage, Balances
from ledger_svc.storage.clock import SteadyClock, elapsed_nanos, wall_nanos
from ledger_svc.storage.head import HeadMark
from ledger_svc.storage.lock import FileLock
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
from ledger_svc.storage.sqlite_errors import translated
from ledger_svc.storage.sqlite_keys import RecentKeys, find_ids, last_multiple, last_row_id
from ledger_svc.storage.sqlite_schema import migrate
from ledger_svc.workspace import Wanted, Workspace

T = TypeVar("T")

_CHECKPOINT_PAGES = 8_000
"""How long the write-ahead log grows, in pages of 4 KiB, before it is carried over into the database."""

_CACHE_KIBIBYTES = 131_072
"""The writer's page cache: the keys of some two million calls."""


class SqliteStore:
    """A `storage.base.Store` in one file. Writes run on one thread, reads on another, an audit on a third.

    Reads see committed states only. Make one with `open`.
    """

    def __init__(
        self,
        path: Path,
        lock: FileLock,
        head: HeadMark,
        writing: sqlite3.Connection,
        reading: sqlite3.Connection,
        clock: Callable[[], int],
    ) -> None:
        self._path = path
        self._lock = lock
        self._head = head
        self._inodes = {str(each): each.stat().st_ino for each in (path, _wal_of(path), _lock_of(path))}
        self._writing = writing
        self._keys = RecentKeys()
        self._reading = reading
        self._clock = clock
        self._closed = False
        self._writer = ThreadPoolExecutor(1, "ledger-writer")
        self._reader = ThreadPoolExecutor(1, "ledger-reader")

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        busy_timeout_millis: int = 2_000,
        max_pages_count: int | None = None,
        wall: Callable[[], int] = wall_nanos,
        elapsed: Callable[[], int] = elapsed_nanos,
    ) -> "SqliteStore":
        """Open the file, making it where it is absent, and bring its schema up to date.

        `max_pages_count` bounds the file's size in pages of 4 KiB; `wall` and `elapsed` make its own time
        (`SteadyClock`). Raises StoreUnavailableError (in use, read-only, no folder, disk full), StoreCorruptError (no
        database, no ledger, damaged, without its latest entries) or SchemaTooNewError.
        """
        with ExitStack() as undo, translated():
            lock = FileLock.take(_lock_of(path))
            undo.callback(lock.release)
            head = HeadMark.open(path)
            undo.callback(head.close)
            _check_not_lost(path, head)
            # SQLite gives its own side files the mode of the database, which holds private text.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            writing = undo.enter_context(closing(_connect(path, busy_timeout_millis)))
            if max_pages_count is not None:
                writing.execute(f"PRAGMA max_page_count = {max_pages_count}")
            migrate(writing)
            reading = undo.enter_context(closing(_connect_reader(path, busy_timeout_millis)))
            entries_count = rows.count_entries(reading)
            head.check(entries_count)
            head.start(entries_count)
            clock = SteadyClock(rows.last_entry_at(reading), wall, elapsed)
            store = cls(path, lock, head, writing, reading, clock)
            with _snapshot(writing):
                store._keys.refresh(writing)
            undo.pop_all()
        return store

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """One write transaction: committed durably at the end, rolled back where anything raises, COMMIT included."""
        self._check_in_place()
        self._writing.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._writing.execute("COMMIT")
        finally:
            if self._writing.in_transaction:
                self._writing.execute("ROLLBACK")

    def _check_in_place(self) -> None:
        """A file that was moved or deleted would still take writes, which nobody would find again.

        So would its log; and a lock that was deleted locks nobody else out.
        """
        for path, inode in self._inodes.items():
            if _inode(path) != inode:
                raise errors.StoreUnavailableError(
                    "the ledger's file was moved or replaced; put it back and restart", problem="moved"
                )

    async def transact(self, wanted: Wanted, now: int | None, work: Callable[[Workspace], T]) -> T:
        """See `Store.transact`."""

        def run() -> T:
            try:
                with translated(), self._transaction():
                    self._keys.refresh(self._writing)
                    at = self._moment(now)
                    loaded, row_ids = rows.load(self._writing, self._keys, wanted, at)
                    book = Workspace(loaded, at)
                    answer = work(book)
                    new = rows.save(self._writing, book.changes, row_ids)
            except BaseException:
                self._keys.forget()
                raise
            self._keys.add(new)
            self._head.advance(len(book.changes.entries))
            return answer

        return await self._on(self._writer, run)

    def _moment(self, now: int | None) -> int:
        """`now`, or the store's own time: a file has one process, and that has one clock."""
        return self._clock() if now is None else now

    async def check(self) -> None:
        """See `Store.check`."""

        def run() -> None:
            with translated(), self._transaction():
                self._writing.execute("UPDATE probe SET written_count = written_count + 1")

        await self._on(self._writer, run)

    async def _on(self, thread: ThreadPoolExecutor, run: Callable[[], T]) -> T:
        if self._closed:
            raise errors.StoreUnavailableError("the store is closed", problem="closed")
        return await asyncio.get_running_loop().run_in_executor(thread, run)

    async def _read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        def run() -> T:
            with translated(), _snapshot(self._reading):
                return query(self._reading)

        return await self._on(self._reader, run)

    async def account_ids(self) -> list[str]:
        """See `Store.account_ids`."""
        query = "SELECT account_id FROM accounts UNION SELECT DISTINCT account_id FROM journal ORDER BY 1"
        return await self._read(lambda db: [str(row[0]) for row in db.execute(query)])

    async def balances(self, account_id: str, study_id: str | None, after_sequence: int, limit: int) -> Balances | None:
        """See `Store.balances`."""

        def query(db: sqlite3.Connection) -> Balances | None:
            account = rows.find_account(db, account_id)
            if account is None:
                return None
            if study_id is None:
                return Balances(account, _studies(db, account, after_sequence, limit))
            study = rows.find_study(db, study_id)
            return Balances(account, [] if study is None or study.account_id != account_id else [study])

        return await self._read(query)

    async def accounts(self, after_id: str, limit: int) -> list[Account]:
        """See `Store.accounts`."""
        query = f"SELECT {ACCOUNT_COLUMNS} FROM accounts WHERE account_id > ? ORDER BY account_id LIMIT ?"
        return await self._read(lambda db: [account_from_row(row) for row in db.execute(query, (after_id, limit))])

    async def study(self, study_id: str) -> Study | None:
        """See `Store.study`."""
        return await self._read(lambda db: rows.find_study(db, study_id))

    async def currency_of_account(self, account_id: str) -> str | None:
        """See `Store.currency_of_account`."""
        account = await self._read(lambda db: rows.find_account(db, account_id))
        return None if account is None else account.currency

    async def attempts(self, call_id: bytes) -> tuple[Call, ...]:
        """See `Store.attempts`."""
        recent = self._keys.find(call_id)
        return await self._read(lambda db: rows.find_attempts(db, find_ids(db, recent, call_id), call_id))

    async def calls(self, study_id: str, states: Collection[CallState], after_sequence: int, limit: int) -> list[Call]:
        """See `Store.calls`."""
        return await self._read(lambda db: _calls(db, "study_id", study_id, states, after_sequence, limit))

    async def payload(self, call_id: bytes, digest: bytes) -> bytes | None:
        """See `Store.payload`."""
        recent = self._keys.find(call_id)
        return await self._read(lambda db: rows.find_payload(db, find_ids(db, recent, call_id), digest))

    async def stored_attempts(self, call_ids: Sequence[bytes], after_attempt: int, max_bytes: int) -> AttemptPage:
        """See `Store.stored_attempts`."""
        recent = self._keys.find(*call_ids)
        return await self._read(
            lambda db: rows.find_stored(db, find_ids(db, recent, *call_ids), call_ids, after_attempt, max_bytes)
        )

    async def has_overdue(self, now: int | None) -> bool:
        """See `Store.has_overdue`."""
        query = "SELECT 1 FROM calls WHERE state = 'RESERVED' AND lease_expires_at <= ? LIMIT 1"
        return await self._read(lambda db: db.execute(query, (self._moment(now),)).fetchone() is not None)

    async def audit(self, *auditors: Auditor) -> None:
        """See `Store.audit`. It has a connection of its own, so that other reads need not wait for it."""

        def run() -> None:
            with translated(), self._own_reader() as db:
                for auditor in auditors:
                    with _snapshot(db):
                        _feed(db, auditor)

        await asyncio.to_thread(run)

    async def examine(self) -> None:
        """See `Store.examine`. An index that is damaged answers wrongly, which no comparison of rows can show."""

        def run() -> None:
            with translated(), self._own_reader() as db:
                found = str(db.execute("PRAGMA integrity_check(1)").fetchone()[0])
                if found != "ok":
                    raise errors.StoreCorruptError("the ledger's file is damaged", problem="integrity")

        await asyncio.to_thread(run)

    @contextmanager
    def _own_reader(self) -> Iterator[sqlite3.Connection]:
        """A connection for one long read, of the very file that is served."""
        self._check_in_place()
        with closing(_connect_reader(self._path, 2_000)) as db:
            yield db

    async def close(self) -> None:
        """See `Store.close`."""
        self._closed = True
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._writer.shutdown(wait=True)
        self._reader.shutdown(wait=True)
        with translated():
            self._reading.close()
            self._writing.close()
        self._head.close()
        self._lock.release()

    async def entries(self, account_id: str, after_sequence: int, limit: int) -> list[Entry]:
        """See `Store.entries`."""
        query = (
            f"SELECT {rows.READ_ENTRY_COLUMNS} FROM journal WHERE account_id = ? AND sequence > ? "
            "ORDER BY sequence LIMIT ?"
        )
        values = (account_id, after_sequence, limit)
        return await self._read(lambda db: [entry_from_row(row) for row in db.execute(query, values)])

    async def calls_of_account(
        self, account_id: str, states: Collection[CallState], after_sequence: int, limit: int
    ) -> list[Call]:
        """See `Store.calls_of_account`."""
        return await self._read(lambda db: _calls(db, "account_id", account_id, states, after_sequence, limit))


def _inode(path: str) -> int | None:
    """The inode of a file, None where there is none."""
    try:
        return os.stat(path).st_ino
    except (FileNotFoundError, NotADirectoryError):
        return None


def _wal_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def _lock_of(path: Path) -> Path:
    return path.with_name(path.name + ".lock")


def _check_not_lost(path: Path, head: HeadMark) -> None:
    """Refuse to begin anew where a ledger was: SQLite would throw away the log of a database that is missing."""
    if path.exists() and path.stat().st_size > 0:
        return
    head.check(0)
    wal = _wal_of(path)
    if wal.exists() and wal.stat().st_size > 0:
        raise errors.StoreCorruptError(
            "the ledger's file is missing, but its write-ahead log is there; put the file back", problem="missing"
        )


def _open(path: Path) -> sqlite3.Connection:
    """A connection to a file that exists; none is made in its place."""
    return sqlite3.connect(
        path.absolute().as_uri() + "?mode=rw", uri=True, isolation_level=None, check_same_thread=False
    )


def _connect(path: Path, busy_timeout_millis: int) -> sqlite3.Connection:
    db = _open(path)
    db.execute(f"PRAGMA busy_timeout = {busy_timeout_millis}")
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    # Fewer, larger checkpoints: a page that many commits change is then carried over once.
    db.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
    db.execute(f"PRAGMA cache_size = -{_CACHE_KIBIBYTES}")
    db.execute("PRAGMA foreign_keys = ON")
    return db


def _connect_reader(path: Path, busy_timeout_millis: int) -> sqlite3.Connection:
    db = _open(path)
    db.execute(f"PRAGMA busy_timeout = {busy_timeout_millis}")
    db.execute("PRAGMA query_only = ON")
    return db


@contextmanager
def _snapshot(db: sqlite3.Connection) -> Iterator[None]:
    """One read transaction: everything read inside is of one moment."""
    db.execute("BEGIN")
    try:
        yield
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def _calls(
    db: sqlite3.Connection, column: str, value: str, states: Collection[CallState], after_sequence: int, limit: int
) -> list[Call]:
    query = (
        f"SELECT {CALL_COLUMNS} FROM calls WHERE {column} = ? AND reserved_sequence > ? "
        f"AND {in_states(states)} ORDER BY reserved_sequence LIMIT ?"
    )
    return [call_from_row(row) for row in db.execute(query, (value, after_sequence, limit))]


def _studies(db: sqlite3.Connection, account: Account, after_sequence: int, limit: int) -> list[Study]:
    query = (
        f"SELECT {STUDY_COLUMNS} FROM studies WHERE account_id = ? AND opened_sequence > ? "
        "ORDER BY opened_sequence LIMIT ?"
    )
    found = db.execute(query, (account.account_id, after_sequence, limit))
    return [study_from_row(row) for row in found]


def _feed(db: sqlite3.Connection, auditor: Auditor) -> None:
    account_id = (auditor.account_id,)
    entries = f"SELECT {rows.READ_ENTRY_COLUMNS} FROM journal WHERE account_id = ? ORDER BY sequence"
    for row in db.execute(entries, account_id):
        auditor.entry(entry_from_row(row))
    auditor.account(rows.find_account(db, auditor.account_id))
    for row in db.execute(f"SELECT {STUDY_COLUMNS} FROM studies WHERE account_id = ?", account_id):
        auditor.study(study_from_row(row))
    ids: dict[bytes, list[int]] = {}
    for row_id, *row in db.execute(rows.AUDITED_CALLS, (auditor.account_id, last_multiple(last_row_id(db)))):
        call_id, attempt, body = rows.audited_call_from_row(row)
        auditor.call(call_id, attempt, body)
        ids.setdefault(call_id, []).append(row_id)
    for request_id in auditor.wanted_requests():
        auditor.request(request_id, rows.find_request(db, request_id))
    for digest, what, subject in auditor.wanted_payloads():
        auditor.payload(digest, what, subject, rows.find_payload(db, ids.get(bytes.fromhex(subject), ()), digest))
    auditor.finish()
