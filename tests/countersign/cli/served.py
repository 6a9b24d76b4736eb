"""A real ledger on a file, served in a thread of its own while a command runs in the main thread."""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

from countersign.kit.server import start_server
from ledger_svc.ledger import Ledger
from ledger_svc.service import LedgerServicer, service_spec
from tests.ledger_svc.support import Clock, make_ledger


def with_ledger(path: Path, body: Callable[[Ledger], Coroutine[None, None, None]], clock: Clock | None = None) -> None:
    """Run `body` against a ledger on the file, with nobody else near it."""

    async def run() -> None:
        ledger = make_ledger(path, clock or Clock())
        await body(ledger)
        await ledger.close()

    asyncio.run(run())


@contextmanager
def served(path: Path, clock: Clock | None = None) -> Iterator[tuple[str, str]]:
    """The option that names a ledger on the file, for as long as the context lasts."""
    ready, stop = threading.Event(), asyncio.Event()
    found: list[str] = []
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        # A command's own output is what is looked at, not the service's log.
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
        ledger = make_ledger(path, clock or Clock())
        running = await start_server(service_spec(LedgerServicer(ledger)), "127.0.0.1:0")
        found.append(running.address)
        ready.set()
        await stop.wait()
        await running.stop(0)
        await ledger.close()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    ready.wait()
    try:
        yield ("--ledger", found[0])
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()
        structlog.reset_defaults()
