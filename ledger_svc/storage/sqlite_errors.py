"""What SQLite and the operating system complain of, as the ledger's own errors; no foreign text gets out."""

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from ledger_svc import errors

_UNAVAILABLE = {
    sqlite3.SQLITE_FULL: ("disk_full", "the disk is full; nothing was changed"),
    sqlite3.SQLITE_READONLY: ("read_only", "the ledger's file cannot be written"),
    sqlite3.SQLITE_PERM: ("read_only", "the ledger's file cannot be written"),
    sqlite3.SQLITE_AUTH: ("read_only", "the ledger's file cannot be written"),
    sqlite3.SQLITE_CANTOPEN: ("cannot_open", "the ledger's file cannot be opened"),
    sqlite3.SQLITE_BUSY: ("locked", "another process has locked the ledger's file"),
    sqlite3.SQLITE_LOCKED: ("locked", "another process has locked the ledger's file"),
    sqlite3.SQLITE_IOERR: ("io_error", "the disk reports an error"),
    sqlite3.SQLITE_NOMEM: ("no_memory", "there is not enough memory"),
}
_CORRUPT = {
    sqlite3.SQLITE_NOTADB: ("not_a_database", "the ledger's file is not a database"),
    sqlite3.SQLITE_CORRUPT: ("malformed", "the ledger's file is damaged"),
    sqlite3.SQLITE_ERROR: ("malformed", "the ledger's file is damaged"),
    sqlite3.SQLITE_CONSTRAINT: ("constraint", "the ledger's file contradicts itself"),
    sqlite3.SQLITE_MISMATCH: ("constraint", "the ledger's file contradicts itself"),
}
_OF_ERRNO = {
    errno.EACCES: ("read_only", "the ledger's folder or file cannot be written"),
    errno.EPERM: ("read_only", "the ledger's folder or file cannot be written"),
    errno.EROFS: ("read_only", "the ledger's folder or file cannot be written"),
    errno.ENOENT: ("no_folder", "the folder of the ledger's file does not exist"),
    errno.ENOTDIR: ("no_folder", "the folder of the ledger's file does not exist"),
    errno.EISDIR: ("not_a_file", "the ledger's file is a folder"),
    errno.ENOSPC: ("disk_full", "the disk is full; nothing was changed"),
    errno.EDQUOT: ("disk_full", "the disk is full; nothing was changed"),
}


@contextmanager
def translated() -> Iterator[None]:
    """Turn whatever the storage raises inside into StoreUnavailableError or StoreCorruptError."""
    try:
        yield
    except sqlite3.Error as error:
        raise _of_sqlite(error) from None
    except UnicodeDecodeError:
        # SQLite quotes a damaged schema in its message, and Python cannot read that as text.
        raise errors.StoreCorruptError("the ledger's file is damaged", problem="malformed") from None
    except OSError as error:
        problem, message = _OF_ERRNO.get(error.errno or 0, ("io_error", "the disk reports an error"))
        raise errors.StoreUnavailableError(message, problem=problem) from None


def _of_sqlite(error: sqlite3.Error) -> errors.LedgerError:
    code: int | None = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return _of_module(error)
    # The low byte is the primary result code; the rest says where it arose.
    primary = code & 0xFF
    if primary in _CORRUPT:
        problem, message = _CORRUPT[primary]
        return errors.StoreCorruptError(message, problem=problem)
    problem, message = _UNAVAILABLE.get(primary, ("io_error", "the store cannot be used"))
    return errors.StoreUnavailableError(message, problem=problem)


def _of_module(error: sqlite3.Error) -> errors.LedgerError:
    """Errors of Python's own: a closed connection, or text that is not UTF-8."""
    if isinstance(error, sqlite3.ProgrammingError):
        return errors.StoreUnavailableError("the store is closed", problem="closed")
    return errors.StoreCorruptError("the ledger's file is damaged", problem="malformed")
