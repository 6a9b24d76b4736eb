"""`python -m ledger_svc` as a process: it says where it listens, keeps what it was told, and ends cleanly."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from countersign.kit.channel import call, open_channel
from countersign.kit.server import RunningServer, start_server
from countersign.ledger.v1 import ledger_pb2 as pb
from countersign.ledger.v1.ledger_pb2_grpc import LedgerServiceStub
from ledger_svc.__main__ import keep
from ledger_svc.errors import StoreUnavailableError
from ledger_svc.ledger import Ledger
from ledger_svc.service import LedgerServicer, service_spec
from tests.ledger_svc import support

PROJECT_ROOT = Path(__file__).resolve().parents[2]
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@asynccontextmanager
async def process(database: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """A ledger's process and its address; it is ended by SIGTERM."""
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ledger_svc", "--database", str(database)),
        cwd=PROJECT_ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert running.stdout is not None
    announced = json.loads(await running.stdout.readline())
    assert (announced["event"], announced["service"]) == ("listening", "ledger")
    try:
        yield running, announced["address"]
    finally:
        running.send_signal(signal.SIGTERM)
        assert await running.wait() == 0


async def test_ledger_keeps_what_it_was_told_over_a_restart(database: Path) -> None:
    request = pb.OpenAccountRequest(request_id="open", account_id="lab", currency_code="USD", opened_by="Ann")
    answers = []
    for _ in range(2):
        async with process(database) as (_, address), open_channel(address) as channel:
            answers.append((await call(LedgerServiceStub(channel).OpenAccount, request, 10)).replayed)
    assert answers == [False, True]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--database", "{folder}/missing/ledger.db"], "the folder of the ledger's file does not exist"),
        (["--database", "{folder}/text"], "the ledger's file is not a database"),
        (["--database", "{folder}/ledger.db", "--listen", "0.0.0.0:0"], "is not on loopback"),
        (["--database", "{folder}/ledger.db", "--sweep-seconds", "0"], "setting sweep_seconds"),
    ],
)
def test_ledger_that_cannot_start_says_why_in_one_line(tmp_path: Path, arguments: list[str], complaint: str) -> None:
    (tmp_path / "text").write_text("no database, and long enough to be read as something\n" * 20)
    given = [argument.format(folder=tmp_path) for argument in arguments]
    run = subprocess.run(
        [sys.executable, "-m", "ledger_svc", *given], cwd=PROJECT_ROOT, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout) == (2, "")
    (line,) = run.stderr.splitlines()
    assert line.startswith("ledger: ")
    assert complaint in line


class Watched:
    """A server's health, as far as `keep` sets it, to wait for."""

    def __init__(self, running: RunningServer) -> None:
        self.address = running.address
        self.draining = running.draining
        self.told: asyncio.Queue[bool] = asyncio.Queue()
        self._running = running

    async def set_serving(self, serving: bool) -> None:
        await self._running.set_serving(serving)
        await self.told.put(serving)


async def test_health_follows_the_store(empty_ledger: Ledger, database: Path) -> None:
    running = await start_server(service_spec(LedgerServicer(empty_ledger)), "127.0.0.1:0")
    watched = Watched(running)
    keeper = asyncio.create_task(keep(empty_ledger, watched, 0.01))  # type: ignore[arg-type]
    async with open_channel(running.address) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        assert await watched.told.get()
        database.rename(database.with_name("elsewhere"))
        with pytest.raises(StoreUnavailableError, match="moved or replaced"):
            await empty_ledger.submit(support.open_account())
        while await watched.told.get():
            continue
        assert (await health.Check(health_pb2.HealthCheckRequest())).status == NOT_SERVING
        database.with_name("elsewhere").rename(database)
        while not await watched.told.get():
            continue
        assert (await health.Check(health_pb2.HealthCheckRequest())).status == SERVING
    keeper.cancel()
    await running.stop(0)
