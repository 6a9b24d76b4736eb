"""A receiver of traces on loopback, in a thread, that keeps every span as it came."""

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as pb
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc
from opentelemetry.proto.trace.v1 import trace_pb2

KINDS = {trace_pb2.Span.SPAN_KIND_INTERNAL: "internal", trace_pb2.Span.SPAN_KIND_CLIENT: "client"}


@dataclass(frozen=True)
class ReceivedSpan:
    """One span; `service` is whose it is, ids are in hexadecimal, `parent` is empty for a trace's first."""

    service: str
    name: str
    kind: str
    trace: str
    span: str
    parent: str
    attributes: Mapping[str, Any]
    failed: bool


@dataclass
class Receiver:
    """What came so far, and where it is to be sent."""

    address: str = ""
    raw: list[bytes] = field(default_factory=list)
    spans: list[ReceivedSpan] = field(default_factory=list)
    metadata: list[tuple[str, Any]] = field(default_factory=list)

    def roots(self, name: str) -> list[ReceivedSpan]:
        """The spans of that name that begin a trace."""
        return [span for span in self.spans if span.name == name and not span.parent]

    def tree(self, root: ReceivedSpan) -> tuple[str, list[Any]]:
        """A span as `service name`, with the trees of its children in the order of their text."""
        children = [self.tree(span) for span in self.spans if span.parent == root.span]
        return (f"{root.service} {root.name.removeprefix('countersign.')} {root.kind}", sorted(children, key=repr))


class _Servicer(trace_service_pb2_grpc.TraceServiceServicer):
    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._lock = threading.Lock()

    def Export(self, request: pb.ExportTraceServiceRequest, context: Any) -> pb.ExportTraceServiceResponse:
        with self._lock:
            self._receiver.raw.append(request.SerializeToString())
            self._receiver.metadata += context.invocation_metadata()
            for resource in request.resource_spans:
                service = _attributes(resource.resource.attributes)["service.name"].removeprefix("countersign-")
                for scope in resource.scope_spans:
                    self._receiver.spans += [_received(service, span) for span in scope.spans]
        return pb.ExportTraceServiceResponse()


def _received(service: str, span: trace_pb2.Span) -> ReceivedSpan:
    return ReceivedSpan(
        service=service,
        name=span.name,
        kind=KINDS.get(span.kind, "server"),
        trace=span.trace_id.hex(),
        span=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        attributes=_attributes(span.attributes),
        failed=span.status.code == trace_pb2.Status.STATUS_CODE_ERROR,
    )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver that listens."""
    receiver = Receiver()
    server = grpc.server(ThreadPoolExecutor(max_workers=4))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(_Servicer(receiver), server)  # type: ignore[no-untyped-call]
    receiver.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield receiver
    finally:
        server.stop(None).wait()
