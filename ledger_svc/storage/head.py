"""How far the ledger got, noted beside its database: a file that has lost its end must not pass for whole.

SQLite takes a write-ahead log that is cut, damaged or missing for one that a crash cut short, and goes on without its
end. What is left is consistent in itself, so that no check of the file alone can tell (design/ledger.md, Storage).
"""

import contextlib
import os
from pathlib import Path

from ledger_svc import errors

SUFFIX = ".head"
_DIGITS = 20


class HeadMark:
    """The number of journal entries that are durable, kept in `<database>.head`.

    It is written after each commit and before any reply, so that it is never ahead of what the database must hold; it
    may lag, after a crash or a full disk, and then guards that much less.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor
        self._entries_count = 0

    @classmethod
    def open(cls, database: Path) -> "HeadMark":
        """Open the mark of a database, making it where it is absent; raises OSError."""
        path = database.with_name(database.name + SUFFIX)
        return cls(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))

    def check(self, entries_count: int) -> None:
        """Raise StoreCorruptError where the database holds fewer journal entries than were noted."""
        if entries_count < self._noted():
            raise errors.StoreCorruptError(
                "the ledger's file has lost journal entries that were acknowledged; put them back, or remove the file "
                f"ending in {SUFFIX} to go on without them",
                problem="rolled_back",
            )

    def _noted(self) -> int:
        noted = b"" if self._descriptor is None else os.pread(self._descriptor, _DIGITS + 2, 0)
        if not noted:
            return 0
        if len(noted) != _DIGITS + 1 or not noted[:_DIGITS].isdigit() or noted[_DIGITS:] != b"\n":
            raise errors.StoreCorruptError(
                f"the ledger's file ending in {SUFFIX} is damaged; remove it to go on", problem="head"
            )
        return int(noted)

    def start(self, entries_count: int) -> None:
        """Note durably what the database holds, so that no crash leaves a mark half written; raises OSError."""
        self._entries_count = entries_count
        self._write()
        if self._descriptor is not None:
            os.fsync(self._descriptor)

    def advance(self, entries_count: int) -> None:
        """Note that so many entries more are durable. They are, whether or not this can be written down."""
        self._entries_count += entries_count
        with contextlib.suppress(OSError):
            self._write()

    def _write(self) -> None:
        if self._descriptor is not None:
            os.pwrite(self._descriptor, b"%0*d\n" % (_DIGITS, self._entries_count), 0)

    def close(self) -> None:
        """Let go; doing so twice is harmless."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
