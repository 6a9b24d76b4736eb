"""An older client with newer services and the reverse; which version is older is read from the history."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.integration.stack import Stack, environment_of, running_stack, scripted_agent
from tests.integration.studies import toml
from tests.upgrades.older import ROOT, compatible_commits, extract, is_compatible

ANSWERS = {"OK", "INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION"}
"""How a service may end a call whose request says nothing: it was read, and found good or wanting."""


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree of the newest version whose contracts differ from today's."""
    commits = compatible_commits()
    if not commits:
        pytest.skip("the history has no version with other contracts")
    return extract(commits[0], tmp_path_factory.mktemp("older") / "tree")


def ask_all(stubs: Path, stack: Stack) -> Mapping[str, str]:
    """The status of every method that the stubs of the tree `stubs` know."""
    named = [f"{process.name}={process.address}" for process in stack.processes]
    script = str(ROOT / "tests" / "upgrades" / "ask_all.py")
    run = subprocess.run(
        [sys.executable, script, *named],
        cwd=stubs,
        env=environment_of(stubs),
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    codes: Mapping[str, str] = json.loads(run.stdout)
    return codes


def command(root: Path, *arguments: object) -> dict[str, object]:
    """The last object that the command line of the tree `root` answers; it must succeed."""
    words = [sys.executable, "-m", "countersign.cli", *map(str, arguments), "--json"]
    run = subprocess.run(words, cwd=root, env=environment_of(root), capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    last: dict[str, object] = json.loads(run.stdout.splitlines()[-1])
    return last


def write_plan(path: Path, agent: str, study: Mapping[str, str]) -> Path:
    """A plan of one world for the scripted agent; `study` has what only one of the versions knows."""
    price = {"input_per_million": "0.50", "output_per_million": "1.50"}
    url = f"http://{agent}/v1"
    route = {"name": "refuse", "base_url": url, "model": "scripted/refuse", "price": price, "output_cap": 1024}
    world = {"name": "only-a-needed", "need_a": True, "need_b": False}
    document = {
        "name": "upgrade",
        "account": {"id": "lab", "currency": "USD", "grant": "1.00"},
        "study": {"cap": "1.00", "call_ceiling": "0.05", "stop": "never", **study},
        "templates": [{"name": "queue", "environment": "queue", "realised": [world["name"]], "worlds": [world]}],
        "arms": [{"name": "neutral", "wording": "neutral"}],
        "routes": [route],
    }
    path.write_text("\n".join(f"{key} = {toml(value)}" for key, value in document.items()))
    return path


def test_the_older_contracts_are_compatible(older: Path) -> None:
    assert is_compatible(older)


def test_every_method_of_an_older_client_is_served(older: Path) -> None:
    with running_stack() as stack:
        codes = ask_all(older, stack)
    assert {method: code for method, code in codes.items() if code not in ANSWERS} == {}
    assert len(codes) > 15


def test_an_older_service_answers_both_clients_alike(older: Path) -> None:
    with running_stack(older) as stack:
        known, asked = ask_all(older, stack), ask_all(ROOT, stack)
    assert {asked[method] for method in set(asked) - set(known)} <= {"UNIMPLEMENTED"}
    assert {method: asked[method] for method in known} == dict(known)


@pytest.mark.parametrize("side", ["client", "services"])
def test_a_study_goes_from_collection_to_report_with_one_side_older(older: Path, tmp_path: Path, side: str) -> None:
    client, services = (older, None) if side == "client" else (ROOT, older)
    # Versions before it was asked for refuse the key as one that they do not know.
    knows = "readiness" in (client / "countersign" / "study" / "plan_model.py").read_text()
    study: Mapping[str, str] = {"readiness": "waived"} if knows else {}
    with running_stack(services) as stack, scripted_agent(tmp_path, "refuse") as agent:
        plan = write_plan(tmp_path / "upgrade.toml", agent.address, study)
        addresses = stack.addresses()
        collected = command(client, "collect", plan, "--out", tmp_path / "run", *addresses)
        verified = command(client, "ledger", "verify", *addresses[:2])
        report = command(client, "report", tmp_path / "run", *addresses[:2], *addresses[4:])
    assert (verified["intact"], verified["accounts"]) == (True, 1)
    total = report["total"]
    assert isinstance(total, dict)
    assert (report["study_id"], total["planned"]) == (collected["study_id"], 1)
    assert total["verification"] == {"differs": 0, "not_verified": 0, "verified": 1}
