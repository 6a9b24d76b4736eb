"""Running a command under signals: SIGINT and SIGTERM end it cleanly, with status 128 + the number of the signal."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(Exception):
    """A signal ended the command; `exit_status` is 130 for SIGINT, 143 for SIGTERM."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_status = 128 + number


@dataclass(slots=True)
class Interruption:
    """What a signal does. While `patient`, the first one only sets `event`; any other cancels the command."""

    event: asyncio.Event = field(default_factory=asyncio.Event)
    patient: bool = False
    number: int | None = None

    def raise_if_set(self) -> None:
        """Raise Interrupted where a signal has come."""
        if self.number is not None:
            raise Interrupted(self.number)


def run(body: Callable[[Interruption], Awaitable[T]]) -> T:
    """Run `body` to its end. Raises Interrupted where a signal cancelled it; what it opened is closed by then."""
    return asyncio.run(_run(body))


async def _run(body: Callable[[Interruption], Awaitable[T]]) -> T:
    interruption = Interruption()
    task = asyncio.ensure_future(body(interruption))
    loop = asyncio.get_running_loop()

    def on_signal(number: int) -> None:
        first, interruption.number = interruption.number is None, interruption.number or number
        interruption.event.set()
        if not (first and interruption.patient):
            task.cancel()

    for number in SIGNALS:
        loop.add_signal_handler(number, on_signal, number)
    try:
        return await task
    except asyncio.CancelledError:
        interruption.raise_if_set()
        raise
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
