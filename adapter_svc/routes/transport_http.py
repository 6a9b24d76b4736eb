"""One HTTP/1.1 exchange over one connection: a POST, and one whole answer or none (RFC 9112).

An answer is whole where its own framing says so: all of its Content-Length, the last chunk, or, where it names
neither, the orderly end of the connection.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import h11

from adapter_svc.routes.errors import FailureCategory
from adapter_svc.routes.transport_wire import AttemptRefused, Wire

MAX_HEAD_BYTES = 65_536
"""Of the header fields of one answer, names and values."""
MAX_INTERIM_ANSWERS = 16

_GZIP_WINDOW = 31
_TOO_LARGE_HINT = 431


@dataclass(frozen=True, slots=True)
class ProviderAnswer:
    """A complete HTTP answer, whatever its status and content type; `body` is decoded to its own bytes."""

    status: int
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request. Its header fields hold the key: they are not shown."""

    target: bytes
    headers: Sequence[tuple[bytes, bytes]] = field(repr=False)
    body: bytes = field(repr=False)


class Exchange:
    """One request and its answer. The steps are called in order: `send`, `read_head`, `read_body`."""

    def __init__(self, wire: Wire, max_body_bytes: int) -> None:
        self._wire = wire
        self._max_body_bytes = max_body_bytes
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=2 * MAX_HEAD_BYTES)
        self._ended = False
        self._response: h11.Response | None = None

    async def send(self, request: Outgoing) -> None:
        """Return once the operating system has the whole request. Raises OSError."""
        head = h11.Request(method=b"POST", target=request.target, headers=list(request.headers))
        events = (head, h11.Data(data=request.body), h11.EndOfMessage())
        await self._wire.send(b"".join(self._http.send(event) for event in events))

    async def read_head(self) -> int:
        """The final answer's status, once its whole head is there. Raises OSError and AttemptRefused."""
        for _ in range(MAX_INTERIM_ANSWERS + 1):
            event = await self._next_event()
            if isinstance(event, h11.Response):
                _require_bounded(event)
                _require_one_framing(event)
                self._response = event
                return event.status_code
        raise AttemptRefused(FailureCategory.HEAD_TOO_LARGE)

    async def read_body(self) -> ProviderAnswer:
        """The whole answer. Raises OSError and AttemptRefused."""
        assert self._response is not None
        body = _Body(self._max_body_bytes, gzipped=_is_gzipped(self._response))
        while isinstance(event := await self._next_event(), h11.Data):
            body.feed(event.data)
        return ProviderAnswer(self._response.status_code, body.finish())

    async def _next_event(self) -> h11.Event:
        while True:
            event = self._parsed()
            if isinstance(event, h11.Event):
                return event
            data = await self._wire.receive()
            self._ended = not data
            self._http.receive_data(data)

    def _parsed(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        try:
            return self._http.next_event()
        except h11.RemoteProtocolError as error:
            category = self._category(error)
        raise AttemptRefused(category)

    def _category(self, error: h11.RemoteProtocolError) -> FailureCategory:
        if self._ended:
            return FailureCategory.CONNECTION_BROKEN
        if error.error_status_hint == _TOO_LARGE_HINT:
            return FailureCategory.HEAD_TOO_LARGE
        return FailureCategory.PROTOCOL_VIOLATION


def _require_bounded(response: h11.Response) -> None:
    if sum(len(name) + len(value) for name, value in response.headers) > MAX_HEAD_BYTES:
        raise AttemptRefused(FailureCategory.HEAD_TOO_LARGE)


def _require_one_framing(response: h11.Response) -> None:
    """Both a length and chunks "ought to be handled as an error" (RFC 9112, 6.3): one of them is not true."""
    if {b"content-length", b"transfer-encoding"} <= {name for name, _ in response.headers}:
        raise AttemptRefused(FailureCategory.PROTOCOL_VIOLATION)


def _is_gzipped(response: h11.Response) -> bool:
    named = b",".join(value for name, value in response.headers if name == b"content-encoding").lower()
    encodings = [encoding for part in named.split(b",") if (encoding := part.strip()) not in (b"", b"identity")]
    if encodings not in ([], [b"gzip"], [b"x-gzip"]):
        raise AttemptRefused(FailureCategory.BODY_UNDECODABLE)
    return bool(encodings)


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
            raise AttemptRefused(FailureCategory.BODY_UNDECODABLE) from None
        if len(plain) > room:
            raise AttemptRefused(FailureCategory.BODY_TOO_LARGE)
        self._collected += plain

    def finish(self) -> bytes:
        if self._unzip is not None and (not self._unzip.eof or self._unzip.unused_data):
            raise AttemptRefused(FailureCategory.BODY_UNDECODABLE)
        return bytes(self._collected)
