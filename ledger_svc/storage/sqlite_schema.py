"""The SQLite schema, version by version. Migrations go forward only (design/ledger.md, Storage).

A call is kept as the JSON of `codec.call_to_json`; what is searched for is generated from it by SQLite, so that no
column can contradict it. Amounts are whole nano-units, times microseconds since the Unix epoch.
"""

import sqlite3

from ledger_svc import errors

APPLICATION_ID = 0x43534C31
"""What marks a file as a Countersign ledger ("CSL1")."""

_TALLIES = """
    charged_nanos INTEGER NOT NULL, charged_count INTEGER NOT NULL,
    reserved_nanos INTEGER NOT NULL, reserved_count INTEGER NOT NULL,
    held_nanos INTEGER NOT NULL, held_count INTEGER NOT NULL,
    resolved_nanos INTEGER NOT NULL, resolved_count INTEGER NOT NULL
"""

_VERSION_1 = (
    f"""CREATE TABLE accounts (
    account_id TEXT NOT NULL PRIMARY KEY, currency TEXT NOT NULL,
    granted_nanos INTEGER NOT NULL, prior_spend_nanos INTEGER NOT NULL,{_TALLIES},
    head_sequence INTEGER NOT NULL, head_chain BLOB NOT NULL
) STRICT""",
    f"""CREATE TABLE studies (
    study_id TEXT NOT NULL PRIMARY KEY, account_id TEXT NOT NULL REFERENCES accounts,
    cap_nanos INTEGER NOT NULL, call_ceiling_nanos INTEGER NOT NULL, max_in_flight INTEGER NOT NULL,
    manifest_digest BLOB NOT NULL, opened_sequence INTEGER NOT NULL,{_TALLIES},
    UNIQUE (account_id, opened_sequence)
) STRICT""",
    """CREATE TABLE calls (
    call_id BLOB NOT NULL, attempt INTEGER NOT NULL, body TEXT NOT NULL,
    account_id TEXT NOT NULL GENERATED ALWAYS AS (json_extract(body, '$.account_id')) STORED REFERENCES accounts,
    study_id TEXT NOT NULL GENERATED ALWAYS AS (json_extract(body, '$.study_id')) STORED REFERENCES studies,
    state TEXT NOT NULL GENERATED ALWAYS AS (json_extract(body, '$.state')) STORED,
    lease_expires_at INTEGER NOT NULL GENERATED ALWAYS AS (json_extract(body, '$.lease_expires_at')) STORED,
    reserved_sequence INTEGER NOT NULL GENERATED ALWAYS AS (json_extract(body, '$.reserved_sequence')) STORED,
    PRIMARY KEY (call_id, attempt)
) STRICT""",
    "CREATE UNIQUE INDEX calls_by_study ON calls (study_id, reserved_sequence)",
    "CREATE INDEX calls_by_account ON calls (account_id)",
    "CREATE INDEX calls_reserved ON calls (lease_expires_at) WHERE state = 'RESERVED'",
    "CREATE INDEX calls_reserved_by_study ON calls (study_id, lease_expires_at) WHERE state = 'RESERVED'",
    "CREATE TABLE payloads (digest BLOB NOT NULL PRIMARY KEY, body BLOB NOT NULL) STRICT",
    """CREATE TABLE requests (
    request_id TEXT NOT NULL PRIMARY KEY, inputs_digest BLOB NOT NULL, answer_nanos INTEGER NOT NULL
) STRICT""",
    """CREATE TABLE journal (
    account_id TEXT NOT NULL, sequence INTEGER NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL,
    body_digest BLOB NOT NULL, previous_chain BLOB NOT NULL, chain BLOB NOT NULL, at INTEGER NOT NULL,
    PRIMARY KEY (account_id, sequence)
) STRICT""",
    """CREATE TRIGGER journal_is_never_changed BEFORE UPDATE ON journal
    BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END""",
    """CREATE TRIGGER journal_is_never_shortened BEFORE DELETE ON journal
    BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END""",
    "CREATE TABLE probe (id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1), written_count INTEGER NOT NULL) STRICT",
    "INSERT INTO probe VALUES (1, 0)",
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (_VERSION_1,)
"""`MIGRATIONS[n]` leads from version n to version n + 1."""

SCHEMA_VERSION = len(MIGRATIONS)


def migrate(db: sqlite3.Connection) -> None:
    """Bring an open database to `SCHEMA_VERSION` in one transaction; a new file is filled, a foreign one refused.

    Raises SchemaTooNewError for a version of the future and StoreCorruptError for a database that is no ledger.
    """
    db.execute("BEGIN IMMEDIATE")
    try:
        found_version = _found_version(db)
        for statements in MIGRATIONS[found_version:]:
            for statement in statements:
                db.execute(statement)
        if found_version < SCHEMA_VERSION:
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def _found_version(db: sqlite3.Connection) -> int:
    application_id = int(db.execute("PRAGMA application_id").fetchone()[0])
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    is_empty = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] == 0
    if is_empty and application_id == 0 and version == 0:
        return 0
    if application_id != APPLICATION_ID or version < 1:
        raise errors.StoreCorruptError("the file is a database, but not a ledger's", problem="not_a_ledger")
    if version > SCHEMA_VERSION:
        raise errors.SchemaTooNewError(
            "the ledger's file was written by a newer version; use that one",
            found_version=version,
            known_version=SCHEMA_VERSION,
        )
    return version
