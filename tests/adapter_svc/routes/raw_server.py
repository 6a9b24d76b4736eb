"""A provider on this machine, by raw sockets: it does what a script says, and counts what reaches it."""

import asyncio
import fcntl
import socket
import ssl
import struct
import termios
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

LINGER_NOT = struct.pack("ii", 1, 0)
"""SO_LINGER: closing drops what is not sent yet, and resets the connection."""


def plain_answer(body: bytes, *, status: str = "200 OK", headers: str = "", length: int | None = None) -> bytes:
    """An answer with a Content-Length, its own or `length`."""
    size = len(body) if length is None else length
    return f"HTTP/1.1 {status}\r\nContent-Length: {size}\r\n{headers}\r\n".encode() + body


def chunked_answer(*chunks: bytes, headers: str = "", last: bytes = b"0\r\n\r\n") -> bytes:
    """An answer in chunks, with `last` after them."""
    framed = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    return f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n{headers}\r\n".encode() + framed + last


@dataclass(slots=True)
class Peer:
    """The server's side of one connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    requested: asyncio.Event
    whole: bool = False
    head: bytes = b""
    body: bytes = b""
    beyond: bytearray = field(default_factory=bytearray)

    async def read_request(self) -> None:
        """Read one whole request."""
        self.head = await self.reader.readuntil(b"\r\n\r\n")
        self.body = await self.reader.readexactly(content_length(self.head))
        self.whole = True
        self.requested.set()

    async def write(self, *parts: bytes) -> None:
        """Write the parts."""
        for part in parts:
            self.writer.write(part)
            await self.writer.drain()

    async def gone(self) -> None:
        """Wait until the client has gone, keeping what it sends beyond its request."""
        while data := await self.reader.read(65_536):
            self.beyond += data

    async def reset(self) -> None:
        """Break the connection so that the client is told, once its system has all that was written before.

        A reset can overtake what it follows.
        """
        connection = self.writer.get_extra_info("socket")
        while any(fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(4))):
            await asyncio.sleep(0)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
        self.writer.transport.abort()

    def cut(self) -> None:
        """End the connection; under TLS, without the goodbye."""
        self.writer.transport.abort()


Script = Callable[[Peer], Awaitable[None]]


def content_length(head: bytes) -> int:
    lines = head.decode("ascii").lower().split("\r\n")
    return next(int(line.split(":")[1]) for line in lines if line.startswith("content-length:"))


def answering(*parts: bytes) -> Script:
    """Read the request, write the parts, close in an orderly way."""

    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.write(*parts)

    return script


def holding(*parts: bytes) -> Script:
    """Read the request, write the parts, then neither write nor close until the client goes."""

    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.write(*parts)
        await peer.gone()

    return script


def resetting(*parts: bytes) -> Script:
    """Read the request, write the parts, reset."""

    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.write(*parts)
        await peer.reset()

    return script


def cutting(*parts: bytes) -> Script:
    """Read the request, write the parts, end without a goodbye."""

    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.write(*parts)
        peer.cut()

    return script


def flooding(opening: bytes, part: bytes) -> Script:
    """Read the request, write `opening`, then `part` again and again for as long as the client is there."""

    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.write(opening)
        while True:
            await peer.write(part)

    return script


def dripping(opening: bytes, part: bytes) -> Script:
    """Read the request, write `opening`, then `part` in each turn of the loop for as long as the client is there."""

    async def script(peer: Peer) -> None:
        await peer.read_request()
        await peer.write(opening)
        while True:
            await peer.write(part)
            await asyncio.sleep(0)

    return script


def pushing_back(*parts: bytes, then: Script) -> Script:
    """Read a request's first byte and no more than a buffer of it, write the parts, then go on as told."""

    async def script(peer: Peer) -> None:
        await peer.reader.readexactly(1)
        await peer.write(*parts)
        await then(peer)

    return script


async def reset(peer: Peer) -> None:
    """Nothing but a reset."""
    await peer.reset()


async def stay(peer: Peer) -> None:
    """Neither read, write nor close."""
    del peer
    await asyncio.Event().wait()


@dataclass(slots=True)
class RawServer:
    """What reached the server. The events are set when a connection is accepted, has brought a request, has ended."""

    script: Script
    listener: socket.socket
    tls: ssl.SSLContext | None = None
    connections: int = 0
    peers: list[Peer] = field(default_factory=list)
    connected: asyncio.Event = field(default_factory=asyncio.Event)
    requested: asyncio.Event = field(default_factory=asyncio.Event)
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    probed: asyncio.Event = field(default_factory=asyncio.Event)
    probe_port: int = 0

    @property
    def port(self) -> int:
        return int(self.listener.getsockname()[1])

    @property
    def base_url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}/v1"

    @property
    def heads(self) -> list[bytes]:
        """Of each whole request."""
        return [peer.head for peer in self.peers if peer.whole]

    @property
    def bodies(self) -> list[bytes]:
        return [peer.body for peer in self.peers if peer.whole]

    @property
    def beyond(self) -> bytes:
        """What came after whole requests: a client that sends one request sends nothing."""
        return b"".join(bytes(peer.beyond) for peer in self.peers)

    async def accept(self) -> None:
        """Accept connections in their order until cancelled."""
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as handlers:
            while True:
                connection, address = await loop.sock_accept(self.listener)
                if address[1] == self.probe_port:
                    connection.close()
                    self.probed.set()
                else:
                    self.connections += 1
                    self.connected.set()
                    handlers.create_task(self.serve(connection))

    async def serve(self, connection: socket.socket) -> None:
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                peer = await self.open(connection)
                try:
                    await self.script(peer)
                finally:
                    peer.writer.close()
                    await asyncio.gather(peer.writer.wait_closed(), return_exceptions=True)
        finally:
            connection.close()
            self.closed.set()

    async def open(self, connection: socket.socket) -> Peer:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await loop.connect_accepted_socket(lambda: protocol, connection, ssl=self.tls)
        peer = Peer(reader, asyncio.StreamWriter(transport, protocol, reader, loop), self.requested)
        self.peers.append(peer)
        return peer

    async def settled(self) -> None:
        """Return once every connection that was made before is counted: they are accepted in their order."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.probe_port = probe.getsockname()[1]
            probe.connect(("127.0.0.1", self.port))
            await self.probed.wait()


@asynccontextmanager
async def serving(script: Script, tls: ssl.SSLContext | None = None) -> AsyncIterator[RawServer]:
    """A server on an ephemeral port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        raw = RawServer(script, listener, tls)
        accepting = asyncio.create_task(raw.accept())
        try:
            yield raw
        finally:
            accepting.cancel()
            with suppress(asyncio.CancelledError):
                await accepting
