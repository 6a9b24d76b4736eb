"""Running one of these servers as a process: announce, stop on a signal, never outlive the parent."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from enum import StrEnum
from typing import TextIO

from countersign.agents.errors import AgentError, NotLoopbackError
from countersign.agents.http_server import require_loopback

_PARENT_POLL_SECONDS = 0.2


class Service(StrEnum):
    """What announces itself."""

    LOCAL_MODEL = "local_model"
    TOOL_FRONT = "tool_front"
    SCRIPTED_AGENT = "scripted_agent"


def parse_address(text: str) -> tuple[str, int]:
    """Read host:port ([host]:port for IPv6). Raises NotLoopbackError for anything but loopback and a port."""
    host, separator, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (separator and port.isascii() and port.isdigit() and int(port) < 65_536):
        raise NotLoopbackError(f"{text!r} is not an address such as 127.0.0.1:0")
    require_loopback(host)
    return host, int(port)


def announce(service: Service, address: str, out: TextIO | None = None) -> None:
    """Print the one JSON line that says `service` is ready at `address`, and flush it."""
    line = {"event": "listening", "service": service.value, "address": address}
    _write_line(json.dumps(line, separators=(",", ":")), out or sys.stdout)


def complain(error: AgentError, err: TextIO | None = None) -> None:
    """Print `error` as one line on standard error."""
    _write_line(f"error: {error}", err or sys.stderr)


def _write_line(line: str, stream: TextIO) -> None:
    stream.write(f"{line}\n")
    stream.flush()


@asynccontextmanager
async def stop_event(parent_pid: int | None) -> AsyncIterator[asyncio.Event]:
    """An event that SIGTERM, SIGINT or the parent's death sets.

    `parent_pid` is the parent as it was when the process began (None: do not watch). Polling it needs no help from
    the parent, and unlike a parent-death signal it does not fire when only the thread that spawned this process
    ends.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)
    for number in signals:
        loop.add_signal_handler(number, stop.set)
    watcher = loop.create_task(_watch_parent(parent_pid, stop)) if parent_pid is not None else None
    try:
        yield stop
    finally:
        if watcher is not None:
            watcher.cancel()
        for number in signals:
            loop.remove_signal_handler(number)


async def _watch_parent(parent_pid: int, stop: asyncio.Event) -> None:
    while not stop.is_set():
        if os.getppid() != parent_pid:
            stop.set()
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), _PARENT_POLL_SECONDS)
