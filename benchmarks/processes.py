"""What a measurement starts and ends: servers, a PostgreSQL cluster of its own, and a slower disk."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
PROJECT_ROOT = HERE.parent
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Server:
    """A started server: where it listens, and the processes whose CPU time is its own."""

    address: str
    roots: tuple[int, ...]

    def cpu_seconds(self) -> float:
        """The CPU time so far of its processes and of all that they started."""
        return sum(_cpu_seconds(pid) for pid in _trees(self.roots))


def _cpu_seconds(pid: int) -> float:
    """User, system and that of children that have ended; 0 where the process is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(value) for value in fields[11:15]) / _TICKS


def _trees(roots: Sequence[int]) -> set[int]:
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = set(roots)
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def slow_disk(folder: Path, delay_micros: int) -> dict[str, str]:
    """The environment of processes whose every flush takes so much longer; compiles the shim into `folder`."""
    if delay_micros == 0:
        return {}
    library = folder / "slow_flush.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, HERE / "slow_flush.c", "-ldl"], check=True)
    library.chmod(0o755)
    return {"LD_PRELOAD": str(library), "FLUSH_DELAY_MICROS": str(delay_micros)}


@contextmanager
def server(module: str, arguments: Sequence[str], environment: Mapping[str, str], *more: int) -> Iterator[Server]:
    """A Python module that announces where it listens; `more` are processes whose work is the server's too."""
    running = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=PROJECT_ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert running.stdout is not None
        yield Server(json.loads(running.stdout.readline())["address"], (running.pid, *more))
    finally:
        running.terminate()
        running.wait(60)


def postgres_programs() -> Path | None:
    """The folder of the newest PostgreSQL's programs, or None."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    return found[-1].parent if found else None


@contextmanager
def postgres(folder: Path, environment: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    """A cluster of its own on a Unix socket, with durable commits; its connection string and its first process."""
    programs = postgres_programs()
    assert programs is not None
    # PostgreSQL refuses to run as root.
    user = "postgres" if os.geteuid() == 0 else None
    data = folder / "pg"
    data.mkdir()
    if user is not None:
        shutil.chown(data, user)
    initdb = [str(programs / "initdb"), "-D", str(data / "d"), "-A", "trust", "-U", "bench", "--no-sync"]
    subprocess.run(initdb, user=user, check=True, capture_output=True)
    options = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={data}", "-c", "shared_buffers=256MB"]
    running = subprocess.Popen(
        [str(programs / "postgres"), "-D", str(data / "d"), *options],
        user=user,
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        dsn = f"host={data} user=bench dbname=postgres"
        while subprocess.run([programs / "pg_isready", "-q", "-h", data, "-U", "bench"], check=False).returncode:
            assert running.poll() is None, "PostgreSQL did not start"
        yield dsn, running.pid
    finally:
        # The fast way: it does not wait for its clients to leave.
        running.send_signal(signal.SIGINT)
        running.wait(60)
