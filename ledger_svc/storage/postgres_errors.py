"""What PostgreSQL and its driver complain of, as the ledger's own errors; no foreign text gets out."""

from psycopg import Error, OperationalError
from psycopg_pool import PoolClosed, PoolTimeout

from ledger_svc import errors

UNIQUE_VIOLATION = "23505"
SERIALIZATION_FAILURE = "40001"
DEADLOCK_DETECTED = "40P01"
READ_ONLY_TRANSACTION = "25006"

_TOO_SLOW = "the database took too long; nothing was changed"
_UNAVAILABLE = {
    SERIALIZATION_FAILURE: ("contention", "other ledgers on the database were in the way; nothing was changed"),
    DEADLOCK_DETECTED: ("contention", "other ledgers on the database were in the way; nothing was changed"),
    READ_ONLY_TRANSACTION: ("read_only", "the database cannot be written"),
    "3F000": ("no_permission", "the database has no schema in which its role may make tables"),
    "42501": ("no_permission", "the database's role may not use the ledger's tables"),
    "55P03": ("locked", "another transaction has locked what is asked for; nothing was changed"),
    "57014": ("timeout", _TOO_SLOW),
    "53100": ("disk_full", "the database's disk is full; nothing was changed"),
    "53200": ("no_memory", "the database has not enough memory"),
    "53300": ("too_many_connections", "the database takes no more connections"),
}
_CORRUPT_CLASSES = {
    "22": ("row", "a stored row cannot be read"),
    "23": ("constraint", "the ledger's tables contradict themselves"),
    "42": ("malformed", "the ledger's tables are damaged"),
    "P0": ("constraint", "the ledger's tables contradict themselves"),
    "XX": ("malformed", "the database is damaged"),
}
_LOST_CLASSES = ("08", "57P")
"""Of a connection that is gone: a connection exception, or a server that shuts down, has crashed or starts."""

_AT_CONNECTING = (
    ("password authentication failed", "wrong_password", "the database refuses the role's password"),
    ("no password supplied", "no_password", "the database asks for a password, and none was given"),
    ("no pg_hba.conf entry", "refused", "the database lets nobody in from here as this role"),
    ("too many clients", "too_many_connections", "the database takes no more connections"),
    ("too many connections", "too_many_connections", "the database takes no more connections"),
    ("is starting up", "starting", "the database is starting or stopping"),
    ("is shutting down", "starting", "the database is starting or stopping"),
    ("session is read-only", "read_only", "the database cannot be written: it is read-only or a standby"),
    ("hot standby", "read_only", "the database cannot be written: it is read-only or a standby"),
    ("role ", "no_role", "the database has no such role, or does not let it in"),
    ("database ", "no_database", "the server has no such database, or does not let the role in"),
)
"""Part of the server's words, problem, message. A server that speaks another language gives the general answer."""


class OvertakenError(Exception):
    """Another ledger changed, before the locks were taken, which accounts must be locked; nothing was done."""


def is_lost(error: Error | OvertakenError) -> bool:
    """Whether the connection is gone, rather than the statement at fault."""
    if isinstance(error, (PoolClosed, PoolTimeout)) or not isinstance(error, OperationalError):
        return False
    return error.sqlstate is None or error.sqlstate.startswith(_LOST_CLASSES)


def is_conflict(error: Error | OvertakenError) -> bool:
    """Whether another ledger's transaction was in the way, so that a new attempt may find it done."""
    conflicts = (UNIQUE_VIOLATION, SERIALIZATION_FAILURE, DEADLOCK_DETECTED)
    return isinstance(error, OvertakenError) or error.sqlstate in conflicts


def of_statement(error: Error | OvertakenError) -> errors.LedgerError:
    """The ledger's error for what a statement before COMMIT met."""
    if isinstance(error, OvertakenError):
        return errors.StoreCorruptError("a study is stored without its account", problem="row")
    if isinstance(error, PoolClosed):
        return errors.StoreUnavailableError("the store is closed", problem="closed")
    if isinstance(error, PoolTimeout) or is_lost(error):
        return errors.StoreUnavailableError("the database cannot be reached; nothing was changed", problem="connection")
    state = error.sqlstate or ""
    if state in _UNAVAILABLE:
        problem, message = _UNAVAILABLE[state]
        return errors.StoreUnavailableError(message, problem=problem)
    if state[:2] in _CORRUPT_CLASSES:
        problem, message = _CORRUPT_CLASSES[state[:2]]
        return errors.StoreCorruptError(message, problem=problem)
    return errors.StoreUnavailableError("the database cannot be used", problem="database_error")


def of_connecting(error: Error) -> errors.StoreUnavailableError:
    """The ledger's error for a connection that did not come about.

    libpq gives no SQLSTATE for one, so the server's words decide.
    """
    text = str(error)
    refused = "FATAL" in text
    if error.pgconn is not None and error.pgconn.needs_password:
        text = "no password supplied"
    for part, problem, message in _AT_CONNECTING:
        if part in text and (refused or problem in ("no_password", "read_only")):
            return errors.StoreUnavailableError(message, problem=problem)
    return errors.StoreUnavailableError(
        "the database cannot be reached, or refuses the connection", problem="connection"
    )


def too_slow() -> errors.StoreUnavailableError:
    """For work whose time was over before COMMIT."""
    return errors.StoreUnavailableError(_TOO_SLOW, problem="timeout")


def commit_unknown() -> errors.StoreUnavailableError:
    """For a COMMIT whose outcome was not heard, or that a standby has not confirmed."""
    return errors.StoreUnavailableError(
        "whether the database committed is not known; ask again by the same id", problem="commit_unknown"
    )
