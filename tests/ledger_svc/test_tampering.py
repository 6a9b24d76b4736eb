"""Whatever is changed behind the ledger's back, verification names it."""

import sqlite3
from pathlib import Path

import pytest

from countersign.kit.canonical import sha256
from ledger_svc import errors
from ledger_svc.audit import Auditor, Difference
from ledger_svc.storage import sqlite_keys
from ledger_svc.storage.sqlite import SqliteStore
from tests.ledger_svc import support
from tests.ledger_svc.support import OTHER_TOKEN, Clock, furnish, make_ledger

CALL_ID = support.slot().call_id()
REQUEST = f"x'{sha256(b'request').hex()}'"
RESPONSE = f"x'{sha256(b'response').hex()}'"
NO_TRIGGERS = "DROP TRIGGER journal_is_never_changed; DROP TRIGGER journal_is_never_shortened;"


async def make_file(path: Path) -> None:
    """Ten entries: an account of two studies; a hold, its resolution and a charged second attempt; an open call."""
    ledger = make_ledger(path, Clock())
    await furnish(ledger)
    await ledger.submit(support.open_study(50, study_id="other"))
    await ledger.reserve(support.reserve(10))
    await ledger.submit(support.hold())
    await ledger.submit(support.resolve(3, again=True))
    await ledger.reserve(support.reserve(10, token=OTHER_TOKEN))
    await ledger.submit(support.receipt(token=OTHER_TOKEN))
    await ledger.reserve(support.reserve(5, at=support.slot(study_id="other"), request=b"other"))
    await ledger.close()


async def differences(path: Path) -> tuple[int, list[Difference]]:
    """What a fresh ledger finds in the file."""
    ledger = make_ledger(path, Clock())
    found = await ledger.verify(None)
    await ledger.close()
    return found.entries_count, list(found.differences)


async def test_untouched_file_is_intact(database: Path) -> None:
    await make_file(database)
    assert await differences(database) == (10, [])


