"""Metrics in a stack or a cluster: nowhere unless they are asked for, and then for a Prometheus alone."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.dockerfile import SERVICES, settings_of
from tests.deploy.test_manifests import COMPOSE, DEPLOY, read_yaml
from tests.deploy.tools import run, tool

Document = dict[str, Any]
PORT = 9464
ADDRESS = f"0.0.0.0:{PORT}"


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's manifests with the component."""
    folder = tmp_path_factory.mktemp("observed")
    example, component = (
        os.path.relpath(DEPLOY / "kubernetes" / name, folder) for name in ("example", "observability")
    )
    (folder / "kustomization.yaml").write_text(f"resources: [{example}]\ncomponents: [{component}]\n")
    path = folder / "all.yaml"
    path.write_text(run(tool("kubectl"), "kustomize", folder))
    return path


@pytest.fixture(scope="module")
def manifests(rendered: Path) -> dict[tuple[str, str], Document]:
    return {(one["kind"], one["metadata"]["name"]): one for one in read_yaml(rendered.read_text())}


def test_the_manifests_with_metrics_are_ones_by_kubernetes_own_schemas(rendered: Path) -> None:
    run(tool("kubernetes-validate"), "--strict", rendered)


@pytest.mark.parametrize("name", SERVICES)
def test_every_pod_of_a_cluster_can_be_scraped(
    manifests: dict[tuple[str, str], Document], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = manifests["Deployment", name]["spec"]["template"]
    container = template["spec"]["containers"][0]
    settings = settings_of(name, {one["name"]: one["value"] for one in container["env"]}, monkeypatch)
    assert (settings.metrics_listen, settings.metrics_anywhere) == (ADDRESS, True)
    assert {"name": "metrics", "containerPort": PORT} in container["ports"]
    assert template["metadata"]["annotations"]["prometheus.io/port"] == str(PORT)


def test_only_a_labelled_namespace_may_read_them(manifests: dict[tuple[str, str], Document]) -> None:
    policy = manifests["NetworkPolicy", "metrics"]["spec"]
    assert policy["podSelector"]["matchExpressions"][0]["values"] == list(SERVICES)
    assert policy["ingress"] == [
        {
            "from": [{"namespaceSelector": {"matchLabels": {"countersign.dev/monitoring": "true"}}}],
            "ports": [{"protocol": "TCP", "port": PORT}],
        }
    ]
    others = [one["spec"] for (kind, name), one in manifests.items() if kind == "NetworkPolicy" and name != "metrics"]
    opened = [port["port"] for one in others for rule in one.get("ingress", []) for port in rule.get("ports", [])]
    assert PORT not in opened


def test_the_stack_s_metrics_are_on_a_network_without_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    run(tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", DEPLOY / "compose.metrics.yaml")
    (more,) = read_yaml((DEPLOY / "compose.metrics.yaml").read_text())
    assert more["networks"] == {"metrics": {"internal": True}}
    assert set(more["services"]) == set(SERVICES)
    for name, service in more["services"].items():
        settings = settings_of(name, service["environment"], monkeypatch)
        assert (settings.metrics_listen, settings.metrics_anywhere) == (ADDRESS, True)
        assert service["networks"] == ["metrics"]


@pytest.mark.parametrize("path", [COMPOSE, *sorted((DEPLOY / "kubernetes" / "base").glob("*.yaml"))], ids=str)
def test_nothing_is_measured_unless_it_is_asked_for(path: Path) -> None:
    assert "METRICS" not in path.read_text()
    assert "OTLP" not in path.read_text()
