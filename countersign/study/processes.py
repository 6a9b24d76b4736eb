"""Child processes: started one by one, announced by a JSON line, stopped in the reverse order, never left behind.

Each child has a standard input of its own that ends when this process does (and, where another child leans on it, not
before that one has ended too), a session of its own so that a Ctrl-C at
the terminal reaches this process alone, and a log file. Nothing here forks by itself: a child begins by exec, so a
process that runs gRPC may start one (design/field-reports.md, gRPC in Python).
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from countersign.study.errors import ProcessFailed
from countersign.study.files import make_folder

START_SECONDS = 120.0
"""How long a child may take until it listens; a local model loads its weights."""

STOP_SECONDS = 30.0
"""How long a child may drain before it is killed; longer than a service's own drain."""

_TAIL_BYTES = 8192


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """What to start: `python -m MODULE ARGUMENTS`. It is ready once it has announced every service in `awaited`.

    It keeps the standard input of the children named in `leans_on` open: where this process is killed, they outlive it.
    """

    name: str
    module: str
    arguments: tuple[str, ...]
    awaited: tuple[str, ...]
    leans_on: tuple[str, ...] = ()


@dataclass(slots=True)
class Child:
    """A running child; `addresses` are what it announced, by service."""

    spec: ChildSpec
    process: asyncio.subprocess.Process
    log_path: Path
    addresses: Mapping[str, str] = field(default_factory=dict)
    stopping: bool = False
    tasks: list["asyncio.Task[None]"] = field(default_factory=list)

    @property
    def address(self) -> str:
        """Where the last awaited service listens."""
        return self.addresses[self.spec.awaited[-1]]


class Household:
    """The children of one command, stopped in the reverse order of their start when the context ends.

    `on_death` is called with one line when a child ends that nobody stopped.
    """

    def __init__(self, log_folder: Path, on_death: Callable[[str], None]) -> None:
        self._log_folder = log_folder
        self._on_death = on_death
        self._children: list[Child] = []

    async def __aenter__(self) -> Self:
        make_folder(self._log_folder)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.shield(asyncio.ensure_future(self.stop()))

    async def start(self, spec: ChildSpec) -> Child:
        """Start a child and wait until it listens. Raises ProcessFailed with the last line of what it said."""
        log_path = self._log_folder / f"{spec.name}.log"
        log_start = log_path.stat().st_size if log_path.exists() else 0
        kept = [_input_of(other) for other in self._children if other.spec.name in spec.leans_on]
        child = Child(spec, await _spawn(spec, log_path, kept), log_path)
        self._children.append(child)
        try:
            await asyncio.wait_for(_await_ready(child), START_SECONDS)
        except TimeoutError:
            raise ProcessFailed(
                f"the {spec.name} did not listen within {START_SECONDS:.0f} s: see {log_path}"
            ) from None
        except EOFError:
            child.stopping = True
            raise ProcessFailed(f"the {spec.name} did not start: {_last_words(log_path, log_start)}") from None
        child.tasks = [asyncio.create_task(_drain(child)), asyncio.create_task(self._watch(child))]
        return child

    async def stop(self) -> None:
        """Stop every child, last started first: ask, wait, then kill."""
        while self._children:
            await _stop(self._children[-1])
            self._children.pop()

    async def _watch(self, child: Child) -> None:
        status = await child.process.wait()
        if not child.stopping:
            self._on_death(f"the {child.spec.name} ended with status {status}: see {child.log_path}")


def _input_of(child: Child) -> int:
    """The descriptor of our end of the child's standard input."""
    assert child.process.stdin is not None
    return int(child.process.stdin.get_extra_info("pipe").fileno())


async def _spawn(spec: ChildSpec, log_path: Path, kept: Sequence[int]) -> asyncio.subprocess.Process:
    with log_path.open("ab") as log:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            spec.module,
            *spec.arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            start_new_session=True,
            pass_fds=kept,
        )


async def _await_ready(child: Child) -> None:
    """Read announcements until all that are awaited have come. Raises EOFError where the child ends before."""
    assert child.process.stdout is not None
    addresses: dict[str, str] = {}
    while not set(child.spec.awaited) <= set(addresses):
        line = await child.process.stdout.readline()
        if not line:
            raise EOFError
        with contextlib.suppress(ValueError, TypeError, KeyError):
            announcement = json.loads(line)
            if announcement["event"] == "listening":
                addresses[announcement["service"]] = announcement["address"]
    child.addresses = addresses


async def _drain(child: Child) -> None:
    """Read on, so that a child that says more never waits for us."""
    assert child.process.stdout is not None
    while await child.process.stdout.read(65_536):
        pass


async def _stop(child: Child) -> None:
    child.stopping = True
    with contextlib.suppress(ProcessLookupError):
        child.process.send_signal(signal.SIGTERM)
    try:
        await asyncio.wait_for(child.process.wait(), STOP_SECONDS)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            child.process.kill()
        await child.process.wait()
    if child.process.stdin is not None:
        child.process.stdin.close()
    await asyncio.gather(*child.tasks, return_exceptions=True)


def _last_words(log_path: Path, start: int) -> str:
    """The last line that the child wrote to its log since `start`."""
    with log_path.open("rb") as log:
        size = log.seek(0, os.SEEK_END)
        log.seek(max(start, size - _TAIL_BYTES))
        lines = log.read().decode("utf-8", "replace").strip().splitlines()
    return lines[-1].strip() if lines else f"it said nothing, see {log_path}"