@pytest.mark.parametrize(
    ("change", "sequence", "what", "subject"),
    [
        ("UPDATE journal SET body = json_set(body, '$.amount_nanos', 999) WHERE sequence = 2", 2, "body_digest", ""),
        ("UPDATE journal SET body_digest = zeroblob(32) WHERE sequence = 2", 2, "body_digest", ""),
        ("UPDATE journal SET kind = 'PRIOR_SPEND_RECORDED' WHERE sequence = 2", 2, "chain", ""),
        ("UPDATE journal SET at = at + 1 WHERE sequence = 7", 7, "chain", ""),
        ("UPDATE journal SET chain = zeroblob(32) WHERE sequence = 7", 7, "chain", ""),
        ("UPDATE journal SET previous_chain = zeroblob(32) WHERE sequence = 7", 7, "chain", ""),
        ("DELETE FROM journal WHERE sequence = 1", 1, "sequence", ""),
        ("DELETE FROM journal WHERE sequence = 5", 5, "sequence", ""),
        ("DELETE FROM journal WHERE sequence = 10", 10, "sequence", "head_sequence"),
        (
            "INSERT INTO journal SELECT account_id, 11, kind, body, body_digest, previous_chain, chain, at "
            "FROM journal WHERE sequence = 10",
            11,
            "chain",
            "",
        ),
        ("UPDATE accounts SET head_chain = zeroblob(32)", 10, "chain", "head_chain"),
        ("UPDATE accounts SET head_sequence = 9", 10, "sequence", "head_sequence"),
        ("UPDATE accounts SET charged_nanos = 6", 0, "balance", "totals"),
        ("UPDATE accounts SET reserved_count = 0", 0, "balance", "totals"),
        ("UPDATE accounts SET granted_nanos = 1000", 0, "balance", "granted_nanos"),
        ("UPDATE accounts SET prior_spend_nanos = 1", 0, "balance", "prior_spend_nanos"),
        ("UPDATE accounts SET currency = 'EUR'", 0, "balance", "currency"),
        ("DELETE FROM accounts", 0, "balance", "account"),
        ("UPDATE studies SET cap_nanos = 1000 WHERE study_id = 'other'", 0, "balance", "other"),
        ("UPDATE studies SET resolved_nanos = 0 WHERE study_id = 'study'", 0, "balance", "study"),
        ("DELETE FROM studies WHERE study_id = 'other'", 0, "balance", "other"),
        (
            "INSERT INTO studies SELECT 'third', account_id, cap_nanos, call_ceiling_nanos, max_in_flight, "
            "manifest_digest, 99, 0, 0, 0, 0, 0, 0, 0, 0 FROM studies WHERE study_id = 'other'",
            0,
            "balance",
            "third",
        ),
        ("UPDATE calls SET body = json_set(body, '$.accounted_nanos', 1) WHERE attempt = 2", 0, "call", CALL_ID.hex()),
        (
            "UPDATE calls SET body = json_set(body, '$.resolution.evidence', '?') WHERE attempt = 1",
            0,
            "call",
            CALL_ID.hex(),
        ),
        ("UPDATE calls SET attempt = 3 WHERE attempt = 2", 0, "call", CALL_ID.hex()),
        ("DELETE FROM calls WHERE attempt = 2", 0, "call", CALL_ID.hex()),
        ("UPDATE calls SET state = 'HELD' WHERE attempt = 2", 0, "call", CALL_ID.hex()),
        ("UPDATE calls SET study_id = 'other' WHERE attempt = 2", 0, "call", CALL_ID.hex()),
        ("UPDATE calls SET lease_expires_at = 0 WHERE attempt = 2", 0, "call", CALL_ID.hex()),
        ("UPDATE calls SET reserved_sequence = 99 WHERE attempt = 2", 0, "call", CALL_ID.hex()),
        ("UPDATE calls SET body = 'none' WHERE attempt = 2", 0, "call", CALL_ID.hex()),
        ("UPDATE calls SET account_id = 'lost' WHERE attempt = 2", 0, "call", CALL_ID.hex()),
        ("INSERT INTO call_keys SELECT call_id, attempt, id FROM calls", 0, "call", CALL_ID.hex()),
        ("INSERT INTO call_keys SELECT call_id, attempt + 1, 0 FROM calls", 0, "call", CALL_ID.hex()),
        (f"UPDATE payloads SET body = x'00' WHERE digest = {RESPONSE}", 0, "receipt", CALL_ID.hex()),
        (f"DELETE FROM payloads WHERE digest = {RESPONSE}", 0, "receipt", CALL_ID.hex()),
        (f"UPDATE payloads SET body = x'00' WHERE digest = {REQUEST}", 0, "request", CALL_ID.hex()),
        ("UPDATE requests SET request_id = 'grant-2' WHERE request_id = 'grant-1'", 0, "request_id", "grant-1"),
        (
            "UPDATE requests SET inputs_digest = zeroblob(32) WHERE request_id = 'resolve-1'",
            0,
            "request_id",
            "resolve-1",
        ),
        ("UPDATE requests SET answer_nanos = 7 WHERE request_id = 'grant-1'", 0, "request_id", "grant-1"),
        ("DELETE FROM requests WHERE request_id = 'open-study'", 0, "request_id", "open-study"),
        ("DELETE FROM requests WHERE request_id = 'open-lab'", 0, "request_id", "open-lab"),
    ],
)
async def test_change_is_found(database: Path, change: str, sequence: int, what: str, subject: str) -> None:
    await make_file(database)
    db = sqlite3.connect(database)
    db.executescript(NO_TRIGGERS + change)
    assert db.total_changes > 0
    db.close()
    _, found = await differences(database)
    assert found == [Difference("lab", sequence, what, subject)]


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM call_keys WHERE attempt = 2",
        "UPDATE call_keys SET id = id + 1 WHERE attempt = 1",
        "UPDATE call_keys SET attempt = 3 WHERE attempt = 2",
    ],
)
async def test_key_that_leads_astray_is_found(database: Path, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_keys, "RECENT_KEYS", 2)
    await make_file(database)
    db = sqlite3.connect(database)
    db.executescript(change)
    assert db.total_changes > 0
    db.close()
    _, found = await differences(database)
    assert found == [Difference("lab", 0, "call", CALL_ID.hex())]


async def test_call_that_is_stored_twice_is_found(database: Path) -> None:
    await make_file(database)
    db = sqlite3.connect(database)
    db.executescript(
        "DROP INDEX calls_by_study; DROP INDEX calls_by_account;"
        "INSERT INTO calls SELECT 9, call_id, attempt, body, account_id, study_id, state, lease_expires_at, "
        "reserved_sequence FROM calls WHERE attempt = 2"
    )
    db.close()
    _, found = await differences(database)
    assert found == [Difference("lab", 0, "call", CALL_ID.hex())]


