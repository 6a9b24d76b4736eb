"""Metrics as the rest of the code sees them: instruments that do nothing until a process exposes them.

Each is declared once, at import, with every label that it can ever have. A label's values come from closed lists, from
the contract or from currencies: never an id of a study, an episode, a call or an account (docs/observability.md).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, TypeVar

SECONDS_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds of the histograms of times, in seconds: from a commit to a model that thinks."""


class InstrumentKind(StrEnum):
    """How a metric is to be read."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(slots=True)
class Instrument:
    """A declared metric. `exposed` is the metric of whoever exposes it, None while nobody does.

    `known` are values of the labels that are there from the beginning, at zero: Prometheus sees no increase in a series
    that was not there before, so that an alarm would miss the first.
    """

    kind: InstrumentKind
    name: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    known: tuple[tuple[str, ...], ...] = ()
    exposed: Any = None

    @property
    def is_on(self) -> bool:
        """Whether anybody will read it; what is dear to find out need not be found out otherwise."""
        return self.exposed is not None

    def series(self) -> list[str]:
        """The names under which it is scraped."""
        match self.kind:
            case InstrumentKind.COUNTER:
                return [f"{self.name}_total"]
            case InstrumentKind.GAUGE:
                return [self.name]
            case InstrumentKind.HISTOGRAM:
                return [f"{self.name}_bucket", f"{self.name}_sum", f"{self.name}_count"]

    def _child(self, labels: Sequence[str]) -> Any:
        return self.exposed.labels(*labels) if self.labels else self.exposed


class Counter(Instrument):
    """Counts what happened since the process began."""

    __slots__ = ()

    def add(self, amount: float, *labels: str) -> None:
        """Count `amount` more under these values of the labels, in their order."""
        if self.exposed is not None:
            self._child(labels).inc(amount)


class Gauge(Instrument):
    """Says what is the case while it is scraped."""

    __slots__ = ()

    def follow(self, read: Callable[[], float]) -> None:
        """Ask `read` at each scrape, in another thread."""
        if self.exposed is not None:
            self.exposed.set_function(read)


class Histogram(Instrument):
    """Counts values by size."""

    __slots__ = ()

    def record(self, value: float, *labels: str) -> None:
        """Count one value under these values of the labels, in their order."""
        if self.exposed is not None:
            self._child(labels).observe(value)


Declared = TypeVar("Declared", bound=Instrument)

CATALOGUE: dict[str, Instrument] = {}
"""Every metric that this process has declared, by its name."""


def counter(name: str, help_text: str, *labels: str, known: Iterable[tuple[str, ...]] = ()) -> Counter:
    """Declare a counter; `name` without `_total`."""
    return _declare(Counter(InstrumentKind.COUNTER, name, help_text, labels, known=tuple(known)))


def gauge(name: str, help_text: str) -> Gauge:
    """Declare a gauge."""
    return _declare(Gauge(InstrumentKind.GAUGE, name, help_text))


def histogram(name: str, help_text: str, *labels: str, buckets: tuple[float, ...] = SECONDS_BUCKETS) -> Histogram:
    """Declare a histogram."""
    return _declare(Histogram(InstrumentKind.HISTOGRAM, name, help_text, labels, buckets))


class Exposer(Protocol):
    """What makes a declared metric readable."""

    def metric_for(self, instrument: Instrument) -> Any:
        """Something with `labels`, and `inc`, `observe` or `set_function`."""


def expose(exposer: Exposer | None) -> None:
    """Let `exposer` have every declared metric from now on, from zero; None turns them off."""
    for instrument in CATALOGUE.values():
        instrument.exposed = None if exposer is None else exposer.metric_for(instrument)
        if exposer is not None:
            for labels in instrument.known:
                instrument.exposed.labels(*labels)


def _declare(instrument: Declared) -> Declared:
    if instrument.name in CATALOGUE:
        raise ValueError(f"{instrument.name} is declared twice")
    CATALOGUE[instrument.name] = instrument
    return instrument
