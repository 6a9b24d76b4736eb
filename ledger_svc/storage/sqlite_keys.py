"""Where calls are kept: the newest calls' keys in memory, all others' in a table.

Call ids are digests, so that each new key of a sorted table changes another page. The newest calls' keys are therefore
kept in memory only; the file can always give them anew, since its rows lie in the order of reservation. When as many
have gathered as `RECENT_KEYS`, the keys up to the last multiple of it move into the table `call_keys`, sorted, at once.
"""

# ruff: noqa: S608 - queries are put together from constants and question marks only.

import sqlite3
from collections.abc import Iterable, Sequence

from ledger_svc import errors
from ledger_svc.storage.sqlite_batch import chunks, marks

RECENT_KEYS = 65_536
"""How many keys gather in memory before they move."""

RowIds = dict[tuple[bytes, int], int]
"""Where calls are kept, by call id and attempt."""

MAX_ROW_ID = 2**61
"""Beyond it only damage leads: a call's payloads are kept at about twice its row id, a signed 64-bit number too."""


class RecentKeys:
    """The row ids of the newest calls by call id. One thread changes it; `find` may be asked on any."""

    def __init__(self) -> None:
        self._ids: dict[bytes, tuple[int, ...]] = {}
        self._moved_up_to = 0
        self._known_version: int | None = None
        self._whole = True

    def refresh(self, db: sqlite3.Connection) -> None:
        """Read the keys anew where they may not be the file's, inside of a transaction.

        So it is at first, after a transaction that failed, and where another process has written: what is decided rests
        on the file.
        """
        (version,) = db.execute("PRAGMA data_version").fetchone()
        if version == self._known_version:
            return
        moved_up_to = last_multiple(last_row_id(db))
        ids: dict[bytes, tuple[int, ...]] = {}
        self._whole = True
        for row_id, call_id, is_named in db.execute(_NEWEST, (moved_up_to,)):
            ids[call_id] = (*ids.get(call_id, ()), row_id)
            self._whole = self._whole and bool(is_named)
        self._ids, self._moved_up_to, self._known_version = ids, moved_up_to, version

    def forget(self) -> None:
        """Let the next transaction read the keys anew."""
        self._known_version = None

    def add(self, new: RowIds) -> None:
        """Take over the keys of calls that are durable now, and let go of those that have moved."""
        if not new:
            return
        for (call_id, _attempt), row_id in new.items():
            self._ids[call_id] = (*self._ids.get(call_id, ()), row_id)
        moved_up_to = last_multiple(max(new.values()))
        if moved_up_to > self._moved_up_to:
            kept = ((call_id, tuple(each for each in ids if each > moved_up_to)) for call_id, ids in self._ids.items())
            # The old one may be in use by a reader, who then looks no further.
            self._ids = {call_id: ids for call_id, ids in kept if ids}
            self._moved_up_to = moved_up_to

    def find(self, *call_ids: bytes) -> tuple[int, ...] | None:
        """The row ids of the slots' newest attempts; None where only the file can tell. Raises StoreCorruptError.

        To be asked before a reading transaction begins: a key that has left by then is in what the transaction sees.
        """
        self._check()
        if self._known_version is None:
            return None
        ids = self._ids
        return tuple(row_id for call_id in call_ids for row_id in ids.get(call_id, ()))

    def find_all(self, db: sqlite3.Connection, call_ids: Iterable[bytes]) -> list[int]:
        """The row ids of all attempts of the slots, inside of a transaction that was refreshed.

        Raises StoreCorruptError.
        """
        self._check()
        call_ids = list(call_ids)
        found = [row_id for call_id in call_ids for row_id in self._ids.get(call_id, ())]
        if self._moved_up_to:
            found += moved_ids(db, call_ids)
        return found

    def _check(self) -> None:
        """Refuse to say what is there where a call may be taken for another: its slot would look new."""
        if not self._whole:
            raise errors.StoreCorruptError("a stored row cannot be read", problem="row")


_NEWEST = """
    SELECT id, call_id, instr(body, '"call_id":"' || lower(hex(call_id)) || '"') > 0
    FROM calls WHERE id > ? ORDER BY id
"""
"""The calls whose keys have not moved, and whether the body names the same id."""


def find_ids(db: sqlite3.Connection, recent: tuple[int, ...] | None, *call_ids: bytes) -> list[int]:
    """The row ids of all the slots' attempts; `recent` is what `RecentKeys.find` said before the transaction began."""
    if recent is None:
        query = f"SELECT id FROM calls WHERE id > ? AND call_id IN ({marks(len(call_ids))})"
        recent = tuple(row[0] for row in db.execute(query, (last_multiple(last_row_id(db)), *call_ids)))
    # A key that has moved between the two is in both.
    return sorted({*recent, *moved_ids(db, call_ids)})


def moved_ids(db: sqlite3.Connection, call_ids: Sequence[bytes]) -> list[int]:
    """The row ids of the slots' attempts whose keys are in the table."""
    found: list[int] = []
    for some in chunks(call_ids):
        query = f"SELECT id FROM call_keys WHERE call_id IN ({marks(len(some))})"
        found += (row[0] for row in db.execute(query, some))
    return found


def move(db: sqlite3.Connection, first: int, last: int) -> None:
    """Where the new calls from row id `first` to `last` fill up a multiple, move the keys up to it into the table."""
    after, up_to = last_multiple(first - 1), last_multiple(last)
    if up_to > after:
        query = "INSERT INTO call_keys SELECT call_id, attempt, id FROM calls WHERE id > ? AND id <= ? ORDER BY 1, 2"
        db.execute(query, (after, up_to))


def last_row_id(db: sqlite3.Connection) -> int:
    """The newest call's row id, 0 where there is none."""
    last: int = db.execute("SELECT coalesce(max(id), 0) FROM calls").fetchone()[0]
    if last > MAX_ROW_ID:
        raise errors.StoreCorruptError("a call has a row id that none can have", problem="row")
    return last


def last_multiple(row_id: int) -> int:
    """Up to which row id the keys are in the table when `row_id` is the newest."""
    return row_id - row_id % RECENT_KEYS
