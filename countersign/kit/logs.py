"""Structured logs: one JSON object a line on standard error, with the ids of the request and of the trace."""

import logging
import sys
from contextlib import suppress
from typing import TextIO, cast

import structlog
from structlog.typing import EventDict, WrappedLogger

from countersign.kit.observability import tracing


class Dropping:
    """A stream that drops what it cannot write: a full disk or a reader that has gone makes no call fail."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        """Write the text, if that is possible."""
        with suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        """Hand over what was written, if that is possible."""
        with suppress(OSError):
            self._stream.flush()


def configure_logs(service: str) -> None:
    """Send this process's logs to standard error; called once, by a process's entry."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            _add_trace,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, Dropping(sys.stderr))),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(service=service)


def _add_trace(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    event.update(tracing.log_ids())
    return event
