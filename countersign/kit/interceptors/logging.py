"""One log line a call: method, status, milliseconds; never a payload."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from countersign.kit.errors import CountersignError
from countersign.kit.interceptors.around import AroundInterceptor, Context

log = structlog.get_logger()


class LoggingInterceptor(AroundInterceptor):
    """Logs what ended each call. Refusals carry their reason, failures the name of the exception's class."""

    @asynccontextmanager
    async def around(self, method: str, context: Context) -> AsyncIterator[None]:
        """Log when the call has run."""
        start = time.monotonic()
        ended = "ok"
        try:
            yield
        except CountersignError as error:
            ended = error.reason
            raise
        except BaseException as error:
            ended = type(error).__name__
            raise
        finally:
            log.info("rpc", method=method, ended=ended, millis=round((time.monotonic() - start) * 1000, 1))
