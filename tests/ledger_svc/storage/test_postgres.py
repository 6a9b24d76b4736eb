"""What can be wrong with a database: each a typed error of one line, and nothing half written."""

import asyncio
from collections.abc import Sequence
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ledger_svc import errors
from ledger_svc.calls import CallState
from ledger_svc.storage import postgres, postgres_rows, postgres_schema
from ledger_svc.storage.postgres import PostgresStore
from ledger_svc.storage.postgres_connection import PostgresOptions
from ledger_svc.storage.postgres_schema import Connection
from tests.ledger_svc import support
from tests.ledger_svc.postgres_cluster import Cluster
from tests.ledger_svc.postgres_support import IMPATIENT, admitted, carry_out, opened, replicas
from tests.ledger_svc.support import Clock, furnish

CALL_ID = support.slot().call_id()


@pytest.fixture
def dsn(cluster: Cluster) -> str:
    """An empty schema."""
    return cluster.new_schema()


async def unavailable(dsn: str) -> str:
    """The problem that opening the database meets."""
    with pytest.raises(errors.StoreUnavailableError) as refused:
        await PostgresStore.open(dsn)
    assert "\n" not in refused.value.message
    return refused.value.metadata["problem"]


async def fill(dsn: str) -> None:
    """One reserved call in a furnished ledger."""
    async with opened(dsn) as store:
        for command in (support.open_account(), support.grant(), support.open_study(), support.reserve()):
            await carry_out(store, command)


def version(cluster: Cluster, dsn: str) -> int:
    """The stored schema version."""
    ((found,),) = cluster.execute(dsn, "SELECT version FROM ledger_schema")
    return int(found)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"password": "another"}, "wrong_password"),
        ({"password": None, "passfile": "/dev/null"}, "no_password"),
        ({"user": "nobody"}, "wrong_password"),
        ({"dbname": "nowhere"}, "no_database"),
        ({"host": "/nowhere"}, "connection"),
        ({"host": "127.0.0.1", "port": 1}, "connection"),
        ({"host": "no-such-host.invalid"}, "connection"),
        ({"options": "-c default_transaction_read_only=on"}, "read_only"),
    ],
)
async def test_connection_that_does_not_come_about_is_named(
    cluster: Cluster, changes: dict[str, Any], problem: str
) -> None:
    assert await unavailable(cluster.dsn(**changes)) == problem


async def test_text_that_is_no_dsn_is_refused_without_being_shown() -> None:
    with pytest.raises(errors.InvalidArgumentError) as refused:
        await PostgresStore.open("password=secret and more")
    assert refused.value.message == "the PostgreSQL DSN cannot be read"


async def test_role_without_rights_is_refused(cluster: Cluster, dsn: str) -> None:
    cluster.execute(dsn, "CREATE ROLE guest LOGIN PASSWORD 'guest'")
    assert await unavailable(make_conninfo(dsn, user="guest", password="guest")) == "no_permission"


async def test_database_in_another_encoding_is_refused(cluster: Cluster) -> None:
    assert await unavailable(cluster.new_database("ENCODING 'SQL_ASCII'")) == "encoding"


async def test_server_that_could_lose_commits_is_refused(cluster: Cluster, dsn: str) -> None:
    cluster.configure("fsync", "off")
    try:
        assert await unavailable(dsn) == "not_durable"
    finally:
        cluster.configure("fsync", None)
    await (await PostgresStore.open(dsn)).close()


async def test_tables_of_something_else_are_refused_and_stay(cluster: Cluster, dsn: str) -> None:
    cluster.execute(dsn, "CREATE TABLE calls (name text)")
    with pytest.raises(errors.StoreCorruptError) as refused:
        await PostgresStore.open(dsn)
    assert refused.value.metadata == {"problem": "not_a_ledger"}
    tables = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
    assert cluster.execute(dsn, tables) == [("calls",)]


async def test_newer_schema_is_refused_and_stays_as_it_is(cluster: Cluster, dsn: str) -> None:
    await fill(dsn)
    cluster.execute(dsn, "UPDATE ledger_schema SET version = 9")
    with pytest.raises(errors.SchemaTooNewError) as refused:
        await PostgresStore.open(dsn)
    assert refused.value.metadata == {"found_version": "9", "known_version": "2"}
    assert version(cluster, dsn) == 9


async def test_ledger_that_serves_an_older_schema_stops_writing(cluster: Cluster, dsn: str) -> None:
    async with replicas(dsn, 1) as (ledger,):
        await furnish(ledger)
        cluster.execute(dsn, "UPDATE ledger_schema SET version = 3")
        with pytest.raises(errors.StoreUnavailableError) as refused:
            await ledger.reserve(support.reserve())
        assert refused.value.metadata == {"problem": "schema_version"}
        await ledger.tend()
        assert not support.is_healthy(ledger)
        assert await ledger._store.attempts(CALL_ID) == ()


