"""Every entry point of the images, run as the Dockerfile has it: as its user, on a read-only root, from a wheel."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import PROJECT_ROOT
from tests.deploy.dockerfile import SERVICES, TARGETS, image
from tests.deploy.sandbox import Container, build
from tests.hosts.network import Host, Running, network, why_not

pytestmark = pytest.mark.timeout(120)

PLAN = """
name = "contained"
[account]
id = "lab"
currency = "USD"
grant = "1"
[study]
cap = "1"
call_ceiling = "0.1"
[[templates]]
name = "queue"
environment = "queue"
worlds = [{ name = "both", need_a = true, need_b = true }]
[[arms]]
name = "neutral"
wording = "neutral"
[[routes]]
name = "good"
agent = { kind = "scripted", policy = "act-well" }
price = { input_per_million = 1, output_per_million = 2 }
output_cap = 500
input_limit_bytes = 40_000
"""
CLIENTS = {"ledger": "probe", "adapter": "adapter-client", "verifier": "verifier-client", "cli": "operator"}
TOKENS = {"adapter": "adapter", "verifier": "verifier", "cli": "operator"}


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    """One machine with a loopback, on which all containers are."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    if shutil.which("bwrap") is None:
        pytest.skip("bwrap is not installed; on Debian: apt-get install bubblewrap")
    with network() as net:
        yield net.add("machine")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("images")


@pytest.fixture(scope="module")
def containers(host: Host, folder: Path) -> dict[str, Container]:
    """One of each target, with the secrets that a stack gives it, owned by the images' user."""
    prefix, made = build(folder), folder / "secrets"
    script = PROJECT_ROOT / "tools" / "trial_secrets.py"
    subprocess.run([sys.executable, script, made], cwd=PROJECT_ROOT, check=True, timeout=60)
    names = folder / "hosts"
    names.write_text("127.0.0.1 localhost ledger adapter verifier\n")
    found = {}
    for target in TARGETS:
        secrets, state = folder / f"{target}-secrets", folder / f"{target}-state"
        secrets.mkdir()
        state.mkdir()
        given = {"ca.crt": "ca.crt", "client.crt": f"{CLIENTS[target]}.crt", "client.key": f"{CLIENTS[target]}.key"}
        if target in SERVICES:
            given |= {"tls.crt": f"{target}.crt", "tls.key": f"{target}.key", "access.toml": "access.toml"}
        if target in TOKENS:
            given["ledger.token"] = f"{TOKENS[target]}.token"
        for name, source in given.items():
            shutil.copy(made / source, secrets / name)
        user, _, group = image(target).user.partition(":")
        for path in (secrets, state, *secrets.iterdir()):
            shutil.chown(path, int(user), int(group))
        found[target] = Container(host, prefix, image(target), secrets, state, names)
    return found


@pytest.fixture(scope="module")
def running(containers: dict[str, Container], folder: Path) -> Iterator[dict[str, Running]]:
    """The three services, by their ENTRYPOINT and CMD."""
    found: dict[str, Running] = {}
    try:
        for name in SERVICES:
            found[name] = containers[name].start(name, folder / f"{name}.log")
        yield found
    finally:
        for one in found.values():
            one.kill()


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_explains_itself(containers: dict[str, Container], target: str) -> None:
    ran = containers[target].run(*containers[target].image.entrypoint, "--help")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("usage" if target in SERVICES else " ") or "Usage" in ran.stdout
    assert ran.stderr == ""


@pytest.mark.parametrize("target", SERVICES)
def test_a_service_is_healthy_by_the_images_own_check(
    containers: dict[str, Container], running: dict[str, Running], target: str
) -> None:
    check = containers[target].image.healthcheck
    ran = containers[target].run(*check)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    assert containers[target].run(*check, "--alive").returncode == 0
    elsewhere = replace(containers[target], environment={"COUNTERSIGN_HEALTH_ADDRESS": "tls:localhost:9"})
    ran = elsewhere.run(*check)
    assert (ran.returncode, ran.stderr) == (1, "countersign-health: tls:localhost:9 does not answer: UNAVAILABLE\n")
    plain = replace(containers[target], environment={"COUNTERSIGN_HEALTH_ADDRESS": "192.0.2.1:9"})
    assert plain.run(*check).returncode == 2


