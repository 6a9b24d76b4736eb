"""Whatever ends a server or a connection: nothing acknowledged is lost, nothing doubled, nothing unsure is certain."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import psycopg
import pytest

from ledger_svc import errors
from ledger_svc.budgets import Tally, Totals
from ledger_svc.calls import CallState
from ledger_svc.commands.reservations import Admitted
from ledger_svc.ledger import Ledger
from ledger_svc.storage.postgres_connection import PostgresOptions
from ledger_svc.workspace import Workspace
from tests.ledger_svc import support
from tests.ledger_svc.postgres_cluster import Cluster
from tests.ledger_svc.postgres_support import IMPATIENT, admitted, carry_out, opened, replicas
from tests.ledger_svc.support import Clock, furnish

LEDGERS = "application_name = 'countersign-ledger'"


@pytest.fixture
def dsn(cluster: Cluster) -> str:
    """An empty schema."""
    return cluster.new_schema()


@dataclass
class Heard:
    """What callers were answered, kept outside of the ledger."""

    reserved: list[int] = field(default_factory=list)
    charged: list[int] = field(default_factory=list)
    unsure_count: int = 0
    enough: asyncio.Event = field(default_factory=asyncio.Event)
    wanted_count: int = 0

    def note(self, answers: list[int], turn: int) -> None:
        """Keep an answer, and say when there are as many as somebody waits for."""
        answers.append(turn)
        if len(self.reserved) + len(self.charged) >= self.wanted_count:
            self.enough.set()

    async def more(self, count: int) -> None:
        """Wait until so many answers more have come."""
        self.wanted_count = len(self.reserved) + len(self.charged) + count
        self.enough.clear()
        await self.enough.wait()


async def persist(heard: Heard, ledger: Ledger, command: object) -> object:
    """Ask until there is an answer, by the same token each time."""
    while True:
        try:
            return await ledger.submit(command)  # type: ignore[arg-type]
        except errors.StoreUnavailableError:
            heard.unsure_count += 1


async def caller(heard: Heard, ledger: Ledger, turns: Iterator[int], stopping: asyncio.Event) -> None:
    """Reserve and charge one slot after the other."""
    while not stopping.is_set():
        turn = next(turns)
        answer = await persist(heard, ledger, support.reserve(10, at=support.slot(turn=turn)))
        assert isinstance(answer, Admitted)
        heard.note(heard.reserved, turn)
        if turn % 2:
            await persist(heard, ledger, support.receipt(at=support.slot(turn=turn), response=b"r%d" % turn))
            heard.note(heard.charged, turn)


def power_failure(cluster: Cluster) -> None:
    cluster.kill()
    cluster.start()


def restart(cluster: Cluster) -> None:
    cluster.stop()
    cluster.start()


@pytest.mark.parametrize("ending", [power_failure, restart])
async def test_acknowledged_answers_survive_the_servers_end(
    cluster: Cluster, dsn: str, ending: Callable[[Cluster], None]
) -> None:
    heard, stopping, turns = Heard(), asyncio.Event(), iter(range(1, 10**6))
    async with replicas(dsn, options=PostgresOptions(connection_wait_millis=600)) as ledgers:
        await furnish(ledgers[0], 10**9, 10**9, max_in_flight=10**6)
        async with asyncio.TaskGroup() as callers:
            for number in range(12):
                callers.create_task(caller(heard, ledgers[number % 2], turns, stopping))
            await heard.more(60)
            await asyncio.to_thread(ending, cluster)
            await heard.more(60)
            stopping.set()
        found = await ledgers[1].verify(None)
        assert (found.differences, found.entries_count) == ([], 3 + len(heard.reserved) + len(heard.charged))
        assert len(set(heard.reserved)) == len(heard.reserved)
        for turn in heard.reserved:
            (call,) = await ledgers[turn % 2].attempts(support.slot(turn=turn).call_id())
            assert call.state is (CallState.CHARGED if turn in heard.charged else CallState.RESERVED)
        last = heard.charged[-1]
        assert (await ledgers[0].receipt(support.slot(turn=last).call_id(), 1)).response == b"r%d" % last
        account = (await ledgers[0].summarize("lab", None, 0, 10)).balances.account
        charged_count = len(heard.charged)
        reserved_count = len(heard.reserved) - charged_count
        assert account.totals == Totals(
            charged=Tally(7 * charged_count, charged_count), reserved=Tally(10 * reserved_count, reserved_count)
        )


async def test_idle_connections_that_a_restart_ended_are_no_failure(cluster: Cluster, dsn: str) -> None:
    async with replicas(dsn, 1) as (ledger,):
        await furnish(ledger)
        await asyncio.gather(*(ledger._store.attempts(support.slot().call_id()) for _ in range(20)))
        await asyncio.to_thread(restart, cluster)
        assert not (await admitted(ledger, support.reserve())).replayed
        assert (await ledger.verify(None)).entries_count == 4
        assert support.is_healthy(ledger)


async def test_server_that_is_down_admits_nothing_and_comes_back(cluster: Cluster, dsn: str) -> None:
    async with replicas(dsn, 1, options=IMPATIENT) as (ledger,):
        await furnish(ledger)
        cluster.stop()
        try:
            for asking in (lambda: ledger.reserve(support.reserve()), lambda: ledger.verify(None)):
                with pytest.raises(errors.StoreUnavailableError) as refused:
                    await asking()
                assert refused.value.metadata == {"problem": "connection"}
            await ledger.tend()
            assert not support.is_healthy(ledger)
        finally:
            cluster.start()
        while not support.is_healthy(ledger):
            await ledger.tend()
        assert not (await admitted(ledger, support.reserve())).replayed


async def test_connection_lost_before_commit_is_a_new_attempt_that_lands_once(cluster: Cluster, dsn: str) -> None:
    command = support.grant(5)
    runs_count = 0

    def work(book: Workspace) -> object:
        nonlocal runs_count
        runs_count += 1
        if runs_count == 1:
            cluster.execute(cluster.dsn(), f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {LEDGERS}")
        return command.decide(book)

    async with opened(dsn) as store:
        await carry_out(store, support.open_account())
        await store.transact(command.wanted(), None, work)
        assert runs_count == 2
        balances = await store.balances("lab", None, 0, 1)
        assert balances is not None
        assert (balances.account.granted_nanos, balances.account.head_sequence) == (5, 2)


@pytest.fixture
def absent_standby(cluster: Cluster) -> Iterator[Callable[[], None]]:
    """Makes every COMMIT wait for a standby that never comes; made good at the end."""
    yield lambda: cluster.configure("synchronous_standby_names", "absent")
    cluster.configure("synchronous_standby_names", None)


@pytest.mark.parametrize("ending", ["pg_cancel_backend", "pg_terminate_backend"])
async def test_commit_whose_outcome_is_not_heard_is_never_an_answer(
    cluster: Cluster, dsn: str, absent_standby: Callable[[], None], ending: str
) -> None:
    """Carried out on this server, but not confirmed by its standby: neither done for sure nor undone."""
    async with replicas(dsn) as (one, other):
        await furnish(one)
        absent_standby()
        asking = asyncio.create_task(one.reserve(support.reserve(10)))
        waiting = f"{LEDGERS} AND wait_event = 'SyncRep'"
        await asyncio.to_thread(cluster.wait_for, waiting)
        cluster.execute(cluster.dsn(), f"SELECT {ending}(pid) FROM pg_stat_activity WHERE {waiting}")
        with pytest.raises(errors.StoreUnavailableError) as refused:
            await asking
        assert refused.value.metadata == {"problem": "commit_unknown"}
        assert not support.is_healthy(one)
        again = asyncio.create_task(admitted(other, support.reserve(10)))
        # Not even the earlier answer leaves before the standby has it.
        await asyncio.to_thread(cluster.wait_for, waiting)
        assert not again.done()
        cluster.configure("synchronous_standby_names", None)
        assert (await again).replayed
        found = await other.verify(None)
        assert (found.entries_count, found.differences) == (4, [])


async def test_commit_that_takes_too_long_is_not_known(
    cluster: Cluster, dsn: str, absent_standby: Callable[[], None]
) -> None:
    async with replicas(dsn, 1) as (patient,), replicas(dsn, 1, options=PostgresOptions(commit_millis=50)) as (ledger,):
        await furnish(patient)
        absent_standby()
        with pytest.raises(errors.StoreUnavailableError) as refused:
            await ledger.reserve(support.reserve(10))
        assert refused.value.metadata == {"problem": "commit_unknown"}
        cluster.configure("synchronous_standby_names", None)
        assert (await admitted(patient, support.reserve(10))).replayed
        assert (await patient.verify(None)).entries_count == 4


async def test_refused_batch_leaves_nothing(cluster: Cluster, dsn: str) -> None:
    """A rule of the database's own refuses one row of many."""
    clock = Clock()
    async with replicas(dsn, 1, clock=clock) as (ledger,):
        await furnish(ledger)
        cluster.execute(dsn, "ALTER TABLE payloads ADD CHECK (length(body) < 100)")
        with pytest.raises(errors.StoreCorruptError) as refused:
            await ledger.reserve(support.reserve(request=bytes(200)))
        assert refused.value.metadata == {"problem": "constraint"}
        await ledger.tend()
        found = await ledger.verify(None)
        assert (found.entries_count, found.differences) == (3, [])
        with pytest.raises(psycopg.errors.CheckViolation):
            cluster.execute(dsn, "INSERT INTO payloads VALUES ('\\x00', repeat('x', 200)::bytea)")
