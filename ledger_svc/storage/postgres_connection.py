"""Connections to PostgreSQL, each with the same settings, single or from a pool (docs/postgres.md)."""

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import AsyncConnection, IsolationLevel
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import AsyncConnectionPool

from ledger_svc import errors
from ledger_svc.storage import postgres_errors
from ledger_svc.storage.postgres_schema import Connection

Pool = AsyncConnectionPool[Connection]

_CONNECTION_DEFAULTS: dict[str, Any] = {
    "application_name": "countersign-ledger",
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
    # Where the DSN names several hosts, the one that can be written is the ledger's.
    "target_session_attrs": "read-write",
}
"""What the DSN need not say; what it says is taken."""

_OPENING_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class PostgresOptions:
    """Limits of a store's work on the database; a transaction has `work_millis` until COMMIT, which has its own."""

    statement_timeout_millis: int = 10_000
    lock_timeout_millis: int = 5_000
    idle_in_transaction_timeout_millis: int = 10_000
    work_millis: int = 30_000
    commit_millis: int = 30_000
    connection_wait_millis: int = 3_000
    max_connections: int = 8


def connection_text(dsn: str) -> str:
    """The DSN with what it leaves open; raises InvalidArgumentError where it is none."""
    try:
        given = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        # The driver's own words would quote the DSN, which may hold a password.
        raise errors.InvalidArgumentError("the PostgreSQL DSN cannot be read", field="postgres") from None
    return make_conninfo("", **{**_CONNECTION_DEFAULTS, **given, "client_encoding": "UTF8"})


async def connect(conninfo: str, options: PostgresOptions) -> Connection:
    """One connection, set up; raises StoreUnavailableError."""
    try:
        db = await AsyncConnection.connect(conninfo, autocommit=True)
    except psycopg.Error as error:
        raise postgres_errors.of_connecting(error) from None
    try:
        await set_up(db, options)
    except BaseException:
        await db.close()
        raise
    return db


async def open_pool(conninfo: str, options: PostgresOptions) -> Pool:
    """A pool of connections that are set up, with one to begin with; raises StoreUnavailableError."""

    async def configure(db: Connection) -> None:
        await set_up(db, options)

    pool: Pool = AsyncConnectionPool(
        conninfo,
        connection_class=AsyncConnection[tuple[Any, ...]],
        kwargs={"autocommit": True},
        configure=configure,
        min_size=1,
        max_size=options.max_connections,
        timeout=options.connection_wait_millis / 1_000,
        # Whoever asks for a connection later makes the pool try anew, without a long pause left from before.
        reconnect_timeout=options.connection_wait_millis / 1_000,
        open=False,
    )
    try:
        await pool.open(wait=True, timeout=_OPENING_SECONDS)
    except psycopg.Error as error:
        await pool.close()
        raise postgres_errors.of_statement(error) from None
    return pool


async def set_up(db: Connection, options: PostgresOptions) -> None:
    """Give the session its settings; raises StoreUnavailableError where the server could lose what it commits."""
    await db.set_isolation_level(IsolationLevel.READ_COMMITTED)
    await _check_server(db)
    for name, value in (
        ("statement_timeout", str(options.statement_timeout_millis)),
        ("lock_timeout", str(options.lock_timeout_millis)),
        ("idle_in_transaction_session_timeout", str(options.idle_in_transaction_timeout_millis)),
        # A COMMIT that did not wait for its standby says so in a warning.
        ("client_min_messages", "warning"),
    ):
        await db.execute("SELECT set_config(%s, %s, false)", (name, value))


async def _check_server(db: Connection) -> None:
    """Only the weaker settings of synchronous_commit are raised to `on`; `remote_apply` is stronger, and stays."""
    names = ("server_encoding", "fsync", "synchronous_commit")
    query = "SELECT " + ", ".join(f"current_setting('{name}')" for name in names)
    row = await (await db.execute(query)).fetchone()
    if row is None or row[0] != "UTF8":
        raise errors.StoreUnavailableError("the ledger needs a database in the encoding UTF8", problem="encoding")
    if row[1] != "on":
        raise errors.StoreUnavailableError(
            "the server runs with fsync off and could lose what it commits", problem="not_durable"
        )
    if row[2] != "remote_apply":
        await db.execute("SET synchronous_commit = on")
