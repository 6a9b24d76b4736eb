"""One attempt at one request: no retry, no redirect, no proxy, no reused connection (design/admission.md, Routes).

The HTTP transport is used below its client, which is what adds redirects, cookies, proxies and log lines.
"""

import asyncio
import os
import ssl
import zlib
from collections.abc import AsyncIterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

import httpx

from adapter_svc.admission import MAX_BODY_BYTES
from adapter_svc.routes.errors import FailureCategory, MissingKey, RequestProgress, TransportFailure
from adapter_svc.routes.profile import Route, Timeouts

_PROGRESS = {
    "http11.send_request_headers.started": RequestProgress.SENDING,
    "http11.send_request_body.complete": RequestProgress.SENT,
    "http11.receive_response_headers.complete": RequestProgress.RESPONSE_STARTED,
}
"""The transport's own trace events: what was written to the socket, not what was asked for."""

_CONNECTED = "connection.connect_tcp.complete"

_TIMED_OUT = {
    RequestProgress.NOT_CONNECTED: FailureCategory.CONNECT_TIMEOUT,
    RequestProgress.SENDING: FailureCategory.TOTAL_TIMEOUT,
    RequestProgress.SENT: FailureCategory.FIRST_BYTE_TIMEOUT,
    RequestProgress.RESPONSE_STARTED: FailureCategory.TOTAL_TIMEOUT,
}
_GZIP_WINDOW = 31


@dataclass(frozen=True, slots=True)
class ProviderAnswer:
    """A complete HTTP answer, whatever its status; `body` is decoded to its own bytes."""

    status: int
    body: bytes = field(repr=False)


class Provider(Protocol):
    """What the turn loop needs of a provider."""

    async def send(self, route: Route, request: bytes) -> ProviderAnswer:
        """Send `request` once. Raises TransportFailure where no complete answer came."""


def check_key(route: Route, environment: Mapping[str, str] | None = None) -> None:
    """Refuse a route whose key is not there, before anything is reserved. Raises MissingKey."""
    variable = route.api_key_variable
    if variable and _key(route, os.environ if environment is None else environment) is None:
        raise MissingKey(f"set {variable} to the route's key where the adapter runs", variable=variable)


def _key(route: Route, environment: Mapping[str, str]) -> str | None:
    key = environment.get(route.api_key_variable, "")
    return key if key and key.isascii() and key.isprintable() and " " not in key else None


class HttpProvider:
    """Sends over HTTP/1.1. `environment` holds the keys and is read at each sending; limits are in bytes."""

    def __init__(self, environment: Mapping[str, str] | None = None, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self._environment = os.environ if environment is None else environment
        self._max_body_bytes = max_body_bytes
        self._tls = _tls_context()

    async def send(self, route: Route, request: bytes) -> ProviderAnswer:
        """Post `request` to the route, once, over a connection of its own.

        Raises TransportFailure. A cancelled caller leaves no open connection.
        """
        headers = self._headers(route)
        attempt = _Attempt(route.timeouts)
        outgoing = httpx.Request(
            "POST", route.endpoint, headers=headers, content=request, extensions={"trace": attempt.trace}
        )
        return await attempt.run(outgoing, self._tls, self._max_body_bytes)

    def _headers(self, route: Route) -> dict[str, str]:
        headers = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "Connection": "close",
            "Content-Type": "application/json",
            "User-Agent": "countersign",
        }
        if route.api_key_variable:
            key = _key(route, self._environment)
            if key is None:
                raise TransportFailure(RequestProgress.NOT_CONNECTED, FailureCategory.KEY_MISSING)
            headers["Authorization"] = f"Bearer {key}"
        return headers


class _Closable(Protocol):
    async def aclose(self) -> None: ...


