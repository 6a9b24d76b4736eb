"""The caller's signals, from the command's first moment to its last: recorded, never lost, never a traceback.

This module is imported before all others of the command, so it imports little.
"""

import asyncio
import signal
from collections.abc import Callable
from types import FrameType
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruption:
    """What signals have come. One that is not installed hears only what `note` is told."""

    def __init__(self) -> None:
        self._count = 0
        self._listener: Callable[[], None] | None = None
        self._installed: list[signal.Signals] = []

    def install(self) -> None:
        """Record signals from now on; one that this process was started to ignore stays ignored."""
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._handle)
                self._installed.append(number)

    def listen(self, listener: Callable[[], None]) -> None:
        """Tell `listener` in the running loop of every signal from now on, and of each that has come already."""
        loop = asyncio.get_running_loop()
        self._listener = listener
        for number in self._installed:
            loop.add_signal_handler(number, self.note)
        for _ in range(self._count):
            listener()

    def note(self) -> None:
        """A signal came."""
        self._count += 1
        if self._listener is not None:
            self._listener()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.note()
