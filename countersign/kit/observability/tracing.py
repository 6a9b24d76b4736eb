"""Traces as the rest of the code sees them: spans that are nothing at all while nobody asked for traces.

A span says how long a step took, what it belongs to, and how it ended: names of methods and models, numbers, reasons of
closed lists. Never content, keys, or the text of an exception (docs/observability.md).
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from enum import StrEnum
from types import TracebackType
from typing import Protocol, Self

from countersign.kit.errors import CountersignError
from countersign.kit.rpc_errors import ServiceError

TRACEPARENT = "traceparent"
"""The metadata key of the W3C trace context."""

ERROR_TYPE = "error.type"

Value = str | int | float | bool
Attributes = Mapping[str, Value]
NO_ATTRIBUTES: Attributes = {}


class Kind(StrEnum):
    """A span's part in a call."""

    INTERNAL = "INTERNAL"
    CLIENT = "CLIENT"
    SERVER = "SERVER"


class Span(Protocol):
    """One step of a trace."""

    @property
    def is_recording(self) -> bool:
        """Whether anybody will read it; what is dear to find out need not be found out otherwise."""

    def set(self, attributes: Attributes) -> None:
        """Say more about it."""

    def fail(self, error_type: str) -> None:
        """Say that it failed; `error_type` is one of few, never a text."""

    def refuse(self, error_type: str) -> None:
        """Say that it ended without a result, and has done its work all the same: the caller was told no."""

    def end(self) -> None:
        """It is over; only for spans that were begun by `begin`."""


class Traces(Protocol):
    """What records spans. `parent` is a W3C traceparent, empty for a new trace, None for what runs now."""

    def begin(self, name: str, kind: Kind, attributes: Attributes, parent: str | None) -> Span:
        """A span that its caller ends."""

    def span(self, name: str, kind: Kind, attributes: Attributes, parent: str | None) -> AbstractContextManager[Span]:
        """A span that what runs in its context belongs to; an exception makes it fail, unless it was said before."""

    def current(self) -> Span:
        """The span that runs now."""

    def traceparent(self) -> str:
        """The W3C traceparent of the span that runs now; empty where none does."""

    def log_ids(self) -> Mapping[str, str]:
        """`trace_id` and `span_id` of the span that runs now; nothing where none does."""

    def detached(self) -> AbstractContextManager[object]:
        """What runs in this context belongs to no span."""


class _NoSpan:
    """A span that nobody reads, and its own context."""

    __slots__ = ()

    is_recording = False

    def set(self, attributes: Attributes) -> None:
        """Nothing."""

    def fail(self, error_type: str) -> None:
        """Nothing."""

    def refuse(self, error_type: str) -> None:
        """Nothing."""

    def end(self) -> None:
        """Nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


NO_SPAN = _NoSpan()


class _Standing:
    """The process's traces, None while they are off."""

    traces: Traces | None = None


_standing = _Standing()


def record(traces: Traces | None) -> None:
    """Record spans of this process with `traces` from now on; None turns them off."""
    _standing.traces = traces


def is_on() -> bool:
    """Whether spans are recorded."""
    return _standing.traces is not None


def begin(
    name: str, kind: Kind = Kind.INTERNAL, attributes: Attributes = NO_ATTRIBUTES, parent: str | None = None
) -> Span:
    """As `Traces.begin`."""
    traces = _standing.traces
    return NO_SPAN if traces is None else traces.begin(name, kind, attributes, parent)


def span(
    name: str, kind: Kind = Kind.INTERNAL, attributes: Attributes = NO_ATTRIBUTES, parent: str | None = None
) -> AbstractContextManager[Span]:
    """As `Traces.span`."""
    traces = _standing.traces
    return NO_SPAN if traces is None else traces.span(name, kind, attributes, parent)


def annotate(attributes: Attributes) -> None:
    """Say more about the span that runs now."""
    traces = _standing.traces
    if traces is not None:
        traces.current().set(attributes)


def traceparent() -> str:
    """As `Traces.traceparent`; empty while traces are off."""
    traces = _standing.traces
    return "" if traces is None else traces.traceparent()


def log_ids() -> Mapping[str, str]:
    """As `Traces.log_ids`; nothing while traces are off."""
    traces = _standing.traces
    return {} if traces is None else traces.log_ids()


def detached() -> AbstractContextManager[object]:
    """As `Traces.detached`."""
    traces = _standing.traces
    return NO_SPAN if traces is None else traces.detached()


def error_type(error: BaseException) -> str:
    """What `error.type` says of an exception: its reason where it has one, else its class; never its text."""
    if isinstance(error, CountersignError):
        return error.reason
    if isinstance(error, ServiceError):
        return error.reason or error.status.name
    return type(error).__name__