async def test_older_schema_is_brought_forward_once(
    cluster: Cluster, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(dsn)
    added = ("CREATE TABLE added (name text NOT NULL)",)
    monkeypatch.setattr(postgres_schema, "MIGRATIONS", (*postgres_schema.MIGRATIONS, added))
    monkeypatch.setattr(postgres_schema, "SCHEMA_VERSION", 3)
    stores = await asyncio.gather(*(PostgresStore.open(dsn) for _ in range(3)))
    assert [len(await store.attempts(CALL_ID)) for store in stores] == [1, 1, 1]
    for store in stores:
        await store.close()
    assert version(cluster, dsn) == 3
    assert cluster.execute(dsn, "SELECT count(*) FROM added") == [(0,)]


@pytest.mark.parametrize("found_version", range(1, postgres_schema.SCHEMA_VERSION))
async def test_database_of_every_older_version_is_brought_forward_whole(
    cluster: Cluster, dsn: str, monkeypatch: pytest.MonkeyPatch, found_version: int
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(postgres_schema, "MIGRATIONS", postgres_schema.MIGRATIONS[:found_version])
        patch.setattr(postgres_schema, "SCHEMA_VERSION", found_version)
        await fill(dsn)
        assert version(cluster, dsn) == found_version
    async with replicas(dsn, 1, clock=Clock()) as (ledger,):
        assert version(cluster, dsn) == postgres_schema.SCHEMA_VERSION
        await ledger.submit(support.hold())
        held = await ledger.calls_of_account("lab", {CallState.HELD}, 0, 10)
        assert [call.call_id for call in held.calls] == [CALL_ID]
        assert (await ledger.verify(None)).differences == []


@pytest.mark.parametrize(
    ("states", "index"),
    [(set(CallState), "calls_by_{}"), ({CallState.HELD}, "calls_held_by_{}"), ({CallState.CHARGED}, "calls_by_{}")],
)
async def test_calls_are_listed_by_an_index_that_leads_to_them(
    cluster: Cluster, dsn: str, monkeypatch: pytest.MonkeyPatch, states: set[CallState], index: str
) -> None:
    await fill(dsn)
    plans: list[str] = []
    fetch = postgres_rows.fetch

    async def explained(db: Connection, query: str, values: dict[str, Any]) -> Sequence[tuple[Any, ...]]:
        # Of few rows a scan is cheapest.
        await db.execute("SET enable_seqscan = off")
        await db.execute("SET enable_bitmapscan = off")
        plans.append("".join(row[0] for row in await fetch(db, f"EXPLAIN {query}", values)))
        return await fetch(db, query, values)

    async with opened(dsn) as store:
        monkeypatch.setattr(postgres_rows, "fetch", explained)
        await store.calls_of_account("lab", states, 0, 10)
        await store.calls("study", states, 0, 10)
    by_account, by_study = plans
    assert f"Index Scan using {index.format('account')} on calls" in by_account
    assert f"Index Scan using {index.format('study')} on calls" in by_study


async def test_failing_migration_changes_nothing(cluster: Cluster, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await fill(dsn)
    broken = ("CREATE TABLE added (name text NOT NULL)", "CREATE TABLE calls (name text)")
    monkeypatch.setattr(postgres_schema, "MIGRATIONS", (*postgres_schema.MIGRATIONS, broken))
    monkeypatch.setattr(postgres_schema, "SCHEMA_VERSION", 3)
    with pytest.raises(errors.StoreCorruptError):
        await PostgresStore.open(dsn)
    assert version(cluster, dsn) == 2
    assert cluster.execute(dsn, "SELECT to_regclass('added')") == [(None,)]


async def test_empty_database_is_filled_once_by_ledgers_that_start_together(cluster: Cluster, dsn: str) -> None:
    stores = await asyncio.gather(*(PostgresStore.open(dsn) for _ in range(4)))
    for store in stores:
        await store.close()
    assert version(cluster, dsn) == 2
    assert cluster.execute(dsn, "SELECT written_count FROM probe") == [(0,)]


async def test_sessions_have_their_limits_and_wait_for_the_disk(dsn: str) -> None:
    names = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "synchronous_commit")
    options = PostgresOptions(
        statement_timeout_millis=7_000, lock_timeout_millis=3_000, idle_in_transaction_timeout_millis=4_000
    )
    found = []
    for wanted in ("off", "remote_apply"):
        chosen = make_conninfo(dsn, options=f"{conninfo_to_dict(dsn)['options']} -c synchronous_commit={wanted}")
        async with opened(chosen, options) as store, store._pool.connection() as db:
            found.append([(await (await db.execute(f"SHOW {name}")).fetchone() or ("",))[0] for name in names])
    assert found == [["7s", "3s", "4s", "on"], ["7s", "3s", "4s", "remote_apply"]]


async def test_derived_column_and_journal_cannot_be_changed(cluster: Cluster, dsn: str) -> None:
    await fill(dsn)
    with pytest.raises(psycopg.errors.GeneratedAlways):
        cluster.execute(dsn, "UPDATE calls SET state = 'HELD'")
    for change in ("UPDATE journal SET at = 0", "DELETE FROM journal", "TRUNCATE journal"):
        with pytest.raises(psycopg.errors.RaiseException, match="append-only"):
            cluster.execute(dsn, change)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE calls SET body = jsonb_set(body::jsonb, '{state}', '\"LOST\"')::text",
        "UPDATE calls SET body = (body::jsonb - 'attempt')::text",
    ],
)
async def test_row_that_is_no_call_is_damage(cluster: Cluster, dsn: str, change: str) -> None:
    await fill(dsn)
    cluster.execute(dsn, change)
    async with opened(dsn) as store:
        with pytest.raises(errors.StoreCorruptError) as refused:
            await store.attempts(CALL_ID)
        assert refused.value.metadata == {"problem": "row"}


