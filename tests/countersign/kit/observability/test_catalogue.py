"""Code, documentation and dashboard name the same metrics, and no label can grow without bounds."""

import json
import re
from typing import Any

import pytest

import adapter_svc.metrics
import ledger_svc.metrics
import verifier_svc.metrics
from countersign.kit.observability import rpc
from countersign.kit.observability.metrics import CATALOGUE, Instrument
from tests.conftest import PROJECT_ROOT

DECLARING = (adapter_svc.metrics, ledger_svc.metrics, verifier_svc.metrics, rpc)
DOCUMENTED = PROJECT_ROOT / "docs" / "observability.md"
DASHBOARD = PROJECT_ROOT / "deploy" / "grafana" / "countersign.json"
BOUNDED = {
    *("method", "code", "answer", "mutation", "reason", "category", "currency", "format", "verdict", "ended"),
    *("progress", "subject", "agrees", "field", "harness"),
}
"""Labels whose values are a closed list, the contract's methods or the currencies of accounts."""


def rows() -> dict[str, tuple[str, set[str]]]:
    """The documented metrics: kind and labels by name."""
    found = re.findall(r"^\| `(countersign_\w+)` \| (\w+) \|([^|]*)\|", DOCUMENTED.read_text("utf-8"), re.MULTILINE)
    return {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in found}


def panels() -> list[dict[str, Any]]:
    """The dashboard's panels that show something."""
    return [panel for panel in json.loads(DASHBOARD.read_text("utf-8"))["panels"] if panel["type"] != "row"]


def queries() -> list[str]:
    """Everything that the dashboard asks Prometheus for."""
    return [target["expr"] for panel in panels() for target in panel["targets"]]


def test_every_declared_metric_is_in_the_catalogue() -> None:
    declared = {one.name for module in DECLARING for one in vars(module).values() if isinstance(one, Instrument)}
    assert declared == {name for name in CATALOGUE if name.startswith("countersign_")} == set(CATALOGUE)


def test_the_documentation_has_every_metric_with_its_kind_and_labels_and_no_other() -> None:
    assert rows() == {one.name: (one.kind.value, set(one.labels)) for one in CATALOGUE.values()}


@pytest.mark.parametrize("instrument", CATALOGUE.values(), ids=CATALOGUE)
def test_a_name_and_labels_are_of_the_documented_form(instrument: Instrument) -> None:
    assert re.fullmatch(r"countersign_(rpc|ledger|adapter|verifier)_[a-z_]+", instrument.name)
    assert not instrument.name.endswith("_total")
    assert instrument.help.endswith(".")
    assert set(instrument.labels) <= BOUNDED
    assert {len(values) for values in instrument.known} <= {len(instrument.labels)}


def test_the_dashboard_asks_for_series_that_exist_and_shows_every_metric() -> None:
    series = {name: one.name for one in CATALOGUE.values() for name in one.series()}
    asked = {name for query in queries() for name in re.findall(r"countersign_\w+", query)}
    assert asked <= set(series)
    assert {series[name] for name in asked} == set(CATALOGUE)


def test_the_dashboard_groups_by_labels_that_the_metric_has() -> None:
    for query in queries():
        (name,) = {one.name for one in CATALOGUE.values() if re.search(rf"\b{one.name}(_\w+)?\b", query)}
        grouped = {label.strip() for by in re.findall(r"by \(([^)]*)\)", query) for label in by.split(",")}
        selected = set(re.findall(r"(\w+)=\"", query))
        assert grouped | selected <= {*CATALOGUE[name].labels, "le"}, query


def test_the_dashboard_is_a_model_that_grafana_takes() -> None:
    document = json.loads(DASHBOARD.read_text("utf-8"))
    ids = [panel["id"] for panel in document["panels"]]
    assert len(set(ids)) == len(ids)
    assert (document["title"], document["uid"], document["schemaVersion"]) == ("Countersign", "countersign", 39)
    (variable,) = document["templating"]["list"]
    source = {"type": "prometheus", "uid": f"${{{variable['name']}}}"}
    for panel in panels():
        assert panel["type"] in ("timeseries", "stat")
        assert panel["datasource"] == source
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert [target["refId"] for target in panel["targets"]] == list("ABC")[: len(panel["targets"])]
        assert all(target["datasource"] == source for target in panel["targets"])


def test_the_dashboards_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(DASHBOARD.read_text("utf-8"))["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _ in cells) < 24
        assert cells.isdisjoint(taken)
        taken |= cells
