"""The ledger as a client in another language sees it, from the contract in protos/ alone (design/architecture.md)."""

import hashlib
import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ledger_svc.calls import Slot
from tests.conftest import PROJECT_ROOT

LEDGER = "countersign.ledger.v1.LedgerService"
REQUEST = b'{"messages":[],"model":"example"}'
RESPONSE = b'{"choices":[],"usage":{"cost":0.1234567891}}'
CALL_ID = Slot("node-study", "episode-1", 1).call_id().hex()

START_SECONDS = 30
STOP_SECONDS = 30
CLIENT_SECONDS = 60
INSTALL_SECONDS = 180
# npm's own words for a machine that is not connected.
UNREACHABLE = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ENETUNREACH", "ETIMEDOUT", "ERR_SOCKET_TIMEOUT")

# An installation from the package registry may take longer than a test otherwise may.
pytestmark = pytest.mark.timeout(INSTALL_SECONDS + 60)


@dataclass(frozen=True, slots=True)
class NodeClient:
    """The client with its packages installed, and a copy of the contract with nothing of Countersign beside it."""

    node: str
    folder: Path
    protos: Path

    def run(self, script: str, *arguments: str) -> dict[str, Any]:
        """What the script printed as JSON."""
        done = subprocess.run(
            [self.node, script, *arguments], cwd=self.folder, capture_output=True, text=True, timeout=CLIENT_SECONDS
        )
        assert done.returncode == 0, done.stderr
        seen: dict[str, Any] = json.loads(done.stdout)
        return seen


@pytest.fixture(scope="module")
def node_client(tmp_path_factory: pytest.TempPathFactory) -> NodeClient:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("Node.js with npm is not installed")
    root = tmp_path_factory.mktemp("node")
    folder, protos = root / "client", root / "protos"
    ignored = shutil.ignore_patterns("node_modules")
    shutil.copytree(Path(__file__).parent / "node", folder, ignore=ignored)
    shutil.copytree(PROJECT_ROOT / "protos", protos)
    _install(npm, folder)
    return NodeClient(node, folder, protos)


def _install(npm: str, folder: Path) -> None:
    command = [npm, "ci", "--prefer-offline"]
    command += ["--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-timeout=30000"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    if done.returncode != 0 and any(f"code {code}" in done.stderr for code in UNREACHABLE):
        pytest.skip("the npm package registry cannot be reached and its packages are not in npm's cache")
    assert done.returncode == 0, done.stderr


@pytest.fixture
def ledger_address(tmp_path: Path) -> Iterator[str]:
    """Where a ledger of its own process, with an empty store, listens; it must stop cleanly when its starter goes."""
    log = tmp_path / "ledger.log"
    command = [sys.executable, "-m", "ledger_svc", "--listen", "127.0.0.1:0"]
    command += ["--database", str(tmp_path / "ledger.db"), "--exit-with-stdin"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("COUNTERSIGN_")}
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            command, cwd=PROJECT_ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr
        )
    try:
        yield _announced_address(process, log)
        process.communicate(timeout=STOP_SECONDS)
        assert process.returncode == 0, log.read_text()
    finally:
        process.kill()
        process.communicate()


def _announced_address(process: subprocess.Popen[bytes], log: Path) -> str:
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], START_SECONDS)
    line = process.stdout.readline() if ready else b""
    assert line, log.read_text()
    announcement = json.loads(line)
    assert announcement["event"] == "listening"
    assert announcement["service"] == "ledger"
    address: str = announcement["address"]
    return address


def usd(units: int, nanos: int) -> dict[str, str]:
    """An amount as the client prints it."""
    return {"currency_code": "USD", "units": str(units), "nanos": str(nanos)}


def balances(granted: dict[str, str], available: dict[str, str]) -> dict[str, Any]:
    """Balances after the client's one charge."""
    return {
        "granted": granted,
        "prior_spend": usd(0, 0),
        "charged": usd(0, 123_456_790),
        "reserved": usd(0, 0),
        "held": usd(0, 0),
        "resolved": usd(0, 0),
        "available": available,
        "charged_count": "1",
        "reserved_count": "0",
        "held_count": "0",
        "resolved_count": "0",
    }


