"""The metrics over HTTP for Prometheus. Imported only where they are asked for."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, start_http_server

from countersign.kit.address import split_address
from countersign.kit.observability import metrics
from countersign.kit.observability.metrics import Instrument, InstrumentKind

_CLASSES: Mapping[InstrumentKind, Any] = {
    InstrumentKind.COUNTER: Counter,
    InstrumentKind.GAUGE: Gauge,
    InstrumentKind.HISTOGRAM: Histogram,
}


class Registry:
    """Implements Exposer. A registry of its own: nothing is exposed that this project did not declare."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()

    def metric_for(self, instrument: Instrument) -> Any:
        """The metric that Prometheus' library makes of it."""
        options = {"buckets": instrument.buckets} if instrument.kind is InstrumentKind.HISTOGRAM else {}
        make = _CLASSES[instrument.kind]
        return make(instrument.name, instrument.help, instrument.labels, registry=self.registry, **options)


@contextmanager
def exposed_metrics(address: str) -> Iterator[str]:
    """Serve the metrics at HOST:PORT, which was checked, as long as the context lasts; gives the address.

    Raises OSError where it cannot be listened on.
    """
    host, port = split_address(address)
    registry = Registry()
    server, thread = start_http_server(port, host, registry.registry)
    metrics.expose(registry)
    try:
        yield f"{address.rpartition(':')[0]}:{server.server_port}"
    finally:
        metrics.expose(None)
        server.shutdown()
        server.server_close()
        thread.join()
