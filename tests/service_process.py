"""A service's own process: it says where it listens, and is ended by SIGTERM."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.conftest import PROJECT_ROOT


@dataclass
class ServiceProcess:
    """A running service and its address."""

    running: asyncio.subprocess.Process
    address: str

    async def stopped(self) -> int:
        """Ask it to stop; its exit status."""
        if self.running.returncode is None:
            self.running.send_signal(signal.SIGTERM)
        return await self.running.wait()

    async def ended_with_stdin(self) -> int:
        """End its standard input; its exit status."""
        assert self.running.stdin is not None
        self.running.stdin.close()
        return await self.running.wait()


@asynccontextmanager
async def service_process(name: str, *arguments: str) -> AsyncIterator[ServiceProcess]:
    """`python -m NAME_svc ARGUMENTS`, announced and answering; it ends with status 0."""
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", f"{name}_svc", *arguments),
        cwd=PROJECT_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert running.stdout is not None
    announced = json.loads(await running.stdout.readline())
    assert (announced["event"], announced["service"]) == ("listening", name)
    process = ServiceProcess(running, announced["address"])
    try:
        yield process
    finally:
        assert await process.stopped() == 0


def complaint(name: str, *arguments: str) -> str:
    """What a service that cannot start says; asserts that it is one line, and status 2."""
    run = subprocess.run(
        [sys.executable, "-m", f"{name}_svc", *arguments], cwd=PROJECT_ROOT, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout) == (2, ""), run.stderr
    (line,) = run.stderr.splitlines()
    start = f"{name}: "
    assert line.startswith(start)
    return line.removeprefix(start)
