"""Reading the journal where it is stored, beside the ledger: the SQLite file, or the tables of PostgreSQL."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg

from tests.soak.book import Entry

_COLUMNS = "account_id, sequence, kind, body, body_digest, previous_chain, chain, at"

Heads = dict[str, int]
"""The sequence up to which each account's journal was read."""


class StoreAway(Exception):
    """The store could not be read now."""


class SqliteReader:
    """Reads the ledger's file through a connection of its own, which cannot write."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db: sqlite3.Connection | None = None

    def after(self, heads: Heads) -> list[Entry]:
        """All committed entries beyond `heads`, account by account. Raises StoreAway."""
        try:
            if self._db is None:
                self._db = sqlite3.connect(
                    f"file:{self._path}?mode=ro", uri=True, timeout=5, check_same_thread=False, isolation_level=None
                )
            self._db.execute("BEGIN")
            try:
                return list(_entries(lambda query, *values: self._rows(query.replace("%s", "?"), values), heads))
            finally:
                self._db.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise StoreAway(str(error)) from None

    def _rows(self, query: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        assert self._db is not None
        return self._db.execute(query, values).fetchall()

    def close(self) -> None:
        """Read no more."""
        if self._db is not None:
            self._db.close()


class PostgresReader:
    """Reads the tables in a session of its own."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._db: psycopg.Connection[tuple[Any, ...]] | None = None

    def after(self, heads: Heads) -> list[Entry]:
        """All committed entries beyond `heads`, account by account. Raises StoreAway."""
        try:
            if self._db is None:
                options = "-c default_transaction_isolation=repeatable\\ read -c default_transaction_read_only=on"
                self._db = psycopg.connect(self._dsn, options=options, connect_timeout=5)
            with self._db.transaction(), closing(self._db.cursor()) as cursor:
                return list(_entries(lambda query, *values: cursor.execute(query, values).fetchall(), heads))
        except psycopg.Error as error:
            self.close()
            raise StoreAway(str(error)) from None

    def close(self) -> None:
        """Read no more."""
        if self._db is not None:
            self._db.close()
            self._db = None


Reader = SqliteReader | PostgresReader
"""Either store's."""


def _entries(rows: Callable[..., list[tuple[Any, ...]]], heads: Heads) -> Iterator[Entry]:
    for account_id, head in rows("SELECT account_id, head_sequence FROM accounts ORDER BY 1"):
        read = heads.get(account_id, 0)
        if head < read:
            # Read all the same: the book says that the journal was cut short.
            yield from (
                _entry(row) for row in rows(f"SELECT {_COLUMNS} FROM journal WHERE account_id = %s", account_id)
            )
        elif head > read:
            query = f"SELECT {_COLUMNS} FROM journal WHERE account_id = %s AND sequence > %s ORDER BY sequence"
            yield from (_entry(row) for row in rows(query, account_id, read))


def _entry(row: tuple[Any, ...]) -> Entry:
    account_id, sequence, kind, body, body_digest, previous, chain, at = row
    return Entry(account_id, sequence, kind, body.encode(), bytes(body_digest), bytes(previous), bytes(chain), at)
