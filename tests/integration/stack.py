"""The real services as processes on Unix sockets, so that each can be killed and comes back at the same address."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

STOP_SECONDS = 30


@dataclass
class Process:
    """One process that announces itself; `kill` is SIGKILL."""

    name: str
    module: str
    arguments: list[str]
    log: Path
    root: Path | None = None
    """The tree whose code it runs; None for the one under test."""

    running: "subprocess.Popen[bytes] | None" = None
    address: str = ""

    def start(self) -> None:
        """Start and wait for the announcement; fails with what the process said."""
        with self.log.open("ab") as log:
            self.running = subprocess.Popen(
                [sys.executable, "-m", self.module, *self.arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self.root,
                env=environment_of(self.root),
            )
        assert self.running.stdout is not None
        line = self.running.stdout.readline()
        assert line, f"{self.name} did not start: {self.log.read_text()[-2000:]}"
        self.address = json.loads(line)["address"]

    def kill(self) -> None:
        """End it at once, as a crash would."""
        assert self.running is not None
        self.running.kill()
        self._reap()

    def stop(self) -> int:
        """Ask it to stop; its exit status."""
        if self.running is None:
            return 0
        self.running.send_signal(signal.SIGTERM)
        return self._reap()

    def _reap(self) -> int:
        assert self.running is not None
        status = self.running.wait(STOP_SECONDS)
        for stream in (self.running.stdin, self.running.stdout):
            if stream is not None:
                stream.close()
        self.running = None
        return status


def environment_of(root: Path | None) -> dict[str, str] | None:
    """The environment in which a child imports the code of the tree `root`; None leaves it as it is."""
    return None if root is None else {**os.environ, "PYTHONPATH": str(root)}


@dataclass
class Stack:
    """Ledger, adapter and verifier in a folder of their own; start any again at its address after `kill`."""

    folder: Path
    root: Path | None = None
    ledger: Process = field(init=False)
    adapter: Process = field(init=False)
    verifier: Process = field(init=False)

    def __post_init__(self) -> None:
        ledger = f"unix:{self.folder}/l.sock"
        self.database = self.folder / "ledger.db"
        self.ledger = self._service("ledger", "l", ["--database", str(self.database), "--sweep-seconds", "0.2"])
        self.adapter = self._service("adapter", "a", ["--ledger", ledger, "--drain-seconds", "5"])
        self.verifier = self._service("verifier", "v", ["--ledger", ledger])

    def _service(self, name: str, socket: str, arguments: list[str]) -> Process:
        listen = ["--listen", f"unix:{self.folder}/{socket}.sock", "--exit-with-stdin"]
        return Process(name, f"{name}_svc", [*listen, *arguments], self.folder / f"{name}.log", self.root)

    @property
    def processes(self) -> tuple[Process, ...]:
        """In the order of their start."""
        return (self.ledger, self.adapter, self.verifier)

    def addresses(self) -> list[str]:
        """The options by which `countersign collect` finds the services."""
        return [part for process in self.processes for part in (f"--{process.name}", process.address)]


@contextmanager
def running_stack(root: Path | None = None) -> Iterator[Stack]:
    """A started stack of the code in `root`, stopped at the end.

    A short folder name: a Unix socket's path has at most 107 bytes.
    """
    with tempfile.TemporaryDirectory(prefix="cs-") as name:
        stack = Stack(Path(name), root)
        try:
            for process in stack.processes:
                process.start()
            yield stack
        finally:
            for process in reversed(stack.processes):
                process.stop()


@contextmanager
def scripted_agent(folder: Path, policy: str, *options: str) -> Iterator[Process]:
    """The scripted agent as a process that logs every request on the wire to `folder`/wire.jsonl."""
    arguments = ["--listen", "127.0.0.1:0", "--policy", policy, "--log", str(folder / "wire.jsonl"), *options]
    agent = Process("agent", "countersign.agents.scripted", arguments, folder / "agent.log")
    agent.start()
    try:
        yield agent
    finally:
        agent.stop()