@pytest.mark.parametrize("target", SERVICES)
def test_a_service_is_nobody_and_may_nothing(running: dict[str, Running], target: str) -> None:
    process = running[target].process
    assert process is not None
    inside = _descendants(process.pid)[-1]
    status = dict(line.split(":", 1) for line in Path(f"/proc/{inside}/status").read_text().splitlines() if ":" in line)
    user, _, group = image(target).user.partition(":")
    assert set(status["Uid"].split()) == {user}
    assert set(status["Gid"].split()) == {group}
    assert status["NoNewPrivs"].strip() == "1"
    assert {int(status[name], 16) for name in ("CapPrm", "CapEff", "CapBnd", "CapInh", "CapAmb")} == {0}
    limits = Path(f"/proc/{inside}/limits").read_text()
    (core,) = (line.split() for line in limits.splitlines() if line.startswith("Max core file size"))
    assert core[4:6] == ["0", "0"], "a crash must leave no memory behind"


def test_nothing_but_the_state_can_be_written(containers: dict[str, Container]) -> None:
    tried = "for f in /x /opt/countersign/x /usr/x /run/secrets/x; do ! touch $f 2>/dev/null || exit 1; done; touch x"
    ran = containers["ledger"].run("sh", "-c", tried)
    assert ran.returncode == 0, ran.stderr
    assert (containers["ledger"].state / "x").is_file()


def test_a_study_is_collected_and_reported_from_the_command_lines_image(
    containers: dict[str, Container], running: dict[str, Running]
) -> None:
    cli = containers["cli"]
    (cli.state / "plan.toml").write_text(PLAN)
    where = ("--adapter", "tls:adapter:7302", "--verifier", "tls:verifier:7303")
    ran = cli.run(*cli.image.entrypoint, "collect", "plan.toml", "--out", "run", *where, "--json")
    assert ran.returncode == 0, ran.stderr + running["ledger"].log.read_text()
    report = json.loads(ran.stdout.splitlines()[-1])
    assert report["total"]["completed"] == {"explicit_finish": 1}
    assert report["total"]["verification"] == {"verified": 1, "differs": 0, "not_verified": 0}
    ran = cli.run(*cli.image.entrypoint, "ledger", "account", "lab", "--json")
    assert ran.returncode == 0, ran.stderr
    assert (containers["ledger"].state / "countersign-ledger.db").is_file(), "the default store is in the state folder"


def test_without_its_secrets_a_service_says_which_is_missing(containers: dict[str, Container], tmp_path: Path) -> None:
    empty = replace(containers["ledger"], secrets=tmp_path)
    ran = empty.run(*empty.image.entrypoint)
    assert ran.returncode == 2
    assert ran.stderr.startswith("ledger: the key") or ran.stderr.startswith("ledger: the certificate")
    assert ran.stderr.count("\n") == 1


def test_an_image_told_to_listen_in_plaintext_beyond_loopback_refuses(containers: dict[str, Container]) -> None:
    given = {name: value for name, value in image("verifier").environment.items() if "_TLS_" not in name}
    bare = replace(containers["verifier"], image=replace(image("verifier"), environment=given))
    ran = bare.run(*bare.image.entrypoint)
    assert ran.returncode == 2
    assert "is not on loopback" in ran.stderr


def test_a_service_ends_when_it_is_told(containers: dict[str, Container], folder: Path) -> None:
    one = replace(containers["verifier"], environment={"COUNTERSIGN_VERIFIER_LISTEN": "127.0.0.1:0"})
    process = one.start("verifier", folder / "ended.log")
    assert process.process is not None
    inside = _descendants(process.process.pid)[-1]
    os.kill(inside, signal.SIGTERM)
    assert process.process.wait(20) == 0
    process.kill()


def test_the_compose_files_command_for_collecting_is_the_documented_one() -> None:
    line = "collect /studies/plan.toml --adapter tls:adapter:7302 --verifier tls:verifier:7303"
    assert line in (PROJECT_ROOT / "deploy" / "compose.yaml").read_text()
    assert line in (PROJECT_ROOT / "docs" / "deploy.md").read_text()


def _descendants(process: int) -> list[int]:
    """A process and what it has started, down to the last."""
    found = [process]
    while children := Path(f"/proc/{found[-1]}/task/{found[-1]}/children").read_text().split():
        found.append(int(children[-1]))
    return found
