"""The one boundary: domain errors leave with their reason, anything else as INTERNAL without text."""

import traceback
from typing import NoReturn

import grpc
import structlog
from google.rpc import status_pb2
from grpc_status import rpc_status

from countersign.kit.errors import CountersignError
from countersign.kit.interceptors.context import Context
from countersign.kit.rpc_errors import ServiceError, forwarded_status, to_status

log = structlog.get_logger()


async def end_with(error: Exception, method: str, context: Context) -> NoReturn:
    """End the call with the rich status that the error makes (design/style.md, Errors); one that was ended stays so."""
    if isinstance(error, grpc.aio.AbortError):
        raise error
    if isinstance(error, CountersignError):
        status = to_status(error)
    elif isinstance(error, ServiceError):
        status = forwarded_status(error)
    else:
        log.error("internal", method=method, exception=type(error).__name__, where=_where(error))
        status = to_status(_internal())
    await _end(context, status)


async def _end(context: Context, status: status_pb2.Status) -> NoReturn:
    """End the call with `status`, keeping the trailer that is set already (the request's id)."""
    rich = rpc_status.to_status(status)
    trailer = (*(context.trailing_metadata() or ()), *rich.trailing_metadata)
    await context.abort(rich.code, rich.details, trailer)


def _where(error: BaseException) -> list[str]:
    """Where it was raised, as places in code: an exception's own text may hold what must not be logged."""
    return [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)[-5:]]


def _internal() -> CountersignError:
    request_id = structlog.contextvars.get_contextvars().get("request_id", "")
    return CountersignError("internal error: the service's log names it by this request id", request_id=request_id)
