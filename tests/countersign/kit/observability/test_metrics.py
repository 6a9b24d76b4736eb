"""Instruments: nothing while off; while on, what was declared and no more."""

import pytest

from countersign.kit.observability import metrics
from countersign.kit.observability.metrics import CATALOGUE, Counter, InstrumentKind
from countersign.kit.observability.rpc import RPC_SECONDS
from tests.countersign.kit.observability.recording import recording


def test_what_is_counted_while_off_is_not_kept() -> None:
    assert not RPC_SECONDS.is_on
    RPC_SECONDS.record(1.0, "Service/Method", "OK")
    with recording() as recorded:
        assert recorded.values("countersign_rpc_seconds_count") == {}
        RPC_SECONDS.record(1.0, "Service/Method", "OK")
        assert recorded.values("countersign_rpc_seconds_count") == {("Service/Method", "OK"): 1.0}
    assert not RPC_SECONDS.is_on


def test_a_gauge_is_asked_when_it_is_scraped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "CATALOGUE", {})
    gauge = metrics.gauge("countersign_test_depth", "How deep.")
    gauge.follow(lambda: 1)
    depths = [3.0]
    with recording() as recorded:
        gauge.follow(lambda: depths[-1])
        assert recorded.value("countersign_test_depth") == 3.0
        depths.append(4.0)
        assert recorded.value("countersign_test_depth") == 4.0


def test_known_labels_are_there_before_anything_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "CATALOGUE", {})
    counter = metrics.counter("countersign_test_things", "Things.", "kind", known=(("good",), ("bad",)))
    with recording() as recorded:
        counter.add(1, "good")
        assert recorded.value("countersign_test_things_total", kind="good") == 1
        assert recorded.value("countersign_test_things_total", kind="bad") == 0
        assert recorded.value("countersign_test_things_total", kind="other") is None


def test_a_name_is_declared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "CATALOGUE", {})
    metrics.counter("countersign_test_things", "Things.")
    with pytest.raises(ValueError, match="declared twice"):
        metrics.counter("countersign_test_things", "Other things.")


def test_the_names_under_which_an_instrument_is_scraped_are_those_of_its_series(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metrics, "CATALOGUE", {})
    counter = metrics.counter("countersign_test_things", "Things.")
    histogram = metrics.histogram("countersign_test_seconds", "How long.", buckets=(1.0,))
    gauge = metrics.gauge("countersign_test_depth", "How deep.")
    with recording() as recorded:
        scraped = {sample.name for family in recorded.registry.registry.collect() for sample in family.samples}
    assert scraped == {*counter.series(), *histogram.series(), *gauge.series()}
    assert isinstance(counter, Counter)
    assert histogram.kind is InstrumentKind.HISTOGRAM
    assert set(metrics.CATALOGUE) == {"countersign_test_things", "countersign_test_seconds", "countersign_test_depth"}
    assert set(metrics.CATALOGUE).isdisjoint(CATALOGUE)
