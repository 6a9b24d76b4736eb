"""What can be wrong with a file: each a typed error of one line, and nothing half written."""

import sqlite3
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ledger_svc import errors
from ledger_svc.calls import CallState
from ledger_svc.ledger import Ledger
from ledger_svc.storage import sqlite_schema
from ledger_svc.storage.sqlite import SqliteStore
from tests.ledger_svc import support
from tests.ledger_svc.support import Clock, furnish, make_ledger

PROJECT_ROOT = Path(__file__).resolve().parents[3]
OPEN = "import sys, pathlib\nfrom ledger_svc.storage.sqlite import SqliteStore\n"


def unavailable(path: Path) -> str:
    """The problem that opening the file meets."""
    with pytest.raises(errors.StoreUnavailableError) as refused:
        SqliteStore.open(path, busy_timeout_millis=20)
    assert "\n" not in refused.value.message
    return refused.value.metadata["problem"]


def corrupt(path: Path) -> str:
    """The damage that opening the file finds."""
    with pytest.raises(errors.StoreCorruptError) as refused:
        SqliteStore.open(path, busy_timeout_millis=20)
    assert "\n" not in refused.value.message
    return refused.value.metadata["problem"]


async def make_file(path: Path) -> None:
    """A ledger's file with one charged call, closed."""
    ledger = make_ledger(path, Clock())
    await furnish(ledger)
    await ledger.reserve(support.reserve())
    await ledger.submit(support.receipt(response=b"response" * 5_000))
    await ledger.close()


def test_file_is_private_to_its_owner(database: Path) -> None:
    store = SqliteStore.open(database)
    assert store is not None
    files = sorted(database.parent.iterdir())
    assert len(files) > 1
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


async def test_second_ledger_on_a_file_is_refused_until_the_first_ends(database: Path) -> None:
    store = SqliteStore.open(database)
    assert unavailable(database) == "in_use"
    await store.close()
    await SqliteStore.open(database).close()


def test_second_process_on_a_file_is_refused(database: Path) -> None:
    store = SqliteStore.open(database)
    script = OPEN + "SqliteStore.open(pathlib.Path(sys.argv[1]))"
    run = subprocess.run(
        [sys.executable, "-c", script, str(database)], cwd=PROJECT_ROOT, capture_output=True, text=True, check=False
    )
    assert store is not None
    assert run.returncode == 1
    assert "another ledger serves this file" in run.stderr


def test_failed_opening_lets_go_of_the_lock(database: Path) -> None:
    database.write_bytes(b"x" * 4096)
    assert corrupt(database) == "not_a_database"
    assert corrupt(database) == "not_a_database"


def test_text_file_is_no_database_and_stays_as_it_is(database: Path) -> None:
    database.write_text("a shopping list, long enough to be taken for something else\n" * 50)
    before = database.read_bytes()
    assert corrupt(database) == "not_a_database"
    assert database.read_bytes() == before


def test_database_of_something_else_is_refused_and_stays_as_it_is(database: Path) -> None:
    with sqlite3.connect(database) as db:
        db.execute("CREATE TABLE recipes (name TEXT)")
    db.close()
    assert corrupt(database) == "not_a_ledger"
    db = sqlite3.connect(database)
    assert [row[0] for row in db.execute("SELECT name FROM sqlite_schema")] == ["recipes"]
    db.close()


async def test_newer_schema_is_refused_and_stays_as_it_is(database: Path) -> None:
    await make_file(database)
    db = sqlite3.connect(database)
    db.execute("PRAGMA user_version = 9")
    db.close()
    with pytest.raises(errors.SchemaTooNewError) as refused:
        SqliteStore.open(database)
    assert refused.value.metadata == {"found_version": "9", "known_version": "4"}
    db = sqlite3.connect(database)
    assert db.execute("PRAGMA user_version").fetchone() == (9,)
    db.close()


