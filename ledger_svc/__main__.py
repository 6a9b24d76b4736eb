"""The ledger's entry: `python -m ledger_svc`, or `countersign-ledger`."""

import asyncio
import gc
import logging
import sys
from collections.abc import Sequence

from countersign.kit.process import fail, run_service
from countersign.kit.security import load_security
from countersign.kit.server import RunningServer, serve_until_stopped, start_server
from countersign.kit.settings import BadSettings
from ledger_svc.access import METHOD_ROLES
from ledger_svc.ledger import Ledger, store_time
from ledger_svc.service import FULL_NAME, LedgerServicer, service_spec
from ledger_svc.settings import LedgerSettings, refuse_password_in_arguments
from ledger_svc.storage.base import Store
from ledger_svc.storage.postgres import PostgresStore
from ledger_svc.storage.postgres_connection import PostgresOptions
from ledger_svc.storage.sqlite import SqliteStore


async def open_store(settings: LedgerSettings) -> Store:
    """The store that the settings name; raises BadSettings and what the store's `open` raises."""
    dsn = settings.postgres_dsn()
    if dsn is None:
        return SqliteStore.open(settings.database)
    # The driver's own warnings repeat, in words of the server's, what the store says in typed errors.
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)
    options = PostgresOptions(
        max_connections=settings.postgres_connections,
        statement_timeout_millis=round(settings.postgres_statement_seconds * 1_000),
        lock_timeout_millis=round(settings.postgres_lock_seconds * 1_000),
    )
    return await PostgresStore.open(dsn, options)


COLLECTOR_THRESHOLD = 10_000
"""After how many new objects the garbage collector looks for cycles; mutations make many objects and no cycles."""


async def serve(settings: LedgerSettings) -> None:
    """Serve until told to stop, then carry out what is queued."""
    # What is loaded by now stays: the collector need not look at it again. See docs/performance.md.
    gc.freeze()
    gc.set_threshold(COLLECTOR_THRESHOLD, *gc.get_threshold()[1:])
    security = load_security(settings, FULL_NAME, METHOD_ROLES)
    ledger = Ledger(await open_store(settings), store_time)
    ledger.start()
    draining = asyncio.Event()
    try:
        spec = service_spec(LedgerServicer(ledger, draining))
        running = await start_server(spec, settings.listen, draining, security)
        async with asyncio.TaskGroup() as tasks:
            keeper = tasks.create_task(keep(ledger, running, settings.sweep_seconds))
            await serve_until_stopped(
                running, spec.name, settings.drain_seconds, exit_with_stdin=settings.exit_with_stdin
            )
            keeper.cancel()
    finally:
        await ledger.close()


async def keep(ledger: Ledger, running: RunningServer, sweep_seconds: float) -> None:
    """Sweep ended leases, and let health checks follow the store, for as long as the task lives."""
    while True:
        ledger.health_changed.clear()
        if not running.draining.is_set():
            await running.set_serving(ledger.healthy)
        try:
            async with asyncio.timeout(sweep_seconds):
                await ledger.health_changed.wait()
        except TimeoutError:
            await ledger.tend()


def main(argv: Sequence[str] | None = None) -> None:
    """Run the ledger; exits with status 2 and one line on standard error where it cannot start."""
    try:
        refuse_password_in_arguments(sys.argv[1:] if argv is None else argv)
    except BadSettings as error:
        fail("ledger", error.message)
    run_service("ledger", LedgerSettings, serve, argv)


if __name__ == "__main__":
    main()
