"""The examples of docs/clients.md, run against real services wherever their tools are installed."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import PROJECT_ROOT
from tests.docs.pages import DOCS
from tests.integration.stack import Process

EXAMPLES = DOCS / "examples"
PROTOS = PROJECT_ROOT / "protos"
EXAMPLE_SECONDS = 100
INSTALL_SECONDS = 180
# npm's own words for a machine that is not connected.
UNREACHABLE = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ENETUNREACH", "ETIMEDOUT", "ERR_SOCKET_TIMEOUT")
REFUSED = {
    "reason": "BUDGET_EXHAUSTED",
    "domain": "countersign.dev",
    "metadata": {"available_nanos": "1000000000", "requested_nanos": "5000000000"},
}

pytestmark = pytest.mark.timeout(INSTALL_SECONDS + EXAMPLE_SECONDS)


@pytest.fixture
def addresses(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Where a ledger with an empty store and an adapter listen."""
    ledger = Process(
        "ledger",
        "ledger_svc",
        ["--listen", "127.0.0.1:0", "--database", str(tmp_path / "ledger.db"), "--exit-with-stdin"],
        tmp_path / "ledger.log",
    )
    adapter = Process(
        "adapter", "adapter_svc", ["--listen", "127.0.0.1:0", "--exit-with-stdin"], tmp_path / "adapter.log"
    )
    try:
        ledger.start()
        adapter.start()
        yield ledger.address, adapter.address
    finally:
        assert (adapter.stop(), ledger.stop()) == (0, 0)


def run(folder: Path, *command: object) -> str:
    """What an example prints; it must end with status 0."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    words = [str(part) for part in command]
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, timeout=EXAMPLE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def documents(text: str) -> list[dict[str, Any]]:
    """The JSON objects that follow one another in `text`."""
    found, decoder = [], json.JSONDecoder()
    while text := text.lstrip():
        document, end = decoder.raw_decode(text)
        found.append(document)
        text = text[end:]
    return found


def require(*tools: str) -> None:
    """Skips where a tool is installed neither beside the interpreter nor on PATH."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for tool in tools:
        if shutil.which(tool, path=path) is None:
            pytest.skip(f"{tool} is not installed")


def test_a_shell_spends_and_is_refused(addresses: tuple[str, str], tmp_path: Path) -> None:
    require("buf", "jq", "base64")
    said = documents(run(tmp_path, "sh", EXAMPLES / "shell" / "ledger.sh", f"http://{addresses[0]}", PROTOS))

    opened, granted, studied, reserved, refused = said
    assert (opened, studied) == ({}, {})
    assert granted == {"grantedTotal": {"currencyCode": "USD", "units": "2"}}
    assert reserved["admission"]["attempt"] == 1
    assert refused == REFUSED
    assert f"\n{json.dumps(REFUSED, separators=(',', ':'))}\n" in (DOCS / "clients.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("finish", {"action": {"tool": "finish", "arguments": "e30=", "toolCallId": "call-1"}}),
        (
            "truncated",
            {"technicalUnknown": {"reason": "UNKNOWN_REASON_TRUNCATED", "where": "/choices/0/finish_reason"}},
        ),
    ],
)
def test_a_shell_has_a_response_judged(
    addresses: tuple[str, str], tmp_path: Path, name: str, verdict: dict[str, Any]
) -> None:
    require("buf", "base64")
    script, response = EXAMPLES / "shell" / "adapt.sh", EXAMPLES / f"{name}.json"
    (judged,) = documents(run(tmp_path, "sh", script, f"http://{addresses[1]}", PROTOS, response))

    assert judged.items() >= verdict.items()
    if name == "truncated":
        assert f"\n{json.dumps(verdict['technicalUnknown'])}\n" in (DOCS / "clients.md").read_text("utf-8")


def test_the_truncated_response_is_the_whole_one_but_for_its_end() -> None:
    whole, cut = (json.loads((EXAMPLES / f"{name}.json").read_text("utf-8")) for name in ("finish", "truncated"))
    assert (whole["choices"][0].pop("finish_reason"), cut["choices"][0].pop("finish_reason")) == (
        "tool_calls",
        "length",
    )
    assert whole == cut


def test_node_spends_is_refused_and_has_a_response_judged(addresses: tuple[str, str], tmp_path: Path) -> None:
    require("node", "npm")
    folder = tmp_path / "node"
    shutil.copytree(EXAMPLES / "node", folder, ignore=shutil.ignore_patterns("node_modules"))
    install(folder)
    (seen,) = documents(run(folder, "node", "client.mjs", *addresses, PROTOS, EXAMPLES / "finish.json"))

    assert seen == {
        "granted": "2",
        "answer": "admission",
        "attempt": 1,
        "refused": REFUSED,
        "verdict": "action",
        "judged": {"tool": "finish", "arguments": "{}", "tool_call_id": "call-1", "text": ""},
    }


def install(folder: Path) -> None:
    """The example's pinned packages; skips where neither npm's cache nor the registry has them."""
    command = ["npm", "ci", "--prefer-offline", "--fetch-retries=1", "--fetch-timeout=30000"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    if done.returncode != 0 and any(f"code {code}" in done.stderr for code in UNREACHABLE):
        pytest.skip("the npm package registry cannot be reached and its packages are not in npm's cache")
    assert done.returncode == 0, done.stderr
