"""A route to a server on this machine, and such a server: raw sockets that count what reaches them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from adapter_svc.admission import ExpectedIdentity, WireFormat
from adapter_svc.routes import FreePrice, Route

Reply = Callable[[asyncio.StreamWriter], Awaitable[None]]


def a_route(**changes: Any) -> Route:
    good: dict[str, Any] = {
        "name": "local",
        "base_url": "http://127.0.0.1:1/v1",
        "wire_format": WireFormat.CHAT_COMPLETIONS,
        "model": "m",
        "identity": ExpectedIdentity(model="m"),
        "price": FreePrice(),
        "output_cap": 512,
    }
    return Route(**{**good, **changes})


def plain_answer(body: bytes, *, status: str = "200 OK", headers: str = "", length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return f"HTTP/1.1 {status}\r\nContent-Length: {size}\r\n{headers}\r\n".encode() + body


def replying(*parts: bytes) -> Reply:
    """Write the parts, then close."""

    async def reply(writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()

    return reply


def then_waiting(*parts: bytes) -> Reply:
    """Write the parts, then neither write nor close until the client goes."""

    async def reply(writer: asyncio.StreamWriter) -> None:
        await replying(*parts)(writer)
        await asyncio.Event().wait()

    return reply


def then_resetting(*parts: bytes) -> Reply:
    """Write the parts, then reset the connection."""

    async def reply(writer: asyncio.StreamWriter) -> None:
        await replying(*parts)(writer)
        writer.transport.abort()

    return reply


@dataclass(slots=True)
class RawServer:
    """What reached the server; `closed` is set whenever a client's connection ends."""

    reply: Reply
    base_url: str = ""
    connections: int = 0
    heads: list[bytes] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    connected: asyncio.Event = field(default_factory=asyncio.Event)
    requested: asyncio.Event = field(default_factory=asyncio.Event)
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    handlers: set[asyncio.Task[None]] = field(default_factory=set)

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.connected.set()
        self.handlers.add(asyncio.create_task(self.serve(reader, writer)))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        replying_task: asyncio.Task[None] | None = None
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self.bodies.append(await reader.readexactly(content_length(head)))
            self.heads.append(head)
            self.requested.set()
            replying_task = asyncio.ensure_future(self.reply(writer))
            gone = asyncio.ensure_future(reader.read())
            await asyncio.wait({replying_task, gone}, return_when=asyncio.FIRST_COMPLETED)
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            if replying_task is not None:
                replying_task.cancel()
                await asyncio.gather(replying_task, return_exceptions=True)
            writer.close()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)
            self.closed.set()


def content_length(head: bytes) -> int:
    lines = head.decode("ascii").lower().split("\r\n")
    return next(int(line.split(":")[1]) for line in lines if line.startswith("content-length:"))


@asynccontextmanager
async def serving(reply: Reply) -> AsyncIterator[RawServer]:
    """A server on an ephemeral port."""
    raw = RawServer(reply)
    server = await asyncio.start_server(raw.accept, "127.0.0.1", 0)
    raw.base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield raw
    finally:
        server.close()
        await server.wait_closed()
        await asyncio.gather(*raw.handlers)
