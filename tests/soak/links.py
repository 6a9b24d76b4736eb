"""The ways between the parties: TCP relays in this process, which a fault cuts, closes, delays or stalls.

`tests.hosts.relay` is one relay in a process of its own, set for each new connection by a file. Here connections that
are under way are disturbed too, and the targets change when the store does.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

PIECE_BYTES = 65_536
DELAY_SECONDS = 0.15
"""How long a piece waits on a delayed link."""

MID_ANSWER_BYTES = 120
"""How much of an answer passes before it is cut off."""

Pipe = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Serve = Callable[["Link", Pipe], Awaitable[None]]


@dataclass
class Link:
    """One way: it listens at a port of loopback and leads to `target` (HOST:PORT or unix:PATH)."""

    name: str
    target: str = ""
    address: str = ""
    refuses: bool = False
    delays: bool = False
    cuts_answers: bool = False
    passes: asyncio.Event = field(default_factory=asyncio.Event)
    connections: int = 0
    serve: Serve | None = None
    """Takes a connection in place of relaying it."""
    _server: asyncio.Server | None = None
    _open: set[asyncio.StreamWriter] = field(default_factory=set)
    _tasks: set["asyncio.Task[None]"] = field(default_factory=set)

    async def start(self) -> None:
        """Listen at a free port, to be kept until the end."""
        self.passes.set()
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.address = f"127.0.0.1:{port}"

    async def stop(self) -> None:
        """Cut everything and listen no more."""
        if self._server is not None:
            self._server.close()
        self.cut()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Reset every connection that is open."""
        for writer in tuple(self._open):
            reset(writer)

    def heal(self) -> None:
        """No fault any more."""
        self.refuses = self.delays = self.cuts_answers = False
        self.passes.set()

    async def connect(self) -> Pipe:
        """A connection to the target. Raises OSError."""
        if self.target.startswith("unix:"):
            return await asyncio.open_unix_connection(self.target.removeprefix("unix:"), limit=PIECE_BYTES)
        host, _, port = self.target.rpartition(":")
        return await asyncio.open_connection(host, int(port), limit=PIECE_BYTES)

    async def hold_up(self) -> None:
        """Wait as the link's fault has it, before a piece of data goes on."""
        if self.delays:
            await asyncio.sleep(DELAY_SECONDS)
        await self.passes.wait()

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.get_running_loop().create_task(self._taken((reader, writer)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _taken(self, client: Pipe) -> None:
        if self.refuses:
            reset(client[1])
            return
        self._open.add(client[1])
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                await (self.serve(self, client) if self.serve is not None else self._relay(client))
        finally:
            self._open.discard(client[1])
            client[1].close()

    async def _relay(self, client: Pipe) -> None:
        # The target may be on its way back: whoever connects is then told so, as by a closed port.
        try:
            target = await self.connect()
        except OSError:
            reset(client[1])
            return
        self._open.add(target[1])
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._copy(client[0], target[1], answers=False))
                group.create_task(self._copy(target[0], client[1], answers=True))
        except* OSError:
            pass
        finally:
            self._open.discard(target[1])
            reset(target[1])

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool) -> None:
        while piece := await reader.read(PIECE_BYTES):
            await self.hold_up()
            if answers and self.cuts_answers:
                writer.write(piece[: min(MID_ANSWER_BYTES, len(piece) - 1)])
                with suppress(OSError):
                    await writer.drain()
                raise ConnectionAbortedError
            writer.write(piece)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


def reset(writer: asyncio.StreamWriter) -> None:
    """Close the connection without a goodbye."""
    transport = writer.transport
    raw = transport.get_extra_info("socket")
    if raw is not None and raw.family != socket.AF_UNIX:
        with suppress(OSError):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    transport.abort()
