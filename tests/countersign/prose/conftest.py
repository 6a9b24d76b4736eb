"""Fixtures of the command's tests: a real adapter, and the command run in this process or as its users run it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import jsonschema
import pytest
from google.type.money_pb2 import Money

import countersign.prose
from countersign.kit.money import text_to_nanos_exact
from countersign.ledger.v1 import ledger_pb2 as pb
from countersign.ledger.v1 import ledger_pb2_grpc
from countersign.prose.main import run_command
from tests.conftest import PROJECT_ROOT
from tests.countersign.cli.served import served

SCHEMA = json.loads((Path(countersign.prose.__file__).parent / "run-result.schema.json").read_text())
SECONDS = 10
SECRET = "sk-mock-0123456789abcdef"


@dataclass
class Answer:
    """What the command ended with and said."""

    status: int
    out: str
    err: str

    @property
    def result(self) -> dict[str, Any]:
        """The result object, which is of its schema, whatever the rendering."""
        last = json.loads(self.out.splitlines()[-1])
        result: dict[str, Any] = last["body"] if "sequence" in last else last
        jsonschema.validate(result, SCHEMA)
        return result

    @property
    def code(self) -> str | None:
        """The result's error code."""
        error = self.result["error"]
        return None if error is None else error["code"]


Prose = Callable[..., Answer]


@contextmanager
def adapter_process() -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """A real adapter in a process of its own, and where it listens."""
    command = [sys.executable, "-m", "adapter_svc", "--listen", "127.0.0.1:0", "--exit-with-stdin"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=PROJECT_ROOT
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        announced = (json.loads(line) for line in process.stdout)
        yield next(one["address"] for one in announced if one.get("event") == "listening"), process
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


@pytest.fixture(scope="session")
def adapter() -> Iterator[str]:
    """The address of a real adapter."""
    with adapter_process() as (address, _):
        yield address


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A user's environment with nothing of the machine's but PATH."""
    home = tmp_path / "home"
    home.mkdir()
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    return {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "TMPDIR": str(temporary)}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """An empty folder to run in."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def bare(environment: dict[str, str], workspace: Path, capsys: pytest.CaptureFixture[str]) -> Prose:
    """Run the command in this process with exactly the given arguments, in the workspace."""

    def run(*tokens: object, env: Mapping[str, str] | None = None) -> Answer:
        status = run_command(
            [str(token) for token in tokens], {"PROSE_CWD": str(workspace), **environment, **(env or {})}
        )
        seen = capsys.readouterr()
        assert "Traceback" not in seen.out + seen.err
        return Answer(status, seen.out, seen.err)

    return run


@pytest.fixture
def prose(bare: Prose, adapter: str) -> Prose:
    """Run the scripted harness under the native contract, its script being the first argument."""

    def run(script: str, *tokens: object, env: Mapping[str, str] | None = None, rendering: str = "json") -> Answer:
        options = ("--harness=mock", "--output-contract=native", f"--output={rendering}", f"--adapter={adapter}")
        return bare(*options, f"--model={script}", *tokens, "run", "test/PROGRAM.md", env=env)

    return run


def dollars(text: str) -> Money:
    units, nanos = divmod(text_to_nanos_exact(text), 1_000_000_000)
    return Money(currency_code="USD", units=units, nanos=nanos)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[tuple[str, ledger_pb2_grpc.LedgerServiceStub]]:
    """A ledger with a study of one dollar."""
    with served(tmp_path / "ledger.sqlite3") as (_, address), grpc.insecure_channel(address) as channel:
        stub = ledger_pb2_grpc.LedgerServiceStub(channel)
        account = pb.OpenAccountRequest(request_id="1", account_id="a", currency_code="USD", opened_by="x")
        stub.OpenAccount(account, timeout=SECONDS)
        grant = pb.GrantBudgetRequest(request_id="2", account_id="a", amount=dollars("5"), granted_by="x", reason="y")
        stub.GrantBudget(grant, timeout=SECONDS)
        study = pb.OpenStudyRequest(
            request_id="3", account_id="a", study_id="s", cap=dollars("1"), manifest_digest=bytes(32), opened_by="x"
        )
        stub.OpenStudy(study, timeout=SECONDS)
        yield address, stub