async def test_missing_table_is_damage(cluster: Cluster, dsn: str) -> None:
    await fill(dsn)
    cluster.execute(dsn, "DROP TABLE requests")
    async with opened(dsn) as store:
        with pytest.raises(errors.StoreCorruptError) as refused:
            await carry_out(store, support.grant())
        assert refused.value.metadata == {"problem": "malformed"}


async def test_entry_that_nobody_should_have_written_is_damage(cluster: Cluster, dsn: str) -> None:
    await fill(dsn)
    cluster.execute(
        dsn,
        "INSERT INTO journal SELECT account_id, 5, kind, body, body_digest, previous_chain, chain, at "
        "FROM journal WHERE sequence = 4",
    )
    async with opened(dsn) as store:
        with pytest.raises(errors.StoreCorruptError) as refused:
            await carry_out(store, support.receipt())
        assert refused.value.metadata == {"problem": "constraint"}
        assert [str(call.state) for call in await store.attempts(CALL_ID)] == ["RESERVED"]


async def test_text_that_postgresql_cannot_hold(dsn: str) -> None:
    """NUL: in an id that is asked for it names nothing, in an operator's evidence it is kept."""
    await fill(dsn)
    async with opened(dsn) as store:
        assert await store.balances("\0", None, 0, 10) is None
        assert await store.study("lab\0") is None
        assert await store.currency_of_account("lab\0") is None
        assert await store.calls("study\0", set(), 0, 10) == []
        await carry_out(store, support.hold())
        evidence = 'a\0b\0 \\u0000 \\\0 é "state":"LOST" \\'
        resolution = replace(support.resolve(3), evidence=evidence)
        await carry_out(store, resolution)
        (call,) = await store.attempts(CALL_ID)
        assert call.resolution is not None
        assert call.resolution.evidence == evidence


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (IMPATIENT, "locked"),
        (PostgresOptions(statement_timeout_millis=50), "timeout"),
        (PostgresOptions(work_millis=50), "timeout"),
    ],
)
async def test_locked_account_is_unavailable_and_then_works_again(
    dsn: str, options: PostgresOptions, problem: str
) -> None:
    async with replicas(dsn, 1) as (patient,), replicas(dsn, 1, options=options) as (ledger,):
        await furnish(patient)
        with psycopg.connect(dsn) as other:
            other.execute("SELECT FROM accounts FOR UPDATE")
            with pytest.raises(errors.StoreUnavailableError) as refused:
                await ledger.reserve(support.reserve())
            assert refused.value.metadata == {"problem": problem}
            assert not support.is_healthy(ledger)
            # Reads wait for nobody.
            assert (await patient.summarize("lab", None, 0, 10)).balances.account.totals.reserved.count == 0
        while not support.is_healthy(ledger):
            await ledger.tend()
        assert not (await admitted(patient, support.reserve())).replayed
        assert (await patient.verify(None)).entries_count == 4


async def test_more_work_than_connections_waits_its_turn(dsn: str) -> None:
    await fill(dsn)
    async with opened(dsn, PostgresOptions(max_connections=2)) as store:
        found = await asyncio.gather(*(store.attempts(CALL_ID) for _ in range(40)))
        assert {len(attempts) for attempts in found} == {1}


async def test_every_account_is_verified_over_one_connection(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    connect = postgres.connect

    async def counted(conninfo: str, options: PostgresOptions) -> Connection:
        made.append(conninfo)
        return await connect(conninfo, options)

    async with replicas(dsn, 1) as (ledger,):
        await furnish(ledger)
        for name in ("second", "third"):
            await ledger.submit(support.open_account(name))
        monkeypatch.setattr(postgres, "connect", counted)
        verified = await ledger.verify(None)
    assert (verified.accounts_count, verified.entries_count, list(verified.differences)) == (3, 5, [])
    assert len(made) == 1
