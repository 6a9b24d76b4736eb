"""Standard output from a thread of its own: a reader who stops reading never makes the supervision wait."""

import asyncio
import queue
import sys
import threading
from collections.abc import Callable

CANCELLED_SECONDS = 2.0
"""How long a reader has for what is left, once the run was cancelled."""


class Writer:
    """Writes in order; `on_broken` is called once, in the loop, where nobody reads any more.

    What is kept is bounded by what a run may say at all.
    """

    def __init__(self, on_broken: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_broken = on_broken
        self._parts: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._write_all, name="prose-output", daemon=True)
        self._thread.start()

    def put(self, content: bytes) -> None:
        """Write this after all that was put before."""
        self._parts.put(content)

    async def close(self, cancelled: asyncio.Event) -> bool:
        """Wait until all is written, not much longer than until `cancelled`; whether all was."""
        self._parts.put(None)
        ended, ending = (asyncio.ensure_future(event.wait()) for event in (self._ended, cancelled))
        await asyncio.wait({ended, ending}, return_when=asyncio.FIRST_COMPLETED)
        if not self._ended.is_set():
            await asyncio.wait({ended}, timeout=CANCELLED_SECONDS)
        for task in (ended, ending):
            task.cancel()
        return self._ended.is_set()

    def _write_all(self) -> None:
        stream = sys.stdout.buffer
        broken = False
        while (part := self._parts.get()) is not None:
            if broken:
                continue
            try:
                stream.write(part)
                stream.flush()
            except (OSError, ValueError):
                broken = True
                self._loop.call_soon_threadsafe(self._on_broken)
        self._loop.call_soon_threadsafe(self._ended.set)
