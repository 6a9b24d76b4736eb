"""A short soak as a whole: it holds, it ends cleanly when it is interrupted, and a real violation stops it at once."""

import json
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.conftest import PROJECT_ROOT
from tests.soak.faults import Store, plan_of

SEED = 11
SECONDS = 25
GAP_SECONDS = 2.0
WAIT_SECONDS = 120
POLL_SECONDS = 0.05
LONG = 300


@contextmanager
def soak(folder: Path, seconds: int) -> Iterator["subprocess.Popen[str]"]:
    """A soak as a process, on SQLite; nothing of it is left afterwards."""
    options = ["--seconds", str(seconds), "--seed", str(SEED), "--stores", "sqlite", "--gap-seconds", str(GAP_SECONDS)]
    command = [sys.executable, "-m", "tests.soak", *options, "--out", str(folder)]
    running = subprocess.Popen(
        command, cwd=PROJECT_ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        yield running
    finally:
        if running.poll() is None:
            running.send_signal(signal.SIGINT)
        running.communicate(timeout=WAIT_SECONDS)
    assert not survivors(folder)


def survivors(folder: Path) -> list[str]:
    """The command lines of all processes that have to do with the folder."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue
        if str(folder).encode() in line:
            found.append(line.replace(b"\0", b" ").decode())
    return found


def await_that(reached: Callable[[], bool], running: "subprocess.Popen[str]") -> None:
    """Poll until `reached`, while the soak runs."""
    end = time.monotonic() + WAIT_SECONDS
    while not reached():
        assert running.poll() is None, running.stdout and running.stdout.read()
        assert time.monotonic() < end
        time.sleep(POLL_SECONDS)


def result_in(folder: Path) -> dict[str, Any]:
    """What the soak wrote."""
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return result


def has_requests(folder: Path) -> bool:
    """Whether the provider was asked something."""
    log = folder / "logs" / "wire.jsonl"
    return log.exists() and log.stat().st_size > 0


@pytest.mark.timeout(LONG)
def test_a_short_soak_holds(tmp_path: Path) -> None:
    folder = tmp_path / "soak"
    with soak(folder, SECONDS) as running:
        said, _ = running.communicate(timeout=SECONDS + 2 * WAIT_SECONDS)
    result = result_in(folder)
    assert running.returncode == 0, said
    assert (result["verdict"], result["violations"], result["error"]) == ("holds", [], "")
    assert "HOLDS" in said
    planned = plan_of(SEED, (Store.SQLITE,), SECONDS, GAP_SECONDS)
    assert json.loads((folder / "faults.json").read_text()) == [one.to_json() for one in planned]
    counted = result["faults"]
    assert sum(counted["planned"].values()) == len(planned)
    assert sum(counted["applied"].values()) + sum(counted["skipped"].values()) == len(planned)
    assert sum(counted["applied"].values()) > 0
    checks = result["checks"]
    for name in ("balances", "journal_entries", "journal_verified", "receipts", "records", "requests_at_the_door"):
        assert checks[name] > 0, name
    assert checks["requests_at_the_door"] + checks.get("requests_by_time", 0) == result["requests"]["sent"]
    assert result["episodes"]["planned"] > 0
    assert {one["service"] for one in result["memory"]} >= {"adapter-1", "ledger-1", "verifier-1", "provider"}


@pytest.mark.timeout(LONG)
def test_an_interrupted_soak_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = tmp_path / "soak"
    with soak(folder, LONG) as running:
        await_that(lambda: has_requests(folder), running)
        running.send_signal(signal.SIGINT)
        said, _ = running.communicate(timeout=WAIT_SECONDS)
    assert running.returncode == 130, said
    assert (result_in(folder)["verdict"], result_in(folder)["error"]) == ("incomplete", "interrupted")


@pytest.mark.timeout(LONG)
def test_a_request_that_nobody_reserved_stops_the_soak(tmp_path: Path) -> None:
    folder = tmp_path / "soak"
    with soak(folder, LONG) as running:
        await_that(lambda: has_requests(folder), running)
        plan = tomllib.loads(next((folder / "studies").glob("*/plan.toml")).read_text())
        provider = urlsplit(plan["routes"][0]["base_url"])
        asked = {"model": "scripted/refuse", "messages": [{"role": "user", "content": "unpaid"}]}
        # The soak may be over before the answer.
        with suppress(httpx.TransportError):
            httpx.post(f"http://{provider.netloc}/v1/chat/completions", json=asked, trust_env=False)
        said, _ = running.communicate(timeout=WAIT_SECONDS)
    result = result_in(folder)
    assert running.returncode == 1, said
    assert "I1" in {one["invariant"] for one in result["violations"]}
    assert f"SOAK_SEED={SEED}" in said
    assert list((folder / "studies").iterdir()), "everything is kept"
    assert list((folder / "books").iterdir())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--seconds", "0"], "--seconds 0: must be 1 to"),
        (["--stores", "oracle"], "must be sqlite, postgres, or both"),
        (["--gap-seconds", "0"], "must be above 0"),
        (["--out", "."], "exists already"),
    ],
)
def test_wrong_input_is_one_line(options: list[str], says: str) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "tests.soak", *options], cwd=PROJECT_ROOT, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout) == (2, "")
    assert says in run.stderr.splitlines()[-1]
