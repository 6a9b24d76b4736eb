"""What the tests of several ledgers on one PostgreSQL database share."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from ledger_svc.commands.base import Command
from ledger_svc.commands.reservations import Admitted, Reserve
from ledger_svc.ledger import Ledger, store_time
from ledger_svc.storage.postgres import PostgresStore
from ledger_svc.storage.postgres_connection import PostgresOptions

IMPATIENT = PostgresOptions(connection_wait_millis=600, lock_timeout_millis=50)


@asynccontextmanager
async def opened(dsn: str, options: PostgresOptions | None = None) -> AsyncIterator[PostgresStore]:
    """A store, closed at the end."""
    store = await PostgresStore.open(dsn, options)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def replicas(
    dsn: str, count: int = 2, *, options: PostgresOptions | None = None, clock: Callable[[], int | None] = store_time
) -> AsyncIterator[list[Ledger]]:
    """Started ledgers, each with connections of its own to the one database."""
    async with AsyncExitStack() as stack:
        ledgers = []
        for _ in range(count):
            ledger = Ledger(await PostgresStore.open(dsn, options), clock)
            ledger.start()
            stack.push_async_callback(ledger.close)
            ledgers.append(ledger)
        yield ledgers


async def carry_out(store: PostgresStore, command: Command[object], now: int | None = None) -> object:
    """One command in one transaction, at the database's time."""
    return await store.transact(command.wanted(), now, command.decide)


async def admitted(ledger: Ledger, command: Reserve) -> Admitted:
    """A reservation that is admitted."""
    answer = await ledger.reserve(command)
    assert isinstance(answer, Admitted)
    return answer
