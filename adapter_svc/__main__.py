"""The adapter's entry: `python -m adapter_svc`, or `countersign-adapter`."""

import asyncio
from collections.abc import Sequence

from adapter_svc import metrics
from adapter_svc.access import METHOD_ROLES
from adapter_svc.attempts import Attempts
from adapter_svc.ledger_client import GrpcLedger
from adapter_svc.routes import HttpProvider
from adapter_svc.routes.observed import ObservedProvider
from adapter_svc.service import FULL_NAME, AdapterServicer, service_spec
from adapter_svc.settings import AdapterSettings
from countersign.kit.channel import open_channel
from countersign.kit.identity import ledger_identity
from countersign.kit.process import run_service
from countersign.kit.security import load_security
from countersign.kit.server import serve_until_stopped, start_server
from countersign.kit.wording import load_wording


async def serve(settings: AdapterSettings) -> None:
    """Serve until told to stop; then let every turn under way leave its receipt or its hold."""
    security = load_security(settings, FULL_NAME, METHOD_ROLES)
    draining = asyncio.Event()
    channel = open_channel(settings.ledger, ledger_identity(settings)) if settings.ledger else None
    ledger = GrpcLedger(channel, settings.ledger_patience_seconds) if channel is not None else None
    attempts = Attempts(ledger, ObservedProvider(HttpProvider())) if ledger is not None else None
    metrics.ATTEMPTS_IN_FLIGHT.follow(lambda: attempts.in_flight if attempts is not None else 0)
    spec = service_spec(AdapterServicer(load_wording(), attempts, draining))
    running = await start_server(spec, settings.listen, draining, security)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_finish_turns(attempts, draining, settings.drain_seconds))
        await serve_until_stopped(running, spec.name, settings.drain_seconds, exit_with_stdin=settings.exit_with_stdin)
    if channel is not None and ledger is not None:
        await ledger.close()
        await channel.close()


async def _finish_turns(attempts: Attempts | None, draining: asyncio.Event, drain_seconds: float) -> None:
    """The server waits for calls under way; a turn whose caller has gone is none, and gets the same time."""
    await draining.wait()
    if attempts is not None:
        await attempts.stop(drain_seconds)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the adapter; exits with status 2 and one line on standard error where it cannot start."""
    run_service("adapter", AdapterSettings, serve, argv)


if __name__ == "__main__":
    main()