def test_node_spends_and_is_refused_with_the_contract_alone(node_client: NodeClient, ledger_address: str) -> None:
    seen = node_client.run("client.mjs", ledger_address, str(node_client.protos))

    assert seen["books"] == {
        "account_replayed": False,
        "granted_total": usd(1, 250_000_000),
        "grant_replayed": [False, True],
        "study_replayed": False,
    }
    # The second is the same attempt asking again, as after a lost reply.
    assert seen["reserved"] == [
        {"answer": "admission", "call_id": CALL_ID, "attempt": 1, "replayed": False},
        {"answer": "admission", "call_id": CALL_ID, "attempt": 1, "replayed": True},
    ]
    # The cost is rounded up to the next nano-unit; its text stays.
    assert seen["receipt"] == {
        "replayed": False,
        "state": "CALL_STATE_CHARGED",
        "reserved": usd(0, 500_000_000),
        "accounted": usd(0, 123_456_790),
        "request_digest": hashlib.sha256(REQUEST).hexdigest(),
        "response_digest": hashlib.sha256(RESPONSE).hexdigest(),
        "amount_text": "0.1234567891",
        "lease_nanos": "60000000000",
    }
    assert seen["answered"] == {
        "answer": "receipt",
        "attempt": 1,
        "http_status": 200,
        "response": RESPONSE.decode(),
        "late": False,
    }
    assert _without_messages(seen["refused"]) == {
        "other_token": {
            "status": "FAILED_PRECONDITION",
            "rich_status": "FAILED_PRECONDITION",
            "reason": "REPLAY_DENIED",
            "reason_number": 28,
            "domain": "countersign.dev",
            "metadata": {"call_id": CALL_ID, "state": "RESERVED"},
        },
        "over_budget": {
            "status": "RESOURCE_EXHAUSTED",
            "rich_status": "RESOURCE_EXHAUSTED",
            "reason": "BUDGET_EXHAUSTED",
            "reason_number": 30,
            "domain": "countersign.dev",
            "metadata": {"available_nanos": "1126543210", "requested_nanos": "1200000000"},
        },
        "no_deadline": {
            "status": "INVALID_ARGUMENT",
            "rich_status": "INVALID_ARGUMENT",
            "reason": "DEADLINE_REQUIRED",
            "reason_number": 3,
            "domain": "countersign.dev",
            "metadata": {"method": f"/{LEDGER}/Reserve"},
        },
    }
    assert seen["summary"] == {
        "account_id": "node-lab",
        "account": balances(granted=usd(1, 250_000_000), available=usd(1, 126_543_210)),
        "studies": [
            {
                "study_id": "node-study",
                "balances": balances(granted=usd(3, 0), available=usd(2, 876_543_210)),
                "blocked": False,
                "max_in_flight": 2,
                "call_ceiling": usd(3, 0),
                "manifest_digest": "07" * 32,
            }
        ],
        "next_page_token": "",
    }
    # Opened, granted, study opened, reserved, charged: what was refused or replayed leaves no entry.
    (head,) = seen["journal"].pop("heads")
    assert (head["account_id"], head["sequence"], len(head["chain_digest"]["data"])) == ("node-lab", "5", 32)
    assert seen["journal"] == {"intact": True, "entries_count": "5", "differences": [], "accounts_count": "1"}


def _without_messages(refused: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The refusals without their texts, which say something but are no part of the contract."""
    assert all(refusal["message"] for refusal in refused.values())
    return {name: {k: v for k, v in refusal.items() if k != "message"} for name, refusal in refused.items()}


def test_node_reads_the_ledgers_health(node_client: NodeClient, ledger_address: str) -> None:
    seen = node_client.run("health.mjs", ledger_address, "", LEDGER)

    assert seen == {"": "SERVING", LEDGER: "SERVING"}
