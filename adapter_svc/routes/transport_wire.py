"""One connection for one request: bytes out and bytes in, plain or under TLS (design/admission.md, Routes).

The sockets are used without a buffer between, so that bytes count as sent when the operating system has them, and
not before. Nothing here connects again, and no environment variable is read.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import certifi

from adapter_svc.routes.errors import FailureCategory

READ_BYTES = 65_536


class AttemptRefused(Exception):
    """The attempt ends here, for the reason of `category`. Holds no text of what was sent or received."""

    def __init__(self, category: FailureCategory) -> None:
        super().__init__(category.value)
        self.category = category


@dataclass(frozen=True, slots=True)
class Address:
    """Where to connect, and how many seconds that may take in all."""

    host: str
    port: int
    patience_seconds: float


class Wire(Protocol):
    """A connection's two directions."""

    async def send(self, data: bytes) -> None:
        """Return once the operating system has all of `data`. Raises OSError."""

    async def receive(self) -> bytes:
        """Some bytes, or none at the orderly end. Raises OSError, and AttemptRefused for more than the limit."""


@cache
def tls_context(authority_file: str | None = None) -> ssl.SSLContext:
    """A context that trusts the public authorities, or only those of a PEM file, and offers HTTP/1.1 alone.

    SSL_CERT_FILE, SSL_CERT_DIR and SSLKEYLOGFILE do not change it: whom a key is shown to is not inherited. Made once
    for each file, as loading is slow; it holds no connection. Raises OSError where the file cannot be read.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(cafile=authority_file or certifi.where())
    context.set_alpn_protocols(["http/1.1"])
    return context


@asynccontextmanager
async def connected(address: Address, tls: ssl.SSLContext | None, max_received_bytes: int) -> AsyncIterator[Wire]:
    """A new connection, closed at the end in any case. Raises OSError, and AttemptRefused for TLS that fails."""
    connection = await _connect(address)
    try:
        plain = _PlainWire(connection, max_received_bytes)
        yield plain if tls is None else await _secured(plain, tls, address.host)
    finally:
        connection.close()


async def _connect(address: Address) -> socket.socket:
    """A connection to the first of the host's addresses that accepts; each has its share of the time."""
    found = await asyncio.get_running_loop().getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    share_seconds = address.patience_seconds / len(found)
    for family, kind, protocol, _, where in found[:-1]:
        try:
            async with asyncio.timeout(share_seconds):
                return await _connect_to(family, kind, protocol, where)
        except OSError:
            # A host may have an address that cannot be reached from here; nothing has been sent to it.
            continue
    family, kind, protocol, _, where = found[-1]
    return await _connect_to(family, kind, protocol, where)


async def _connect_to(family: int, kind: int, protocol: int, where: tuple[object, ...]) -> socket.socket:
    connection = socket.socket(family, kind, protocol)
    try:
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, where)
    except BaseException:
        connection.close()
        raise
    return connection


class _PlainWire:
    def __init__(self, connection: socket.socket, max_received_bytes: int) -> None:
        self._connection = connection
        self._room = max_received_bytes

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._connection, data)

    async def receive(self) -> bytes:
        data = await asyncio.get_running_loop().sock_recv(self._connection, READ_BYTES)
        # What is there already is received without a pause: let deadlines and other turns have theirs.
        await asyncio.sleep(0)
        self._room -= len(data)
        if self._room < 0:
            raise AttemptRefused(FailureCategory.BODY_TOO_LARGE)
        return data


class _TlsWire:
    """TLS in memory over a plain wire, which sees every byte."""

    def __init__(self, plain: Wire, tls: ssl.SSLContext, host: str) -> None:
        self._plain = plain
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._session = tls.wrap_bio(self._incoming, self._outgoing, server_hostname=host)

    async def handshake(self) -> None:
        while True:
            try:
                self._session.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                await self._fill()
            else:
                return await self._flush()

    async def send(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self._session.write(rest) :]
        await self._flush()

    async def receive(self) -> bytes:
        while True:
            try:
                return self._session.read(READ_BYTES)
            except ssl.SSLWantReadError:
                await self._flush()
                await self._fill()

    async def _flush(self) -> None:
        if pending := self._outgoing.read():
            await self._plain.send(pending)

    async def _fill(self) -> None:
        received = await self._plain.receive()
        if not received:
            # Anybody can close a connection: only the peer's own goodbye, under TLS, ends what it had to say.
            raise ConnectionAbortedError
        self._incoming.write(received)


async def _secured(plain: Wire, tls: ssl.SSLContext, host: str) -> Wire:
    try:
        wire = _TlsWire(plain, tls, host)
        await wire.handshake()
    except (OSError, ValueError, AttemptRefused):
        raise AttemptRefused(FailureCategory.TLS_FAILED) from None
    return wire
