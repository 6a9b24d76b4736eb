"""One log line a call: method, status, milliseconds; never a payload."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from countersign.kit.errors import CountersignError

log = structlog.get_logger()


@contextmanager
def logged(method: str) -> Iterator[None]:
    """Log what ended the call: refusals carry their reason, failures the name of the exception's class."""
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
