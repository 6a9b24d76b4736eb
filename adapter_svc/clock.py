"""Time as the adapter's waiting sees it, so that a test can wait without waiting."""

import asyncio
from typing import Protocol


class Clock(Protocol):
    """Seconds since some moment; they never go back, whatever becomes of the machine's date."""

    def now(self) -> float:
        """How many there are now."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let them pass."""
        ...


class LoopClock:
    """The running event loop's own clock."""

    def now(self) -> float:
        """See `Clock.now`."""
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        """See `Clock.sleep`."""
        await asyncio.sleep(seconds)
