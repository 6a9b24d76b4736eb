"""deploy/: the Compose file and the Kubernetes manifests, by their own schemas and by what they must never allow."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import PROJECT_ROOT
from tests.deploy.dockerfile import SERVICES, image, settings_of
from tests.deploy.tools import run, tool

DEPLOY = PROJECT_ROOT / "deploy"
COMPOSE = DEPLOY / "compose.yaml"
TO_JSON = "import json, sys, ruamel.yaml as y; print(json.dumps(list(y.YAML(typ='safe').load_all(sys.stdin))))"
Document = dict[str, Any]


def read_yaml(text: str) -> list[Document]:
    """Documents, by the parser of the tools: the project itself has none."""
    ran = subprocess.run([tool("python"), "-c", TO_JSON], input=text, capture_output=True, text=True, check=True)
    documents: list[Document] = json.loads(ran.stdout)
    return documents


@pytest.fixture(scope="module")
def compose() -> Document:
    (document,) = read_yaml(COMPOSE.read_text())
    return document


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's manifests, as kustomize makes them."""
    path = tmp_path_factory.mktemp("manifests") / "all.yaml"
    path.write_text(run(tool("kubectl"), "kustomize", DEPLOY / "kubernetes" / "example"))
    return path


@pytest.fixture(scope="module")
def manifests(rendered: Path) -> dict[tuple[str, str], Document]:
    return {(one["kind"], one["metadata"]["name"]): one for one in read_yaml(rendered.read_text())}


def test_the_yaml_is_tidy() -> None:
    run(tool("yamllint"), "--strict", "--config-file", DEPLOY / ".yamllint.yaml", DEPLOY)


