"""The PostgreSQL schema, version by version. Migrations go forward only (design/ledger.md, Storage).

A call is kept as the JSON of `codec.call_to_json`, and what is searched for is generated from it
by the database, so that no column can contradict it. Ids are compared byte by byte (COLLATE "C"), whatever the
database's language is. Amounts are whole nano-units, times microseconds since the Unix epoch.
"""

from typing import Any

from psycopg import AsyncConnection
from psycopg import errors as pg

from ledger_svc import errors

Connection = AsyncConnection[tuple[Any, ...]]

MIGRATION_LOCK = 0x43534C31
"""The advisory lock under which one ledger at a time looks at the schema ("CSL1")."""

_TALLIES = """
    charged_nanos bigint NOT NULL, charged_count bigint NOT NULL,
    reserved_nanos bigint NOT NULL, reserved_count bigint NOT NULL,
    held_nanos bigint NOT NULL, held_count bigint NOT NULL,
    resolved_nanos bigint NOT NULL, resolved_count bigint NOT NULL
"""


def _text_of(name: str) -> str:
    return f"text COLLATE \"C\" NOT NULL GENERATED ALWAYS AS (call_json(body) ->> '{name}') STORED"


def _number_of(name: str) -> str:
    return f"bigint NOT NULL GENERATED ALWAYS AS ((call_json(body) ->> '{name}')::bigint) STORED"


# An operator's evidence may hold NUL, which PostgreSQL reads in no JSON: an escape of it that no backslash escapes
# becomes another one, and only for the columns that are generated.
_CALL_JSON = r"""CREATE FUNCTION call_json(body text) RETURNS json LANGUAGE sql IMMUTABLE STRICT AS $$
    SELECT regexp_replace(body, '(?<!\\)((\\\\)*)\\u0000', '\1\\u0001', 'g')::json $$"""


_VERSION_TABLE = "CREATE TABLE ledger_schema (id smallint PRIMARY KEY CHECK (id = 1), version integer NOT NULL)"

_VERSION_1 = (
    f"""CREATE TABLE accounts (
    account_id text COLLATE "C" PRIMARY KEY, currency text NOT NULL,
    granted_nanos bigint NOT NULL, prior_spend_nanos bigint NOT NULL,{_TALLIES},
    head_sequence bigint NOT NULL, head_chain bytea NOT NULL
)""",
    f"""CREATE TABLE studies (
    study_id text COLLATE "C" PRIMARY KEY, account_id text COLLATE "C" NOT NULL REFERENCES accounts,
    cap_nanos bigint NOT NULL, call_ceiling_nanos bigint NOT NULL, max_in_flight bigint NOT NULL,
    manifest_digest bytea NOT NULL, opened_sequence bigint NOT NULL,{_TALLIES},
    UNIQUE (account_id, opened_sequence)
)""",
    _CALL_JSON,
    f"""CREATE TABLE calls (
    call_id bytea NOT NULL, attempt bigint NOT NULL, body text NOT NULL,
    account_id {_text_of("account_id")} REFERENCES accounts,
    study_id {_text_of("study_id")} REFERENCES studies,
    state {_text_of("state")},
    lease_expires_at {_number_of("lease_expires_at")},
    reserved_sequence {_number_of("reserved_sequence")},
    PRIMARY KEY (call_id, attempt)
)""",
    "CREATE UNIQUE INDEX calls_by_study ON calls (study_id, reserved_sequence)",
    "CREATE INDEX calls_by_account ON calls (account_id, reserved_sequence)",
    "CREATE INDEX calls_reserved ON calls (lease_expires_at) WHERE state = 'RESERVED'",
    "CREATE INDEX calls_reserved_by_study ON calls (study_id, lease_expires_at) WHERE state = 'RESERVED'",
    "CREATE TABLE payloads (digest bytea PRIMARY KEY, body bytea NOT NULL)",
    """CREATE TABLE requests (
    request_id text COLLATE "C" PRIMARY KEY, inputs_digest bytea NOT NULL, answer_nanos bigint NOT NULL
)""",
    """CREATE TABLE journal (
    account_id text COLLATE "C" NOT NULL, sequence bigint NOT NULL, kind text NOT NULL, body text NOT NULL,
    body_digest bytea NOT NULL, previous_chain bytea NOT NULL, chain bytea NOT NULL, at bigint NOT NULL,
    PRIMARY KEY (account_id, sequence)
)""",
    """CREATE FUNCTION refuse_change_of_journal() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION 'the journal is append-only'; END $$""",
    """CREATE TRIGGER journal_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON journal
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_journal()""",
    "CREATE TABLE probe (id smallint PRIMARY KEY CHECK (id = 1), written_count bigint NOT NULL)",
    "INSERT INTO probe VALUES (1, 0)",
)

_VERSION_2 = (
    # Whoever asks what is in doubt need not go through all that ever was charged.
    "CREATE INDEX calls_held_by_account ON calls (account_id, reserved_sequence) WHERE state = 'HELD'",
    "CREATE INDEX calls_held_by_study ON calls (study_id, reserved_sequence) WHERE state = 'HELD'",
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (_VERSION_1, _VERSION_2)
"""`MIGRATIONS[n]` leads from version n to version n + 1."""

SCHEMA_VERSION = len(MIGRATIONS)


async def migrate(db: Connection) -> None:
    """Bring the database to `SCHEMA_VERSION` in one transaction; an empty one is filled.

    Waits for another ledger that does the same, and for the transactions of those that serve the older version. Raises
    SchemaTooNewError for a version of the future, StoreCorruptError where tables of something else are in the way.
    """
    async with db.transaction():
        await db.execute("SET LOCAL statement_timeout = 0")
        await db.execute("SET LOCAL lock_timeout = '60s'")
        await db.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))
        if (await _one(db, "SELECT to_regclass('ledger_schema')")) is None:
            await db.execute(_VERSION_TABLE)
            await db.execute("INSERT INTO ledger_schema VALUES (1, 0)")
        found_version = await _one(db, "SELECT version FROM ledger_schema")
        if found_version > SCHEMA_VERSION:
            raise errors.SchemaTooNewError(
                "the ledger's database was brought to a newer version; use that one",
                found_version=found_version,
                known_version=SCHEMA_VERSION,
            )
        if found_version < SCHEMA_VERSION:
            await _go_forward(db, found_version)


async def _go_forward(db: Connection, found_version: int) -> None:
    # Whoever serves an older version reads it at the start of each transaction, and so is waited for, and waits.
    await db.execute("LOCK TABLE ledger_schema IN ACCESS EXCLUSIVE MODE")
    try:
        for statements in MIGRATIONS[found_version:]:
            for statement in statements:
                await db.execute(statement)
    except (pg.DuplicateObject, pg.DuplicateTable, pg.DuplicateFunction):
        raise errors.StoreCorruptError(
            "the database has tables of something else; give the ledger a database or a schema of its own",
            problem="not_a_ledger",
        ) from None
    await db.execute("UPDATE ledger_schema SET version = %s", (SCHEMA_VERSION,))


async def check_version(db: Connection) -> None:
    """Keep the schema as it is until the transaction's end; raises StoreUnavailableError where it is another's."""
    if await _one(db, "SELECT version FROM ledger_schema") != SCHEMA_VERSION:
        raise errors.StoreUnavailableError(
            "the ledger's database was brought to another version; restart with that one", problem="schema_version"
        )


async def _one(db: Connection, query: str) -> Any:
    row = await (await db.execute(query)).fetchone()
    return None if row is None else row[0]
