"""The processes of a soak: each in a process group of its own, killed, frozen and started again at its address."""

import asyncio
import json
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.conftest import PROJECT_ROOT

START_SECONDS = 60.0
AGAIN_SECONDS = 0.5
STOP_SECONDS = 90.0
"""An adapter that is asked to stop lets its turns end, and then tries for 30 s to tell the ledger of the rest."""

STOPPED_STATUSES = (0, -signal.SIGTERM)
"""How a service may end that is asked to: by itself, or by the signal where it does not listen yet."""

_PORTS = range(20_000, 32_000)
"""Below the ports that the kernel gives to connections going out: one may come back while its owner is down."""

running: set[int] = set()
"""Every process group that was started and has not ended; whatever happens, none may outlive the soak."""


def kill_all() -> None:
    """End every process group of the soak at once."""
    for group in tuple(running):
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


def free_port() -> int:
    """A port of loopback at which nobody listens."""
    # Any, and not the first: the owner of that one may be another soak's, and down for a moment.
    for port in random.SystemRandom().sample(_PORTS, 100):
        with socket.socket() as one, suppress(OSError):
            one.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no free port")


def python(module: str, *arguments: object) -> list[str]:
    """The command that runs a module of this project."""
    return [*guard(), sys.executable, "-m", module, *map(str, arguments)]


def guard() -> list[str]:
    """What runs a command so that it ends with this process, however that ends; nothing where there is no setpriv."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL"] if setpriv is not None else []


async def begin(command: Sequence[str], log: Path, out: int | Path) -> asyncio.subprocess.Process:
    """Start a command in a process group of its own; `out` is where its standard output goes."""
    environment = {**os.environ, "PYTHONPATH": str(PROJECT_ROOT)}
    with log.open("ab") as errors:
        stdout = out if isinstance(out, int) else out.open("wb")
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=subprocess.PIPE,
                stdout=stdout,
                stderr=errors,
                env=environment,
                cwd=PROJECT_ROOT,
                start_new_session=True,
            )
        finally:
            if not isinstance(stdout, int):
                stdout.close()
    running.add(process.pid)
    return process


async def ended(process: asyncio.subprocess.Process) -> int:
    """The exit status, once it has ended; what it left in its group ends with it."""
    status = await process.wait()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    running.discard(process.pid)
    if process.stdin is not None:
        process.stdin.close()
    return status


@dataclass
class Service:
    """One long-running process that announces itself."""

    name: str
    command: list[str]
    log: Path
    starts: int = 0
    process: asyncio.subprocess.Process | None = None
    is_stopping: bool = False
    is_paused: bool = False
    busy: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a fault has it: one fault at a time."""

    @property
    def pid(self) -> int | None:
        """Its process, while it runs."""
        return None if self.process is None else self.process.pid

    async def start(self) -> None:
        """Start, and wait until it says that it listens. Raises RuntimeError with what it said where it does not."""
        self.is_stopping = self.is_paused = False
        self.process = await begin(self.command, self.log, subprocess.PIPE)
        self.starts += 1
        assert self.process.stdout is not None
        line = await asyncio.wait_for(self.process.stdout.readline(), START_SECONDS)
        if not line:
            raise RuntimeError(f"{self.name} did not start: {self.log.read_text()[-2000:]}")
        assert json.loads(line)["event"] == "listening"

    async def come_back(self) -> None:
        """Start, again and again, as a supervisor would: a ledger whose database is away cannot start.

        Raises RuntimeError where it does not start in time.
        """
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                return await self.start()
            except RuntimeError:
                assert self.process is not None
                self.is_stopping = True
                await ended(self.process)
                if time.monotonic() > end:
                    raise
            await asyncio.sleep(AGAIN_SECONDS)

    def died(self) -> int | None:
        """The exit status where it ended and nobody had asked for that."""
        return None if self.process is None or self.is_stopping else self.process.returncode

    async def kill(self) -> None:
        """End it at once, as a crash would."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> int:
        """Ask it to stop; its exit status."""
        if self.process is None:
            return 0
        self.resume()
        return await self._end(signal.SIGTERM)

    async def _end(self, number: signal.Signals) -> int:
        assert self.process is not None
        self.is_stopping = True
        with suppress(ProcessLookupError):
            self.process.send_signal(number)
        status = await asyncio.wait_for(ended(self.process), STOP_SECONDS)
        self.process = None
        return status

    def pause(self) -> None:
        """Freeze it where it is."""
        self.is_paused = True
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self.is_paused = False
        self._signal(signal.SIGCONT)

    def fill_disk(self, *, full: bool) -> None:
        """Whether every write of it to a file fails from now on."""
        if self.process is not None and self.process.returncode is None:
            _, hard = resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (0 if full else hard, hard))

    def _signal(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.send_signal(number)
