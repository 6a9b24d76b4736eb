"""What stands around every call of a server for those who watch it: one span, and one time by method and status."""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import grpc

from countersign.kit.errors import CountersignError
from countersign.kit.interceptors.context import Context
from countersign.kit.observability import tracing
from countersign.kit.observability.metrics import histogram
from countersign.kit.observability.tracing import NO_SPAN, TRACEPARENT, Attributes, Kind, Span
from countersign.kit.rpc_errors import ServiceError, forwarded_status

RPC_SECONDS = histogram(
    "countersign_rpc_seconds",
    "How long calls took, by method and by the gRPC status that they ended with; a stream counts once it has ended.",
    "method",
    "code",
)

CALLERS_FAULTS = frozenset(
    {
        "CANCELLED",
        "INVALID_ARGUMENT",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNAUTHENTICATED",
    }
)
"""Statuses by which a service refuses: its span carries the reason, and has not failed."""

_STATUS_NAMES = {status.value[0]: status.name for status in grpc.StatusCode}
_UNSEEN = nullcontext()


def observed_call(method: str, context: Context, *, is_duplex: bool) -> AbstractContextManager[object]:
    """Around one call of `method` (`/package.Service/Method`). `is_duplex`: both sides stream.

    A stream that both sides keep open, and that comes with no trace, stands for nothing but itself and gets no span:
    its messages carry their own.
    """
    if not (tracing.is_on() or RPC_SECONDS.is_on):
        return _UNSEEN
    return _observed(method, given_traceparent(context), is_duplex=is_duplex)


@contextmanager
def _observed(method: str, parent: str, *, is_duplex: bool) -> Iterator[None]:
    start, code = time.monotonic(), grpc.StatusCode.OK.name
    with _span(method, parent, is_duplex=is_duplex) as span:
        try:
            yield
        except BaseException as error:
            code = status_name(error)
            end_refused(span, code, tracing.error_type(error))
            raise
        finally:
            span.set({"rpc.response.status_code": code})
            RPC_SECONDS.record(time.monotonic() - start, method.rpartition(".")[2], code)


def _span(method: str, parent: str, *, is_duplex: bool) -> AbstractContextManager[Span]:
    if is_duplex and not parent:
        return NO_SPAN
    name = method.removeprefix("/")
    return tracing.span(name, Kind.SERVER, rpc_attributes(name), parent)


def rpc_attributes(name: str) -> Attributes:
    """What a span says of a call named `package.Service/Method`."""
    return {"rpc.system.name": "grpc", "rpc.method": name}


def end_refused(span: Span, code: str, error_type: str) -> None:
    """Note how a served call ended that gave no result."""
    if code in CALLERS_FAULTS:
        span.refuse(error_type)
    else:
        span.fail(error_type)


def status_name(error: BaseException) -> str:
    """The name of the gRPC status that the boundary makes of an exception."""
    if isinstance(error, CountersignError):
        return error.status.name
    if isinstance(error, ServiceError):
        return _STATUS_NAMES[forwarded_status(error).code]
    # What is no Exception is a cancellation: the caller has gone.
    return grpc.StatusCode.INTERNAL.name if isinstance(error, Exception) else grpc.StatusCode.CANCELLED.name


def given_traceparent(context: Context) -> str:
    """The caller's W3C traceparent; empty where it sent none."""
    for key, value in context.invocation_metadata() or ():
        if key == TRACEPARENT and isinstance(value, str):
            return value
    return ""
