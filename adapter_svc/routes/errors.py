"""What can go wrong on the way to a provider."""

from enum import StrEnum
from typing import ClassVar

import grpc

from countersign.kit.errors import CountersignError


class InvalidRoute(CountersignError):
    """The route contradicts itself; `field` names the part."""

    reason: ClassVar[str] = "INVALID_ROUTE"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.INVALID_ARGUMENT


class MissingKey(CountersignError):
    """The environment variable that the route names holds no usable key; `variable` is its name, never its value."""

    reason: ClassVar[str] = "MISSING_KEY"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.FAILED_PRECONDITION


class InputLimitExceeded(Exception):
    """The next request's messages and tools are over the route's limit: nothing may be reserved (both in bytes)."""

    def __init__(self, measured_bytes: int, limit_bytes: int) -> None:
        super().__init__(f"the messages and tools take {measured_bytes} bytes of {limit_bytes}")
        self.measured_bytes = measured_bytes
        self.limit_bytes = limit_bytes


class ContinuationChanged(CountersignError):
    """The bytes that would go back to the provider are not those that came (design/architecture.md, I9)."""


class RequestProgress(StrEnum):
    """How far a request got (design/ledger.md, Hold); the names of the ledger's RequestProgress."""

    NOT_CONNECTED = "NOT_CONNECTED"
    """No byte of the request was handed to the operating system: no connection, or no trusted TLS session over it."""
    SENDING = "SENDING"
    """Handing it over had begun, and was not seen to end."""
    SENT = "SENT"
    """The operating system has all of it. Whether the provider has is not known: an interim answer proves nothing."""
    RESPONSE_STARTED = "RESPONSE_STARTED"
    """The whole head of a final answer was read."""


class FailureCategory(StrEnum):
    """What ended an attempt without an answer."""

    KEY_MISSING = "KEY_MISSING"
    CONNECT_FAILED = "CONNECT_FAILED"
    TLS_FAILED = "TLS_FAILED"
    """Connected, but no trusted TLS session: certificate, host name, protocol, or a handshake that was cut."""
    CONNECT_TIMEOUT = "CONNECT_TIMEOUT"
    FIRST_BYTE_TIMEOUT = "FIRST_BYTE_TIMEOUT"
    TOTAL_TIMEOUT = "TOTAL_TIMEOUT"
    CONNECTION_BROKEN = "CONNECTION_BROKEN"
    """Reset, or closed before the answer's end."""
    PROTOCOL_VIOLATION = "PROTOCOL_VIOLATION"
    """What came is no HTTP/1.1 answer, or one that contradicts itself about where it ends."""
    HEAD_TOO_LARGE = "HEAD_TOO_LARGE"
    """Header fields, interim answers or chunk headers beyond the limits."""
    BODY_TOO_LARGE = "BODY_TOO_LARGE"
    BODY_UNDECODABLE = "BODY_UNDECODABLE"
    """A content encoding that was not asked for and cannot be undone."""


class TransportFailure(Exception):
    """An attempt without an answer: how far the request got, and what ended it. Never the text of an exception."""

    def __init__(self, progress: RequestProgress, category: FailureCategory) -> None:
        super().__init__(f"{category.value} after {progress.value}")
        self.progress = progress
        self.category = category