def test_the_compose_file_is_one_by_the_specification() -> None:
    run(tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", COMPOSE)


def test_the_manifests_are_ones_by_kubernetes_own_schemas(rendered: Path) -> None:
    run(tool("kubernetes-validate"), "--strict", rendered)


def test_no_container_of_the_stack_may_more_than_it_needs(compose: Document) -> None:
    for name, service in compose["services"].items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["ulimits"]["core"] == 0, name
        assert int(service["user"].partition(":")[0]) > 0, name
        assert "privileged" not in service, name
        assert "ports" not in service, "nothing is published: whoever collects is in the stack's network"


def test_only_the_adapter_reaches_the_world_and_only_the_ledger_the_database(compose: Document) -> None:
    networks = {name: set(service["networks"]) for name, service in compose["services"].items()}
    assert {name for name, joined in networks.items() if "providers" in joined} == {"adapter"}
    assert {name for name, joined in networks.items() if "books" in joined} == {"postgres", "ledger"}
    assert {name for name, one in compose["networks"].items() if not one.get("internal")} == {"providers"}


def test_the_stack_starts_in_the_order_of_its_health(compose: Document) -> None:
    healthy = {"condition": "service_healthy"}
    needs = {name: service.get("depends_on", {}) for name, service in compose["services"].items()}
    assert needs["ledger"] == {"postgres": healthy}
    assert needs["adapter"] == needs["verifier"] == {"ledger": healthy}
    assert compose["services"]["postgres"]["healthcheck"]["test"][:2] == ["CMD", "pg_isready"]
    for name in SERVICES:
        assert image(name).healthcheck == ["countersign-health"]


def test_every_secret_is_a_file_and_every_mounted_one_is_known(compose: Document) -> None:
    for name, secret in compose["secrets"].items():
        assert secret == {"file": f"./secrets/{name}"}
    for name, service in compose["services"].items():
        sources = [one if isinstance(one, str) else one["source"] for one in service["secrets"]]
        targets = {one if isinstance(one, str) else one["target"] for one in service["secrets"]}
        assert set(sources) <= set(compose["secrets"]), name
        variables = dict(service.get("environment", {}))
        if name != "postgres":
            variables |= image(name).environment
        used = {value.removeprefix("/run/secrets/") for value in variables.values() if "/run/secrets/" in value}
        assert used <= targets, name


@pytest.mark.parametrize("name", SERVICES)
def test_every_variable_of_the_stack_is_a_setting(
    compose: Document, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(name, compose["services"][name].get("environment", {}), monkeypatch)
    assert float(compose["services"][name]["stop_grace_period"].removesuffix("s")) > settings.drain_seconds


@pytest.mark.parametrize("name", SERVICES)
def test_a_pod_is_probed_limited_and_without_rights(manifests: dict[tuple[str, str], Document], name: str) -> None:
    pod = manifests["Deployment", name]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert f"{pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}" == image(name).user
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert set(container["resources"]["limits"]) == {"cpu", "memory"}
    for probe, command in (("startup", []), ("readiness", []), ("liveness", ["--alive"])):
        assert container[f"{probe}Probe"]["exec"]["command"] == [*image(name).healthcheck, *command]
    assert "@sha256:" in container["image"]
    assert container["ports"] == [{"name": "grpc", "containerPort": image(name).port}]
    budget = manifests["PodDisruptionBudget", name]["spec"]
    assert budget["selector"]["matchLabels"] == {"app.kubernetes.io/name": name}


@pytest.mark.parametrize("name", SERVICES)
def test_a_pods_variables_are_settings_and_its_files_are_mounted(
    manifests: dict[tuple[str, str], Document], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = manifests["Deployment", name]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    own = {one["name"]: one["value"] for one in container.get("env", [])}
    given = {**image(name).environment, **own}
    settings = settings_of(name, own, monkeypatch)
    assert pod["terminationGracePeriodSeconds"] > settings.drain_seconds
    (mounted,) = (volume["projected"] for volume in pod["volumes"] if volume["name"] == "secrets")
    assert mounted["defaultMode"] == 0o440
    files = {item["path"] for source in mounted["sources"] for item in source["secret"]["items"]}
    used = {value.removeprefix("/run/secrets/") for value in given.values() if "/run/secrets/" in value}
    assert used == files


def test_secrets_are_referred_to_and_never_in_a_manifest(manifests: dict[tuple[str, str], Document]) -> None:
    assert not [key for key in manifests if key[0] in ("Secret", "ConfigMap")]
    holders = [name for name in SERVICES if "envFrom" in str(manifests["Deployment", name])]
    assert holders == ["adapter"], "the providers' keys"


def test_the_network_is_closed_but_for_named_ways(manifests: dict[tuple[str, str], Document]) -> None:
    policies = {name: one["spec"] for (kind, name), one in manifests.items() if kind == "NetworkPolicy"}
    assert policies["deny-all"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    assert policies["names"]["egress"][0]["ports"] == [{"protocol": p, "port": 53} for p in ("UDP", "TCP")]
    ways = {
        (name, peer["podSelector"]["matchLabels"]["app.kubernetes.io/name"], rule["ports"][0]["port"])
        for name, policy in policies.items()
        for rule in policy.get("egress", [])
        for peer in rule["to"]
        if "podSelector" in peer and "namespaceSelector" not in peer
    }
    ledger, adapter, verifier = (image(name).port for name in ("ledger", "adapter", "verifier"))
    assert ways == {
        ("adapter", "ledger", ledger),
        ("verifier", "ledger", ledger),
        ("collector", "ledger", ledger),
        ("collector", "adapter", adapter),
        ("collector", "verifier", verifier),
    }
    blocks = {name: str(policy.get("egress")) for name, policy in policies.items() if "ipBlock" in str(policy)}
    assert set(blocks) == {"adapter", "ledger"}
    assert "0.0.0.0/0" in blocks["adapter"]
    assert "0.0.0.0/0" not in blocks["ledger"]
    callers = {
        name: {
            peer["podSelector"]["matchLabels"]["app.kubernetes.io/name"]
            for rule in policy.get("ingress", [])
            for peer in rule["from"]
        }
        for name, policy in policies.items()
    }
    assert callers["ledger"] == {"adapter", "verifier", "collector"}
    assert callers["adapter"] == callers["verifier"] == {"collector"}


def test_what_can_be_many_is_scaled_and_the_books_are_not(manifests: dict[tuple[str, str], Document]) -> None:
    scaled = {name for kind, name in manifests if kind == "HorizontalPodAutoscaler"}
    assert scaled == {"adapter", "verifier"}
    assert manifests["Deployment", "ledger"]["spec"]["replicas"] == 2
    for name in scaled:
        assert "replicas" not in manifests["Deployment", name]["spec"], "the autoscaler decides"
