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
    SENDING = "SENDING"
    SENT = "SENT"
    RESPONSE_STARTED = "RESPONSE_STARTED"


class FailureCategory(StrEnum):
    """What ended an attempt without an answer."""

    KEY_MISSING = "KEY_MISSING"
    CONNECT_FAILED = "CONNECT_FAILED"
    CONNECT_TIMEOUT = "CONNECT_TIMEOUT"
    FIRST_BYTE_TIMEOUT = "FIRST_BYTE_TIMEOUT"
    TOTAL_TIMEOUT = "TOTAL_TIMEOUT"
    CONNECTION_BROKEN = "CONNECTION_BROKEN"
    """Reset, closed early, or no HTTP."""
    BODY_TOO_LARGE = "BODY_TOO_LARGE"
    BODY_UNDECODABLE = "BODY_UNDECODABLE"
    """A content encoding that was not asked for and cannot be undone."""


class TransportFailure(Exception):
    """An attempt without an answer: how far the request got, and what ended it. Never the text of an exception."""

    def __init__(self, progress: RequestProgress, category: FailureCategory) -> None:
        super().__init__(f"{category.value} after {progress.value}")
        self.progress = progress
        self.category = category
