"""The commands of a page's section, each block for the machines that its first line names, and machines to run them on.

A machine has a network, a host name, an /etc/hosts and a home of its own; the rest of the file system is this one's.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import PROJECT_ROOT
from tests.hosts.network import Host, Running, network
from tests.hosts.standins import CHECKOUT, MACHINES, MAKE

REPOSITORY = "https://git.example/countersign.git"
"""Where the page clones from: stands for this checkout."""

BLOCK_SECONDS = 200
EVERYWHERE = "every machine"
_LABEL = re.compile(r"# on (?P<machines>.+?)(?P<long>, and leave it running)?\n")
_ENTER = 'mount --bind "$1" "$HOME" && mount --bind "$2" /etc/hosts && hostname "$3" && cd && shift 3 && exec "$@"'
_OWN = ("unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc")


@dataclass(frozen=True, slots=True)
class Block:
    """Commands for one machine or several, which go on until they are stopped where they are `long`."""

    machines: tuple[str, ...]
    long: bool
    commands: str


def read_blocks(page: Path, section: str) -> list[Block]:
    """The shell blocks of a section in their order. Every one must say where it runs."""
    (text,) = re.findall(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", page.read_text(), re.DOTALL | re.MULTILINE)
    return [_block(found) for found in re.findall(r"^```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)]


def _block(commands: str) -> Block:
    label = _LABEL.match(commands)
    assert label is not None, f"not said where: {commands}"
    return Block(tuple(label["machines"].split(" and ")), label["long"] is not None, commands)


class Machines:
    """Machines on one network, and what runs on them."""

    def __init__(self, folder: Path, hosts: dict[str, Host]) -> None:
        self._hosts = hosts
        self._homes, self._home, self._names = folder / "machines", folder / "home", folder / "hosts"
        self._logs = folder / "logs"
        for made in (self._homes, self._home, self._logs, *(self._homes / name for name in hosts)):
            made.mkdir()
        lines = [f"{host.address} {name}" for name, host in hosts.items()]
        self._names.write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))
        # One small pack, for every machine to clone from.
        origin = folder / "origin.git"
        depth = ("--bare", "--quiet", "--depth", "1")
        subprocess.run(["git", "clone", *depth, f"file://{PROJECT_ROOT}", origin], check=True, timeout=BLOCK_SECONDS)
        git = f'[safe]\n\tdirectory = *\n[url "{origin}"]\n\tinsteadOf = {REPOSITORY}\n'
        for name in hosts:
            self.home(name).joinpath(".gitconfig").write_text(git)
        self._environment = self._make_environment(folder / "bin")
        self.running: list[Running] = []

    def home(self, machine: str) -> Path:
        """The home of a machine, seen from outside."""
        return self._homes / machine

    def run(self, block: Block) -> str:
        """Run a block on each of its machines; long ones until they say that they listen. What the others print."""
        names = list(self._hosts) if block.machines == (EVERYWHERE,) else block.machines
        if not block.long:
            with ThreadPoolExecutor() as pool:
                return "".join(pool.map(lambda name: self.must(name, block.commands), names))
        for name in names:
            number = len(self.running)
            command = self._command(name, block.commands)
            self.running.append(Running(f"{number} on {name}", command, self._logs / f"{number}.log", announces=True))
            self.running[-1].start()
        return ""

    def must(self, machine: str, commands: str) -> str:
        """What commands print on a machine; all of them must succeed."""
        ran = self.try_out(machine, commands)
        assert ran.returncode == 0, f"on {machine}: {commands}\n{ran.stdout}\n{ran.stderr}\n{self.said()}"
        return ran.stdout

    def try_out(self, machine: str, commands: str) -> "subprocess.CompletedProcess[str]":
        """Run commands on a machine, whatever comes of them."""
        command = self._command(machine, commands)
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=BLOCK_SECONDS)

    def stop(self) -> list[int]:
        """Let what runs end by SIGTERM, the last first; their exit statuses."""
        return [_end(self.running.pop()) for _ in range(len(self.running))]

    def kill(self) -> None:
        """Leave nothing running."""
        for one in reversed(self.running):
            one.kill()

    def said(self) -> str:
        """What every long-running program logged."""
        return "".join(path.read_text() for path in sorted(self._logs.iterdir()))

    def _command(self, machine: str, commands: str) -> list[str]:
        enter = ("sh", "-c", _ENTER, "enter", self._homes / machine, self._names, machine)
        environment = ("env", "-i", *(f"{name}={value}" for name, value in self._environment.items()))
        return self._hosts[machine].command(*environment, *_OWN, *enter, "bash", "-eu", "-c", commands)

    def _make_environment(self, stand_ins: Path) -> dict[str, str]:
        stand_ins.mkdir()
        for name in ("make", "scp"):
            path = stand_ins / name
            # By its path and with -P: nothing of the working directory, a clone, comes before the standard library.
            program = f"{sys.executable} -P {Path(__file__).with_name('standins.py')} {name}"
            path.write_text(f'#!/bin/sh\nexec {program} "$@"\n')
            path.chmod(0o755)
        python = Path(sys.base_prefix) / "bin"
        return {
            "PATH": f"{stand_ins}:{python}:{os.environ['PATH']}",
            "HOME": str(self._home),
            "LANG": "C.UTF-8",
            MACHINES: str(self._homes),
            CHECKOUT: str(PROJECT_ROOT),
            MAKE: shutil.which("make") or "make",
        }


def _end(one: Running) -> int:
    """Send SIGTERM to the program itself, below whatever started it, as systemd or a terminal would; its status."""
    assert one.process is not None
    os.kill(_descendants(one.process.pid)[-1], signal.SIGTERM)
    status = one.process.wait(BLOCK_SECONDS)
    one.kill()
    return status


def _descendants(process: int) -> list[int]:
    found = [process]
    while children := Path(f"/proc/{found[-1]}/task/{found[-1]}/children").read_text().split():
        found.append(int(children[-1]))
    return found


@contextmanager
def machines(folder: Path, names: list[str]) -> Iterator[Machines]:
    """Machines of which nothing runs on afterwards."""
    with network() as net:
        made = Machines(folder, {name: net.add(name) for name in names})
        try:
            yield made
        finally:
            made.kill()
