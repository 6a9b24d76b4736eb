"""Spans and metrics of this process, recorded for a test."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from countersign.kit.observability import metrics, tracing
from countersign.kit.observability.exposition import Registry
from countersign.kit.observability.sdk import RecordedTraces


@dataclass
class Recorded:
    """What was recorded so far."""

    exporter: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)
    registry: Registry = field(default_factory=Registry)

    def spans(self, name: str = "") -> list[ReadableSpan]:
        """The spans that ended, in this order, whose name ends so."""
        return [span for span in self.exporter.get_finished_spans() if span.name.endswith(name)]

    def value(self, series: str, **labels: str) -> float | None:
        """A series' value now; None where it was never counted."""
        return self.registry.registry.get_sample_value(series, labels)

    def values(self, series: str) -> dict[tuple[str, ...], float]:
        """Every value of a series that is not zero, by its labels' values."""
        return {
            tuple(sample.labels.values()): sample.value
            for family in self.registry.registry.collect()
            for sample in family.samples
            if sample.name == series and sample.value
        }


@contextmanager
def recording() -> Iterator[Recorded]:
    """Traces and metrics on, as long as the context lasts."""
    recorded = Recorded()
    traces = RecordedTraces("test", SimpleSpanProcessor(recorded.exporter))
    tracing.record(traces)
    metrics.expose(recorded.registry)
    try:
        yield recorded
    finally:
        metrics.expose(None)
        tracing.record(None)
        traces.close()


def attributes(span: ReadableSpan) -> dict[str, Any]:
    """A span's attributes."""
    return dict(span.attributes or {})


def ids(span: ReadableSpan) -> tuple[int, int]:
    """A span's trace and its own id."""
    return span.context.trace_id, span.context.span_id


def parent_of(span: ReadableSpan) -> tuple[int, int] | None:
    """The trace and the id of what a span belongs to."""
    return None if span.parent is None else (span.parent.trace_id, span.parent.span_id)
