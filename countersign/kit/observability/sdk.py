"""Spans recorded with OpenTelemetry and exported over OTLP. Imported only where traces are asked for."""

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from importlib.metadata import version

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from countersign.kit.address import TLS_PREFIX
from countersign.kit.observability import tracing
from countersign.kit.observability.tracing import ERROR_TYPE, TRACEPARENT, Attributes, Kind, Span, error_type

EXPORT_SECONDS = 5.0
"""How long one batch of spans may take on its way."""

GOODBYE_SECONDS = 3.0
"""How long a process that ends waits for its last spans to be taken; they are lost rather than waited for."""

_KINDS = {Kind.INTERNAL: SpanKind.INTERNAL, Kind.CLIENT: SpanKind.CLIENT, Kind.SERVER: SpanKind.SERVER}
_PROPAGATOR = TraceContextTextMapPropagator()


class RecordedSpan:
    """Implements Span."""

    __slots__ = ("_span", "is_settled")

    def __init__(self, span: trace.Span) -> None:
        self._span = span
        self.is_settled = False

    @property
    def is_recording(self) -> bool:
        """Whether the sampler took it."""
        return self._span.is_recording()

    def set(self, attributes: Attributes) -> None:
        """Set attributes."""
        self._span.set_attributes(attributes)

    def fail(self, error_type: str) -> None:
        """Set `error.type` and the status."""
        self.refuse(error_type)
        self._span.set_status(Status(StatusCode.ERROR))

    def refuse(self, error_type: str) -> None:
        """Set `error.type`."""
        self.is_settled = True
        self._span.set_attribute(ERROR_TYPE, error_type)

    def end(self) -> None:
        """End it."""
        self._span.end()


class RecordedTraces:
    """Implements Traces: `processor` gets every span that ends. A provider of its own, not the process's global one."""

    def __init__(self, service: str, processor: SpanProcessor) -> None:
        resource = Resource.create(
            {"service.name": f"countersign-{service}", "service.version": version("countersign")}
        )
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("countersign")

    def begin(self, name: str, kind: Kind, attributes: Attributes, parent: str | None) -> Span:
        """A span that its caller ends."""
        return RecordedSpan(self._start(name, kind, attributes, parent))

    @contextmanager
    def span(self, name: str, kind: Kind, attributes: Attributes, parent: str | None) -> Iterator[Span]:
        """A span as the current one. An exception's text may hold what must not be exported: only its kind is told."""
        started = self._start(name, kind, attributes, parent)
        recorded = RecordedSpan(started)
        with trace.use_span(started, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            try:
                yield recorded
            except BaseException as error:
                if not recorded.is_settled:
                    recorded.fail(error_type(error))
                raise

    def _start(self, name: str, kind: Kind, attributes: Attributes, parent: str | None) -> trace.Span:
        within = None if parent is None else _PROPAGATOR.extract({TRACEPARENT: parent}, otel_context.Context())
        return self._tracer.start_span(name, within, _KINDS[kind], dict(attributes), record_exception=False)

    def current(self) -> Span:
        """OpenTelemetry's current span."""
        return RecordedSpan(trace.get_current_span())

    def traceparent(self) -> str:
        """The current span's, as the W3C wants it."""
        carrier: dict[str, str] = {}
        _PROPAGATOR.inject(carrier)
        return carrier.get(TRACEPARENT, "")

    def log_ids(self) -> Mapping[str, str]:
        """The current span's ids in hexadecimal."""
        known = trace.get_current_span().get_span_context()
        if not known.is_valid:
            return {}
        return {"trace_id": trace.format_trace_id(known.trace_id), "span_id": trace.format_span_id(known.span_id)}

    def detached(self) -> AbstractContextManager[object]:
        """No current span."""
        return trace.use_span(trace.INVALID_SPAN, record_exception=False, set_status_on_exception=False)

    def close(self) -> None:
        """Hand over what is left, and record no more."""
        self._provider.shutdown()


@contextmanager
def exported_traces(service: str, endpoint: str) -> Iterator[None]:
    """Record this process's spans and export them to `endpoint`, which was checked, as long as the context lasts."""
    # That an export is tried again is no news; that it was given up is.
    logging.getLogger("opentelemetry").setLevel(logging.ERROR)
    exporter = OTLPSpanExporter(
        endpoint=endpoint.removeprefix(TLS_PREFIX),
        insecure=not endpoint.startswith(TLS_PREFIX),
        timeout=EXPORT_SECONDS,
        channel_options=(("grpc.enable_http_proxy", 0),),  # type: ignore[arg-type] # gRPC takes a number here
    )
    traces = RecordedTraces(service, BatchSpanProcessor(exporter))
    tracing.record(traces)
    try:
        yield
    finally:
        tracing.record(None)
        # The SDK itself would wait for half a minute where nobody takes the spans.
        timer = threading.Timer(GOODBYE_SECONDS, exporter.shutdown)
        timer.start()
        traces.close()
        timer.cancel()
        timer.join()
