"""The root of all errors that a caller may see.

Every domain error knows its gRPC status, its `ErrorReason` and metadata that is safe to show; the server's boundary
turns them into `google.rpc.Status` with `ErrorInfo`, and anything else into INTERNAL without text
(design/architecture.md, Contracts).
"""

from collections.abc import Mapping
from typing import ClassVar

import grpc


class CountersignError(Exception):
    """A refusal that the caller can act on.

    Subclass once per reason: set `reason` (a name of `countersign.errordetails.v1.ErrorReason` without its
    `ERROR_REASON_` prefix) and `status`; raise with a message that names what to do and keyword-only metadata,
    units in the key (`available_nanos="5"`).
    """

    reason: ClassVar[str] = "INTERNAL"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.INTERNAL

    def __init__(self, message: str, **metadata: str | int | bytes) -> None:
        super().__init__(message)
        self.message = message
        self.metadata: Mapping[str, str] = {key: _as_text(value) for key, value in metadata.items()}


class InvalidArgument(CountersignError):
    """A request that lacks something or holds something of the wrong form; `field` names it."""

    reason = "INVALID_ARGUMENT"
    status = grpc.StatusCode.INVALID_ARGUMENT


class ServiceNotConfigured(CountersignError):
    """A service that this one needs was not named when it was started; `service` names it."""

    reason = "SERVICE_UNAVAILABLE"
    status = grpc.StatusCode.FAILED_PRECONDITION


def _as_text(value: str | int | bytes) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
