"""The clock of a ledger that keeps its books in a file (docs/ledger.md, Leases, late receipts and clocks)."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

LATEST_MICROS = 253_402_300_799_999_999
"""The last moment of the year 9999: a time beyond it is damage, no time."""


def wall_nanos() -> int:
    """The machine's date, in nanoseconds since the Unix epoch."""
    return time.time_ns()


def elapsed_nanos() -> int:
    """Nanoseconds since some moment, which no setting of the date changes; sleep of the machine counts where it can."""
    # Linux alone has it; elsewhere a machine that slept lets its leases last that much longer.
    boot = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(boot)


@dataclass(slots=True)
class SteadyClock:
    """The machine's date when the clock was made, and what has elapsed since; called, it gives microseconds.

    It begins no earlier than at `floor_micros`, the latest time that the books hold, so that they never go back. A date
    that is set meanwhile, forward or back, changes nothing.
    """

    floor_micros: int
    wall: Callable[[], int] = wall_nanos
    elapsed: Callable[[], int] = elapsed_nanos
    _start_micros: int = field(init=False)
    _start_nanos: int = field(init=False)

    def __post_init__(self) -> None:
        floor = self.floor_micros if 0 <= self.floor_micros <= LATEST_MICROS else 0
        self._start_micros = max(self.wall() // 1_000, floor)
        self._start_nanos = self.elapsed()

    def __call__(self) -> int:
        """Microseconds since the Unix epoch."""
        return self._start_micros + (self.elapsed() - self._start_nanos) // 1_000
