"""The guide to several machines is true: its commands are run as they stand, each on its machine."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import PROJECT_ROOT
from tests.hosts.guide import EVERYWHERE, Machines, machines, read_blocks
from tests.hosts.network import why_not

pytestmark = pytest.mark.timeout(300)
PAGE = PROJECT_ROOT / "docs" / "deploy.md"
SECTION = "On several machines"
NAMES = ["ledger.lab", "adapter-1.lab", "adapter-2.lab", "verifier.lab", "collector.lab"]
SERVICES = ["ledger.lab:7301", "adapter-1.lab:7302", "adapter-2.lab:7302", "verifier.lab:7303"]
EPISODES = 8
MADE_FOR_ALL = {"ca.pem", "client.key", "client.pem", "server.key", "server.pem"}
KEYS = {
    "ledger.lab": {"access.toml"},
    "adapter-1.lab": {"access.toml", "token"},
    "adapter-2.lab": {"access.toml", "token"},
    "verifier.lab": {"access.toml", "token"},
    "collector.lab": {"token", "auditor.token"},
}
BIN = "~/countersign/.venv/bin"
SHOWN = "--ca ~/keys/ca.pem --certificate ~/keys/client.pem --key ~/keys/client.key"


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Machines]:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    missing = [program for program in ("git", "make", "bash") if shutil.which(program) is None]
    if missing or not (PROJECT_ROOT / ".git").exists():
        pytest.skip(f"{', '.join(missing)} not installed" if missing else "this is no checkout that can be cloned")
    with machines(tmp_path, NAMES) as made:
        yield made


def test_every_block_says_where_it_runs() -> None:
    blocks = read_blocks(PAGE, SECTION)
    assert {name for block in blocks for name in block.machines} == {*NAMES, EVERYWHERE}
    assert sum(len(block.machines) for block in blocks if block.long) == len(SERVICES) + 2


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "--host or --machine is missing"),
        (("--machine", "there"), "is there already"),
        (("--machine", "a/b"), "not a name"),
    ],
)
def test_the_authority_makes_no_folder_twice_or_elsewhere(tmp_path: Path, arguments: tuple[str, ...], why: str) -> None:
    (tmp_path / "there").mkdir()
    command = [sys.executable, str(PROJECT_ROOT / "tools" / "make_ca.py"), str(tmp_path), *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 2
    assert why in ran.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_the_guide_works_as_it_is_written(lab: Machines) -> None:
    said = [lab.run(block) for block in read_blocks(PAGE, SECTION)]
    for name, files in KEYS.items():
        found = {path.name: path.stat().st_mode & 0o77 for path in (lab.home(name) / "keys").iterdir()}
        assert found.keys() == MADE_FOR_ALL | files
        assert not any(mode for file, mode in found.items() if not file.endswith(".pem")), found
    assert "records, calls and balances add up" in said[-1]
    assert "the journal is intact" in said[-1]
    assert (lab.home("collector.lab") / "pilot" / "report.html").stat().st_size > 0

    report = collected(lab)
    assert report["total"]["planned"] == EPISODES == sum(report["total"]["completed"].values())
    assert report["total"]["verification"]["verified"] == EPISODES
    assert report["money"]["adds_up"] is True
    requests = [wire_lines(lab, name) for name in ("adapter-1.lab", "adapter-2.lab")]
    assert all(requests), "both adapters are used"
    assert report["money"]["calls"]["charged"] == sum(requests)

    refuses_who_may_not(lab)
    assert collected(lab) == report
    assert lab.stop() == [0] * (len(SERVICES) + 2), lab.said()


def collected(lab: Machines) -> dict[str, Any]:
    """The report on the collection, with the ledger's balances."""
    shown = f"--token-file ~/keys/token {SHOWN}"
    command = f"{BIN}/countersign {shown} report ~/pilot --ledger tls:ledger.lab:7301 --json"
    report: dict[str, Any] = json.loads(lab.must("collector.lab", command))
    return report


def wire_lines(lab: Machines, machine: str) -> int:
    """How many requests the provider beside an adapter received."""
    return len((lab.home(machine) / "agent.jsonl").read_text().splitlines())


def refuses_who_may_not(lab: Machines) -> None:
    """Plaintext, a client without a certificate, and callers of another role or none get nothing."""
    for address in SERVICES:
        for how in (f"--insecure --address {address}", f"--ca ~/keys/ca.pem --address tls:{address}"):
            refused(lab, "collector.lab", f"{BIN}/countersign-health {how}", "does not answer: UNAVAILABLE", 1)
    ledger = f"{BIN}/countersign {SHOWN}"
    grant = "ledger grant lab 1.00 --by mallory --reason greed --ledger tls:ledger.lab:7301"
    for machine in ("adapter-1.lab", "verifier.lab"):
        refused(lab, machine, f"{ledger} --token-file ~/keys/token {grant}", "PERMISSION_DENIED")
    refused(lab, "collector.lab", f"{ledger} {grant}", "UNAUTHENTICATED")
    verify = "ledger verify --ledger tls:ledger.lab:7301"
    refused(lab, "collector.lab", f"{ledger} --token-file ~/keys/token {verify}", "PERMISSION_DENIED")


def refused(lab: Machines, machine: str, command: str, why: str, status: int = 2) -> None:
    """A command that a service refuses, and says so in one line."""
    ran = lab.try_out(machine, command)
    assert (ran.returncode, ran.stdout) == (status, ""), (command, ran)
    assert why in ran.stderr, (command, ran)
