"""Structured logs: one JSON object a line on standard error, with the ids of the request and of the trace."""

import logging
import sys

import structlog
from structlog.typing import EventDict, WrappedLogger

from countersign.kit.observability import tracing


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
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(service=service)


def _add_trace(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    event.update(tracing.log_ids())
    return event