async def test_older_schema_is_brought_forward(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await make_file(database)
    added = ("CREATE TABLE added (name TEXT NOT NULL) STRICT",)
    monkeypatch.setattr(sqlite_schema, "MIGRATIONS", (*sqlite_schema.MIGRATIONS, added))
    monkeypatch.setattr(sqlite_schema, "SCHEMA_VERSION", 5)
    ledger = make_ledger(database, Clock())
    assert (await ledger.verify(None)).differences == []
    await ledger.close()
    db = sqlite3.connect(database)
    assert db.execute("PRAGMA user_version").fetchone() == (5,)
    assert db.execute("SELECT count(*) FROM added").fetchone() == (0,)
    db.close()


async def test_failing_migration_changes_nothing(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await make_file(database)
    broken = ("CREATE TABLE added (name TEXT NOT NULL) STRICT", "CREATE TABLE calls (name TEXT)")
    monkeypatch.setattr(sqlite_schema, "MIGRATIONS", (*sqlite_schema.MIGRATIONS, broken))
    monkeypatch.setattr(sqlite_schema, "SCHEMA_VERSION", 5)
    assert corrupt(database) == "malformed"
    db = sqlite3.connect(database)
    assert db.execute("PRAGMA user_version").fetchone() == (4,)
    assert db.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'added'").fetchone() == (0,)
    db.close()


def damage_pages(path: Path) -> None:
    """Overwrite the head of every page but the first."""
    data = bytearray(path.read_bytes())
    assert len(data) > 8 * 4096
    for start in range(4096, len(data), 4096):
        data[start : start + 64] = b"\xff" * 64
    path.write_bytes(data)


async def test_damaged_pages_are_found_at_the_start(database: Path) -> None:
    await make_file(database)
    damage_pages(database)
    assert corrupt(database) == "malformed"


async def test_pages_damaged_while_serving_are_found(database: Path) -> None:
    await make_file(database)
    store = SqliteStore.open(database)
    damage_pages(database)
    for reading in (lambda: store.study("study"), lambda: store.attempts(support.slot().call_id()), store.check):
        with pytest.raises(errors.StoreCorruptError) as refused:
            await reading()
        assert refused.value.metadata == {"problem": "malformed"}
    with pytest.raises(errors.StoreCorruptError):
        await store.examine()
    await store.close()


async def test_truncated_file_is_found(database: Path) -> None:
    await make_file(database)
    database.write_bytes(database.read_bytes()[: 2 * 4096])
    assert corrupt(database) == "malformed"


@pytest.mark.parametrize(
    ("change", "call_id"),
    [
        ("UPDATE calls SET body = json_set(body, '$.state', 'LOST')", support.slot().call_id()),
        ("UPDATE calls SET body = json_remove(body, '$.attempt')", support.slot().call_id()),
        ("UPDATE calls SET call_id = zeroblob(32)", support.slot().call_id()),
    ],
)
async def test_row_that_is_no_call_is_damage(database: Path, change: str, call_id: bytes) -> None:
    await make_file(database)
    with sqlite3.connect(database) as db:
        db.execute(change)
    db.close()
    store = SqliteStore.open(database)
    with pytest.raises(errors.StoreCorruptError) as refused:
        await store.attempts(call_id)
    assert refused.value.metadata == {"problem": "row"}
    with pytest.raises(errors.StoreCorruptError) as refused:
        await store.stored_attempts([call_id, bytes(32)], 0, 1)
    assert refused.value.metadata == {"problem": "row"}
    await store.close()


async def test_row_id_that_none_can_have_is_damage(database: Path) -> None:
    await make_file(database)
    with sqlite3.connect(database) as db:
        db.execute("UPDATE calls SET id = 9223372036854775807")
    db.close()
    assert corrupt(database) == "row"


async def test_journal_cannot_be_changed(database: Path) -> None:
    await make_file(database)
    db = sqlite3.connect(database)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        db.execute("UPDATE journal SET at = 0")
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        db.execute("DELETE FROM journal")
    db.close()


def test_missing_folder_is_named(tmp_path: Path) -> None:
    assert unavailable(tmp_path / "missing" / "ledger.db") == "no_folder"


def test_folder_in_place_of_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").mkdir()
    assert unavailable(tmp_path / "ledger.db") == "not_a_file"


def test_read_only_folder_and_file_are_named() -> None:
    """In a process without rights over files, since root may write everywhere."""
    script = (
        OPEN + "import os\n"
        "from ledger_svc.errors import StoreUnavailableError\n"
        "if os.getuid() == 0: os.setuid(65534)\n"
        "for text in sys.argv[1:]:\n"
        "    try: SqliteStore.open(pathlib.Path(text))\n"
        "    except StoreUnavailableError as error: print(error.metadata['problem'])\n"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "writable" / "ledger.db"
        file.parent.mkdir()
        file.touch()
        file.chmod(0o444)
        file.parent.chmod(0o777)
        folder.chmod(0o555)
        run = subprocess.run(
            [sys.executable, "-c", script, str(folder / "ledger.db"), str(file)],
            cwd=PROJECT_ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (run.stdout, run.stderr) == ("read_only\nread_only\n", "")
        assert list(folder.iterdir()) == [file.parent]
        folder.chmod(0o755)


async def test_locked_file_is_unavailable_and_then_works_again(ledger: Ledger, database: Path) -> None:
    other = sqlite3.connect(database, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(errors.StoreUnavailableError) as refused:
        await ledger.reserve(support.reserve())
    assert refused.value.metadata == {"problem": "locked"}
    assert not support.is_healthy(ledger)
    await ledger.tend()
    assert not support.is_healthy(ledger)
    other.execute("ROLLBACK")
    other.close()
    await ledger.tend()
    assert support.is_healthy(ledger)
    assert (await ledger.verify(None)).entries_count == 3
    await ledger.reserve(support.reserve())


async def test_full_disk_refuses_whole_and_leaves_what_was_there(database: Path, clock: Clock) -> None:
    ledger = Ledger(SqliteStore.open(database, max_pages_count=40), clock)
    ledger.start()
    await furnish(ledger)
    await ledger.reserve(support.reserve())
    with pytest.raises(errors.StoreUnavailableError) as refused:
        await ledger.submit(support.receipt(response=bytes(1_000_000)))
    assert refused.value.metadata == {"problem": "disk_full"}
    assert not support.is_healthy(ledger)
    found = await ledger.verify(None)
    assert (found.entries_count, found.differences) == (4, [])
    assert (await ledger.submit(support.receipt())).call.accounted_nanos == 7
    assert (await ledger.verify(None)).differences == []
    await ledger.close()


async def test_moved_file_admits_nothing(ledger: Ledger, database: Path) -> None:
    database.rename(database.with_name("elsewhere.db"))
    with pytest.raises(errors.StoreUnavailableError) as refused:
        await ledger.reserve(support.reserve())
    assert refused.value.metadata == {"problem": "moved"}
    database.touch()
    with pytest.raises(errors.StoreUnavailableError):
        await ledger.reserve(support.reserve())
    database.with_name("elsewhere.db").rename(database)
    await ledger.reserve(support.reserve())


async def test_settings_that_durability_needs(database: Path) -> None:
    store = SqliteStore.open(database)
    pragmas = {
        name: store._writing.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("journal_mode", "synchronous", "foreign_keys")
    }
    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}
    await store.close()


def write_as_first_version(source: Path, target: Path) -> None:
    """Copy a ledger's content into a file as the first version of the schema kept it."""
    db = sqlite3.connect(target)
    for statement in sqlite_schema.MIGRATIONS[0]:
        db.execute(statement)
    db.execute(f"PRAGMA application_id = {sqlite_schema.APPLICATION_ID}")
    db.execute("PRAGMA user_version = 1")
    db.execute("ATTACH ? AS source", (str(source),))
    for table in ("accounts", "studies", "requests", "journal"):
        db.execute(f"INSERT INTO {table} SELECT * FROM source.{table}")
    db.execute("INSERT INTO calls (call_id, attempt, body) SELECT call_id, attempt, body FROM source.calls")
    db.execute("INSERT OR IGNORE INTO payloads SELECT digest, body FROM source.payloads")
    db.commit()
    db.close()


def bring_to(path: Path, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bring a file of the first version as far as a ledger of that version would have."""
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_schema, "MIGRATIONS", sqlite_schema.MIGRATIONS[:version])
        patch.setattr(sqlite_schema, "SCHEMA_VERSION", version)
        db = sqlite3.connect(path, isolation_level=None)
        sqlite_schema.migrate(db)
        assert db.execute("PRAGMA user_version").fetchone() == (version,)
        db.close()


@pytest.mark.parametrize("version", range(1, sqlite_schema.SCHEMA_VERSION + 1))
async def test_file_of_every_older_version_is_brought_forward_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    new, old = tmp_path / "new.db", tmp_path / "old.db"
    ledger = make_ledger(new, Clock())
    await furnish(ledger, max_in_flight=3)
    for turn in (3, 1, 2):
        await ledger.reserve(support.reserve(10, at=support.slot(turn=turn)))
    await ledger.submit(support.receipt(at=support.slot(turn=1)))
    await ledger.submit(support.hold(at=support.slot(turn=2)))
    expected = [(await ledger.attempts(support.slot(turn=turn).call_id())) for turn in (1, 2, 3)]
    page = await ledger.calls("study", set(CallState), 0, 10)
    await ledger.close()
    write_as_first_version(new, old)
    bring_to(old, version, monkeypatch)

    ledger = make_ledger(old, Clock())
    found = await ledger.verify(None)
    assert (found.entries_count, found.differences) == (8, [])
    assert [(await ledger.attempts(support.slot(turn=turn).call_id())) for turn in (1, 2, 3)] == expected
    assert await ledger.calls("study", set(CallState), 0, 10) == page
    held = await ledger.calls_of_account("lab", {CallState.HELD}, 0, 10)
    assert [call.slot.turn for call in held.calls] == [2]
    assert (await ledger.receipt(support.slot(turn=1).call_id(), 0)).response == b"response"
    again = await ledger.submit(support.receipt(at=support.slot(turn=3), response=b"a late one"))
    assert (again.replayed, (await ledger.verify(None)).differences) == (False, [])
    await ledger.close()


@pytest.mark.parametrize(
    ("states", "index"),
    [(set(CallState), "calls_by_{}"), ({CallState.HELD}, "calls_held_by_{}"), ({CallState.CHARGED}, "calls_by_{}")],
)
async def test_calls_are_listed_by_an_index_that_leads_to_them(
    database: Path, states: set[CallState], index: str
) -> None:
    await make_file(database)
    store = SqliteStore.open(database)
    asked: list[str] = []
    store._reading.set_trace_callback(asked.append)
    await store.calls_of_account("lab", states, 0, 10)
    await store.calls("study", states, 0, 10)
    store._reading.set_trace_callback(None)
    queries = [query for query in asked if "FROM calls" in query]
    plans = [store._reading.execute(f"EXPLAIN QUERY PLAN {query}").fetchall() for query in queries]
    expected = [
        f"SEARCH calls USING INDEX {index.format(by)} ({by}_id=? AND reserved_sequence>?)"
        for by in ("account", "study")
    ]
    assert [[row[3] for row in plan] for plan in plans] == [[line] for line in expected]
    await store.close()