@pytest.mark.parametrize(
    ("name", "columns"),
    [("call_keys", "call_id, attempt, id"), ("calls_by_study", "study_id, reserved_sequence")],
)
async def test_index_that_has_lost_its_entries_is_found(
    database: Path, name: str, columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its key a call that was paid for would look new; without its place in a study nobody would list it."""
    monkeypatch.setattr(sqlite_keys, "RECENT_KEYS", 1)
    await make_file(database)
    db = sqlite3.connect(database)
    db.executescript(
        f"CREATE TABLE empty ({columns}); CREATE INDEX spare ON empty ({columns});"
        "PRAGMA writable_schema = ON;"
        "UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'spare') "
        f"WHERE name = '{name}';"
    )
    db.close()
    ledger = make_ledger(database, Clock())
    with pytest.raises(errors.StoreCorruptError) as refused:
        await ledger.verify(None)
    assert refused.value.metadata == {"problem": "integrity"}
    await ledger.close()


async def test_changed_account_does_not_hide_another(database: Path) -> None:
    await make_file(database)
    ledger = make_ledger(database, Clock())
    await ledger.submit(support.open_account("second"))
    await ledger.close()
    db = sqlite3.connect(database)
    db.executescript("UPDATE accounts SET prior_spend_nanos = 2")
    db.close()
    count, found = await differences(database)
    assert count == 11
    assert [difference.account_id for difference in found] == ["lab", "second"]


async def test_changed_response_is_never_handed_out(database: Path) -> None:
    await make_file(database)
    db = sqlite3.connect(database)
    db.executescript(f"UPDATE payloads SET body = x'00' WHERE digest = {RESPONSE}")
    db.close()
    ledger = make_ledger(database, Clock())
    for asking in (ledger.receipt(CALL_ID, 0), ledger.reserve(support.reserve(10, token=b"a third token....."))):
        with pytest.raises(errors.StoreCorruptError) as refused:
            await asking
        assert refused.value.metadata == {"problem": "payload"}
    await ledger.close()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE accounts SET granted_nanos = 'many'",
        "UPDATE accounts SET head_chain = NULL",
        "UPDATE studies SET max_in_flight = 1.5",
        "UPDATE journal SET body_digest = 7 WHERE sequence = 2",
        "UPDATE journal SET body = NULL WHERE sequence = 2",
        "UPDATE requests SET inputs_digest = 'text'",
        "UPDATE calls SET attempt = 'first' WHERE attempt = 1",
    ],
)
async def test_value_of_another_type_is_damage(database: Path, change: str) -> None:
    """The disk does not know of the schema's types: whatever it gives back, the error is the store's."""
    await make_file(database)
    db = sqlite3.connect(database)
    db.executescript(NO_TRIGGERS + untyped(change))
    db.close()
    with pytest.raises(errors.StoreCorruptError):
        await ask_everything(database)


async def test_payload_of_another_type_is_found(database: Path) -> None:
    await make_file(database)
    db = sqlite3.connect(database)
    db.executescript(untyped(f"UPDATE payloads SET body = 'response' WHERE digest = {RESPONSE}"))
    db.close()
    store = SqliteStore.open(database)
    auditor = Auditor("lab")
    await store.audit(auditor)
    assert auditor.difference == Difference("lab", 0, "receipt", CALL_ID.hex())
    assert await store.payload(CALL_ID, sha256(b"response")) is None
    await store.close()


def untyped(change: str) -> str:
    """SQL that makes a change as if the tables had neither types nor constraints."""
    return (
        "PRAGMA writable_schema = ON;"
        "CREATE TABLE kept AS SELECT name AS kept_name, sql AS kept_sql FROM sqlite_schema WHERE type = 'table';"
        "UPDATE sqlite_schema SET sql = replace(replace(replace(sql, 'STRICT, ', ''), 'STRICT', ''), 'NOT NULL', '') "
        "WHERE type = 'table';"
        "PRAGMA writable_schema = RESET;"
        f"{change};"
        "PRAGMA writable_schema = ON;"
        "UPDATE sqlite_schema SET sql = (SELECT kept_sql FROM kept WHERE kept_name = name) "
        "WHERE type = 'table' AND name IN (SELECT kept_name FROM kept);"
        "DROP TABLE kept;"
        "PRAGMA writable_schema = RESET;"
    )


async def ask_everything(path: Path) -> None:
    """What each kind of reader and writer asks, verification of the entries and rows themselves included."""
    store = SqliteStore.open(path, busy_timeout_millis=20)
    try:
        await store.audit(Auditor("lab"))
    finally:
        await store.close()
    ledger = make_ledger(path, Clock())
    try:
        await ledger.summarize("lab", None, 0, 10)
        await ledger.submit(support.grant(1, request_id="grant-1"))
    finally:
        await ledger.close()
