"""Whose processes are there: read from /proc, and signalled without ever hitting a recycled number (section 6).

A run's members are the child's group and session, whatever descends from it, and whatever has the invocation's id in
its environment. This process is made the *subreaper* while a child runs: an orphan in a session of its own then has it
as its parent, so that the chain of parents is not cut. A zombie is not alive, and not counted.
"""

import contextlib
import ctypes
import os
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

_PROC: Final = "/proc"
_SET_CHILD_SUBREAPER: Final = 36
_DEAD_STATES: Final = frozenset("ZXx")


@dataclass(frozen=True, slots=True)
class Process:
    """One line of the table. `started` tells a number's present owner from a former one."""

    pid: int
    state: str
    parent: int
    group: int
    session: int
    started: int

    @property
    def alive(self) -> bool:
        """Whether it may still do something."""
        return self.state not in _DEAD_STATES


class Members:
    """The members of one run. `own` is this process; its children of before are not the run's."""

    def __init__(self, leader: int, marker: bytes, own: int, others: frozenset[int]) -> None:
        self._leader = leader
        self._marker = marker
        self._own = own
        self._others = others
        self._known: set[tuple[int, int]] = set()

    def alive(self) -> list[Process]:
        """All that are alive now, the child itself among them. Reaps the orphans of the run that have ended."""
        table = {process.pid: process for process in read_table()}
        found = self._found(table)
        self._known |= {(table[pid].pid, table[pid].started) for pid in found}
        for pid in found:
            process = table[pid]
            if not process.alive and process.parent == self._own and pid != self._leader:
                _reap(pid)
        return [table[pid] for pid in sorted(found) if table[pid].alive]

    def _found(self, table: dict[int, Process]) -> set[int]:
        found = {pid for pid, process in table.items() if self._is_member(process)}
        while True:
            more = {pid for pid, one in table.items() if pid not in found and one.parent in found and pid != self._own}
            if not more:
                return found
            found |= more

    def _is_member(self, process: Process) -> bool:
        if process.pid == self._own or process.pid in self._others:
            return False
        if self._leader in (process.pid, process.group, process.session) or process.parent == self._own:
            return True
        return (process.pid, process.started) in self._known or self._is_marked(process.pid)

    def _is_marked(self, pid: int) -> bool:
        try:
            with open(f"{_PROC}/{pid}/environ", "rb") as file:
                return self._marker in file.read()
        except OSError:
            return False


def read_table() -> Iterator[Process]:
    """Every process that can be seen."""
    for name in os.listdir(_PROC):
        if name.isdigit():
            process = read_process(int(name))
            if process is not None:
                yield process


def read_process(pid: int) -> Process | None:
    """One process, or None where it is gone."""
    try:
        with open(f"{_PROC}/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    # The name stands in parentheses and may hold any character, a parenthesis too.
    fields = text[text.rindex(b")") + 2 :].split()
    return Process(pid, fields[0].decode(), int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))


def children_of(parent: int) -> frozenset[int]:
    """The children that a process has now."""
    return frozenset(process.pid for process in read_table() if process.parent == parent)


def send(processes: Iterable[Process], number: signal.Signals) -> int:
    """Send a signal to each that is still the one that was seen; how many it reached."""
    return sum(_send(process, number) for process in processes)


def _send(process: Process, number: signal.Signals) -> bool:
    try:
        descriptor = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        now = read_process(process.pid)
        if now is None or now.started != process.started:
            return False
        signal.pidfd_send_signal(descriptor, number)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _reap(pid: int) -> None:
    with contextlib.suppress(OSError):
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG)


def set_subreaper(on: bool) -> bool:
    """Become, or no longer be, the parent of orphans among one's descendants; whether the system did so."""
    return bool(ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, int(on), 0, 0, 0) == 0)


def is_supported() -> bool:
    """Whether this system has what supervision needs."""
    return os.path.exists(f"{_PROC}/self/stat") and hasattr(os, "pidfd_open")