class _Attempt:
    """One request under three deadlines, of which one is running at a time."""

    def __init__(self, timeouts: Timeouts) -> None:
        self._timeouts = timeouts
        self._progress = RequestProgress.NOT_CONNECTED
        self._started = asyncio.get_running_loop().time()
        self._deadline = asyncio.timeout_at(self._due())
        self._socket: _Closable | None = None

    def _due(self) -> float:
        """When the running deadline ends: the phase's own, or the total if that is sooner."""
        total = self._started + self._timeouts.total_millis / 1000
        now = asyncio.get_running_loop().time()
        if self._progress is RequestProgress.NOT_CONNECTED:
            return min(total, now + self._timeouts.connect_millis / 1000)
        if self._progress is RequestProgress.SENT:
            return min(total, now + self._timeouts.first_byte_millis / 1000)
        return total

    async def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Note how far the request got, and let the next deadline run."""
        if event == _CONNECTED:
            self._socket = info["return_value"]
        if event in _PROGRESS and not self._deadline.expired():
            self._progress = _PROGRESS[event]
            self._deadline.reschedule(self._due())

    async def run(self, request: httpx.Request, tls: ssl.SSLContext, max_body_bytes: int) -> ProviderAnswer:
        """The answer, or TransportFailure; the connection is closed in any case."""
        try:
            async with self._deadline:
                return await self._exchange(request, tls, max_body_bytes)
        except TimeoutError:
            raise self._failure(self._timeout_category()) from None
        except _BodyRefused as refused:
            raise self._failure(refused.category) from None
        except (httpx.TransportError, OSError, UnicodeError):
            raise self._failure(self._broken_category()) from None

    async def _exchange(self, request: httpx.Request, tls: ssl.SSLContext, max_body_bytes: int) -> ProviderAnswer:
        try:
            async with _fresh_transport(tls) as transport:
                response = await transport.handle_async_request(request)
                try:
                    return await _read_answer(response, max_body_bytes)
                finally:
                    await response.aclose()
        finally:
            # The transport forgets a connection that is cancelled during its TLS handshake.
            if self._socket is not None:
                await self._socket.aclose()

    def _failure(self, category: FailureCategory) -> TransportFailure:
        return TransportFailure(self._progress, category)

    def _timeout_category(self) -> FailureCategory:
        total_is_over = asyncio.get_running_loop().time() >= self._started + self._timeouts.total_millis / 1000
        return FailureCategory.TOTAL_TIMEOUT if total_is_over else _TIMED_OUT[self._progress]

    def _broken_category(self) -> FailureCategory:
        if self._progress is RequestProgress.NOT_CONNECTED:
            return FailureCategory.CONNECT_FAILED
        return FailureCategory.CONNECTION_BROKEN


@cache
def _tls_context() -> ssl.SSLContext:
    # Loading the certificates is slow, and the context holds no connection: once, outside of any deadline.
    return httpx.create_ssl_context(trust_env=False)


def _fresh_transport(tls: ssl.SSLContext) -> httpx.AsyncHTTPTransport:
    limits = httpx.Limits(max_connections=1, max_keepalive_connections=0)
    return httpx.AsyncHTTPTransport(verify=tls, trust_env=False, limits=limits, retries=0, http2=False)


class _BodyRefused(Exception):
    def __init__(self, category: FailureCategory) -> None:
        super().__init__(category.value)
        self.category = category


async def _read_answer(response: httpx.Response, max_body_bytes: int) -> ProviderAnswer:
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip"):
        raise _BodyRefused(FailureCategory.BODY_UNDECODABLE)
    chunks = response.stream
    assert isinstance(chunks, AsyncIterable)
    body = _Body(max_body_bytes, gzipped=encoding.endswith("gzip"))
    async for chunk in chunks:
        body.feed(chunk)
    return ProviderAnswer(response.status_code, body.finish())


class _Body:
    """Collects a body, never holding more than its limit: a gzip bomb is not unpacked beyond it."""

    def __init__(self, max_bytes: int, *, gzipped: bool) -> None:
        self._collected = bytearray()
        self._max_bytes = max_bytes
        self._unzip = zlib.decompressobj(_GZIP_WINDOW) if gzipped else None

    def feed(self, chunk: bytes) -> None:
        room = self._max_bytes - len(self._collected)
        try:
            # One byte beyond the room tells too much from just enough.
            plain = chunk if self._unzip is None else self._unzip.decompress(chunk, room + 1)
        except zlib.error:
            raise _BodyRefused(FailureCategory.BODY_UNDECODABLE) from None
        if len(plain) > room:
            raise _BodyRefused(FailureCategory.BODY_TOO_LARGE)
        self._collected += plain

    def finish(self) -> bytes:
        if self._unzip is not None and (not self._unzip.eof or self._unzip.unused_data):
            raise _BodyRefused(FailureCategory.BODY_UNDECODABLE)
        return bytes(self._collected)
