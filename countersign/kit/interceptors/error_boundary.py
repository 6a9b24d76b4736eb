"""The one boundary: domain errors leave with their reason, anything else as INTERNAL without text."""

import asyncio
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import structlog
from google.rpc import status_pb2
from grpc_status import rpc_status

from countersign.kit.errors import CountersignError
from countersign.kit.interceptors.around import AroundInterceptor, Context
from countersign.kit.rpc_errors import ServiceError, forwarded_status, to_status

log = structlog.get_logger()


class ErrorBoundaryInterceptor(AroundInterceptor):
    """Turns exceptions into rich statuses (design/style.md, Errors)."""

    @asynccontextmanager
    async def around(self, method: str, context: Context) -> AsyncIterator[None]:
        """Run the call; end it with a status where it raises."""
        try:
            yield
        except CountersignError as error:
            await _end(context, to_status(error))
        except ServiceError as error:
            await _end(context, forwarded_status(error))
        except (grpc.aio.AbortError, asyncio.CancelledError):
            raise
        except Exception as error:  # noqa: BLE001 - the boundary is where every other exception ends
            log.error("internal", method=method, exception=type(error).__name__, where=_where(error))
            await _end(context, to_status(_internal()))


async def _end(context: Context, status: status_pb2.Status) -> None:
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
