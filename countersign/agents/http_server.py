"""A small HTTP/1.1 server for loopback only, that counts what reaches it.

It exists so that rehearsals and tests run over real sockets: how many connections were opened and how many
requests were sent is a fact of the wire, not of a client's own account (design/field-reports.md, Paying twice).
A handler may answer, or may abort the connection before or in the middle of a response.
"""

import asyncio
import ipaddress
import json
import logging
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import h11

from countersign.agents.errors import ListenError, LogFileError, NotLoopbackError
from countersign.kit.canonical import sha256

_CHUNK_BYTES = 65_536
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may be, in bytes; a longer body is answered with 413, a longer head with 431."""

    body_bytes: int = 8 * 1024 * 1024
    head_bytes: int = 64 * 1024


@dataclass(frozen=True, slots=True)
class Request:
    """One complete request: `number` counts requests of this server from 1; header names are lower case."""

    number: int
    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


@dataclass(frozen=True, slots=True)
class Response:
    """One complete response; the length header is added."""

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Abort:
    """Close the connection instead of answering: at once, or after `body_bytes` bytes of the body of `partial`.

    The head of `partial` promises its whole body.
    """

    partial: Response | None = None
    body_bytes: int = 0


Handler = Callable[[Request], Awaitable[Response | Abort]]
"""What answers a request."""

Marker = Callable[[Request], str | None]
"""What names the conversation that a request belongs to, for the wire log."""


class WireLog:
    """An append-only JSONL file with one line per request received, written before the handler runs.

    A line is {"episode", "n", "path", "sha256"} and holds no time, so two equal runs write equal files. Each line
    is one write to a descriptor opened for appending: several processes may share a file, and a killed one loses
    nothing.
    """

    def __init__(self, path: Path, marker: Marker | None = None) -> None:
        self._descriptor = open_log(path)
        self._marker = marker

    def record(self, request: Request) -> None:
        """Append the line of `request`."""
        episode = self._marker(request) if self._marker else None
        line = {
            "episode": episode,
            "n": request.number,
            "path": request.path,
            "sha256": sha256(request.body).hex(),
        }
        os.write(self._descriptor, json.dumps(line).encode() + b"\n")

    def close(self) -> None:
        """Close the file; further records fail."""
        os.close(self._descriptor)


class _TooLargeError(Exception):
    """The body exceeds its limit."""


class LoopbackServer:
    """A running server; make one with `serve`, use it as an async context manager or call `stop`."""

    def __init__(self, handler: Handler, limits: Limits, wire_log: WireLog | None) -> None:
        self._handler = handler
        self._limits = limits
        self._wire_log = wire_log
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.connections = 0
        """How many connections were accepted."""
        self.requests = 0
        """How many complete requests were received."""
        self.address = ""
        """Where it listens, as host:port."""

    async def start(self, host: str, port: int) -> None:
        """Listen on `host`:`port` (0 for any free port). Raises NotLoopbackError or ListenError."""
        require_loopback(host)
        try:
            self._server = await asyncio.start_server(self._accept, host, port)
        except OSError as error:
            raise ListenError(f"cannot listen on {join_address(host, port)}: {error.strerror}") from None
        self.address = join_address(host, int(self._server.sockets[0].getsockname()[1]))

    @property
    def url(self) -> str:
        """The base address as a URL, without a path."""
        return f"http://{self.address}"

    async def stop(self) -> None:
        """Stop listening and cut what is open; running handlers are cancelled. Returns once all ended."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._wire_log is not None:
            self._wire_log.close()
            self._wire_log = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.get_running_loop().create_task(self._connection(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(lambda task: self._ended(task, writer))

    def _ended(self, task: asyncio.Task[None], writer: asyncio.StreamWriter) -> None:
        # Also reached by a task that was cancelled before its first step; after a proper close it changes nothing.
        self._tasks.discard(task)
        writer.transport.abort()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=self._limits.head_bytes)
        try:
            while await self._exchange(connection, reader, writer):
                connection.start_next_cycle()
            writer.close()
            await writer.wait_closed()
        except ConnectionError:
            # The peer went away, as clients under test do; what it sent until then is counted.
            return

    async def _exchange(
        self, connection: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Serve one request; whether the connection may serve another."""
        try:
            request = await self._read(connection, reader, writer)
        except _TooLargeError:
            await self._refuse(connection, reader, writer, 413, "the request body is too large")
            return False
        except h11.RemoteProtocolError as error:
            await self._refuse(connection, reader, writer, error.error_status_hint, "not an HTTP/1.1 request")
            return False
        if request is None:
            return False
        answer = await self._answer(request)
        if isinstance(answer, Abort):
            await self._abort(connection, writer, answer)
            return False
        await _send(connection, writer, answer, with_body=request.method != "HEAD")
        return connection.our_state is h11.DONE and connection.their_state is h11.DONE

    async def _read(
        self, connection: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> Request | None:
        head: h11.Request | None = None
        body = bytearray()
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                if connection.they_are_waiting_for_100_continue:
                    writer.write(connection.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
                connection.receive_data(await reader.read(_CHUNK_BYTES))
            elif isinstance(event, h11.Request):
                head = event
                self._check_declared_length(head)
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > self._limits.body_bytes:
                    raise _TooLargeError
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                return self._receive(head, bytes(body))
            else:
                return None

    def _check_declared_length(self, head: h11.Request) -> None:
        for name, value in head.headers:
            if name == b"content-length" and int(value) > self._limits.body_bytes:
                raise _TooLargeError

    def _receive(self, head: h11.Request, body: bytes) -> Request:
        self.requests += 1
        headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in head.headers)
        request = Request(self.requests, head.method.decode(), head.target.decode("latin-1"), headers, body)
        if self._wire_log is not None:
            self._wire_log.record(request)
        return request

    async def _answer(self, request: Request) -> Response | Abort:
        try:
            return await self._handler(request)
        except Exception:  # the boundary of foreign code: the connection must still get an answer
            _logger.exception("the handler failed on request %d", request.number)
            return Response(500, b'{"error":{"message":"the handler failed","type":"server_error"}}')

    async def _refuse(
        self,
        connection: h11.Connection,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        status: int,
        message: str,
    ) -> None:
        body = json.dumps({"error": {"message": message, "type": "invalid_request_error"}}).encode()
        await _send(connection, writer, Response(status, body, headers=(("Connection", "close"),)))
        # Closing while the peer still writes would reset the connection and lose the answer on its way.
        writer.write_eof()
        left = 4 * self._limits.body_bytes
        while left > 0 and (chunk := await reader.read(_CHUNK_BYTES)):
            left -= len(chunk)

    async def _abort(self, connection: h11.Connection, writer: asyncio.StreamWriter, abort: Abort) -> None:
        if abort.partial is None:
            writer.transport.abort()
            return
        writer.write(connection.send(_head(abort.partial)) or b"")
        writer.write(connection.send(h11.Data(data=abort.partial.body[: abort.body_bytes])) or b"")
        await writer.drain()


async def serve(
    handler: Handler,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    limits: Limits | None = None,
    wire_log: WireLog | None = None,
) -> LoopbackServer:
    """Start a server that answers with `handler`; it owns `wire_log` and closes it on stop.

    Raises NotLoopbackError and ListenError.
    """
    server = LoopbackServer(handler, limits or Limits(), wire_log)
    await server.start(host, port)
    return server


def open_log(path: Path) -> int:
    """A descriptor that appends to `path`, made where it is absent. Raises LogFileError."""
    try:
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    except OSError as error:
        raise LogFileError(f"cannot append to {path}: {error.strerror}") from None


def require_loopback(host: str) -> None:
    """Raise NotLoopbackError unless `host` is a literal loopback address: there is no authentication here."""
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise NotLoopbackError(f"{host!r} is not a literal loopback address such as 127.0.0.1")


def join_address(host: str, port: int) -> str:
    """Write `host` and `port` as one address, with brackets around an IPv6 host."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _head(response: Response) -> h11.Response:
    headers = [("Content-Type", response.content_type), ("Content-Length", str(len(response.body)))]
    return h11.Response(status_code=response.status, headers=[*headers, *response.headers])


async def _send(
    connection: h11.Connection, writer: asyncio.StreamWriter, response: Response, *, with_body: bool = True
) -> None:
    writer.write(connection.send(_head(response)) or b"")
    if with_body:
        writer.write(connection.send(h11.Data(data=response.body)) or b"")
    writer.write(connection.send(h11.EndOfMessage()) or b"")
    await writer.drain()
