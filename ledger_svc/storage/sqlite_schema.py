"""The SQLite schema, version by version. Migrations go forward only (design/ledger.md, Storage).

A call is kept as the JSON of `codec.call_to_json`; what is searched for is kept beside it, and an audit compares
the two (`sqlite_rows.audited_call_from_row`). Amounts are whole nano-units, times microseconds since the Unix epoch.
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

_CALL_KEYS = """(
    call_id BLOB NOT NULL, attempt INTEGER NOT NULL, id INTEGER NOT NULL,
    PRIMARY KEY (call_id, attempt)
) STRICT, WITHOUT ROWID"""

_VERSION_2 = (
    # Rows lie in the order of reservation, so that new ones go to the end of every index. Call ids are digests: sorted,
    # each new one would change another page. Their keys gather in a small table, and move in bulk (sqlite_rows.save).
    "ALTER TABLE calls RENAME TO old_calls",
    "ALTER TABLE payloads RENAME TO old_payloads",
    """CREATE TABLE calls (
    id INTEGER NOT NULL PRIMARY KEY, call_id BLOB NOT NULL, attempt INTEGER NOT NULL, body TEXT NOT NULL,
    account_id TEXT NOT NULL REFERENCES accounts, study_id TEXT NOT NULL REFERENCES studies,
    state TEXT NOT NULL, lease_expires_at INTEGER NOT NULL, reserved_sequence INTEGER NOT NULL
) STRICT""",
    # A request has twice its call's id, a response one more.
    "CREATE TABLE payloads (id INTEGER NOT NULL PRIMARY KEY, digest BLOB NOT NULL, body BLOB NOT NULL) STRICT",
    f"CREATE TABLE call_keys {_CALL_KEYS}",
    f"CREATE TABLE recent_call_keys {_CALL_KEYS}",
    "CREATE VIEW all_call_keys AS SELECT * FROM recent_call_keys UNION ALL SELECT * FROM call_keys",
    """INSERT INTO calls SELECT row_number() OVER (ORDER BY reserved_sequence, account_id), call_id, attempt, body,
    account_id, study_id, state, lease_expires_at, reserved_sequence FROM old_calls""",
    "INSERT INTO call_keys SELECT call_id, attempt, id FROM calls ORDER BY call_id, attempt",
    """INSERT INTO payloads SELECT 2 * calls.id, digest, old_payloads.body FROM calls JOIN old_payloads
    ON digest = unhex_digest(json_extract(calls.body, '$.request_digest'))""",
    """INSERT INTO payloads SELECT 2 * calls.id + 1, digest, old_payloads.body FROM calls JOIN old_payloads
    ON digest = unhex_digest(json_extract(calls.body, '$.receipt.response_digest'))""",
    "DROP TABLE old_calls",
    "DROP TABLE old_payloads",
    "CREATE UNIQUE INDEX calls_by_study ON calls (study_id, reserved_sequence)",
    "CREATE UNIQUE INDEX calls_by_account ON calls (account_id, reserved_sequence)",
    "CREATE INDEX calls_reserved ON calls (lease_expires_at, study_id) WHERE state = 'RESERVED'",
)

_VERSION_3 = (
    # The newest calls' keys are kept in memory (sqlite_keys.RECENT_KEYS); the table has those up to its last multiple.
    "DROP VIEW all_call_keys",
    "DROP TABLE recent_call_keys",
    "DELETE FROM call_keys",
    """INSERT INTO call_keys SELECT call_id, attempt, id FROM calls
    WHERE id <= (SELECT max(id) / 65536 * 65536 FROM calls) ORDER BY call_id, attempt""",
)

_VERSION_4 = (
    # Whoever asks what is in doubt need not go through all that ever was charged.
    "CREATE INDEX calls_held_by_account ON calls (account_id, reserved_sequence) WHERE state = 'HELD'",
    "CREATE INDEX calls_held_by_study ON calls (study_id, reserved_sequence) WHERE state = 'HELD'",
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (_VERSION_1, _VERSION_2, _VERSION_3, _VERSION_4)
"""`MIGRATIONS[n]` leads from version n to version n + 1."""

SCHEMA_VERSION = len(MIGRATIONS)


def migrate(db: sqlite3.Connection) -> None:
    """Bring an open database to `SCHEMA_VERSION` in one transaction; a new file is filled, a foreign one refused.

    Raises SchemaTooNewError for a version of the future and StoreCorruptError for a database that is no ledger.
    """
    db.create_function("unhex_digest", 1, _unhex, deterministic=True)
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


def _unhex(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


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
