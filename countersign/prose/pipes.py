"""The child's three pipes: each read to its end whatever happens, none able to make this process wait."""

import asyncio
import contextlib
import hashlib
import os
from typing import IO, Final

CHUNK_BYTES: Final = 64 * 1024
STDERR_TAIL_BYTES: Final = 16 * 1024


async def open_reader(pipe: IO[bytes]) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
    """A reader of our end of a pipe; closing the transport closes the pipe."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(CHUNK_BYTES, loop=loop)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader, loop=loop), pipe)
    return reader, transport


class Tail:
    """What was said on standard error: the last of it, its length and its digest; never more in memory."""

    def __init__(self) -> None:
        self._last = b""
        self._digest = hashlib.sha256()
        self.count = 0

    async def drain(self, reader: asyncio.StreamReader) -> None:
        """Read to the end."""
        while data := await reader.read(CHUNK_BYTES):
            self.count += len(data)
            self._digest.update(data)
            self._last = (self._last + data)[-STDERR_TAIL_BYTES:]

    @property
    def digest(self) -> str:
        """SHA-256 of all of it."""
        return self._digest.hexdigest()

    @property
    def text(self) -> str:
        """The last of it, as text."""
        return self._last.decode("utf-8", "replace")


async def write_input(pipe: IO[bytes], content: bytes) -> None:
    """Write all of it and close the pipe; a child that does not read it, or has ended, is no error."""
    loop = asyncio.get_running_loop()
    descriptor = pipe.fileno()
    os.set_blocking(descriptor, False)
    try:
        with contextlib.suppress(BrokenPipeError):
            while content:
                content = content[await _write_some(loop, descriptor, content) :]
    finally:
        pipe.close()


async def _write_some(loop: asyncio.AbstractEventLoop, descriptor: int, content: bytes) -> int:
    try:
        return os.write(descriptor, content[:CHUNK_BYTES])
    except BlockingIOError:
        ready = loop.create_future()
        loop.add_writer(descriptor, _set, ready)
        try:
            await ready
        finally:
            loop.remove_writer(descriptor)
        return 0


def _set(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)
