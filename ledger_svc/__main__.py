"""The ledger's entry: `python -m ledger_svc`, or `countersign-ledger`."""

import asyncio
import time
from collections.abc import Sequence

from countersign.kit.process import run_service
from countersign.kit.security import load_security
from countersign.kit.server import RunningServer, serve_until_stopped, start_server
from ledger_svc.access import METHOD_ROLES
from ledger_svc.ledger import Ledger
from ledger_svc.service import FULL_NAME, LedgerServicer, service_spec
from ledger_svc.settings import LedgerSettings
from ledger_svc.storage.sqlite import SqliteStore


def now_micros() -> int:
    """The time in microseconds since the Unix epoch."""
    return time.time_ns() // 1_000


async def serve(settings: LedgerSettings) -> None:
    """Serve until told to stop, then carry out what is queued."""
    security = load_security(settings, FULL_NAME, METHOD_ROLES)
    ledger = Ledger(SqliteStore.open(settings.database), now_micros)
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
    run_service("ledger", LedgerSettings, serve, argv)


if __name__ == "__main__":
    main()
