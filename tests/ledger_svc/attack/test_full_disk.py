"""A disk that fills up under load: a typed refusal, NOT_SERVING, nothing half written; with space again it goes on."""

import asyncio
import random
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from countersign.kit.channel import open_channel
from countersign.ledger.v1.ledger_pb2_grpc import LedgerServiceStub
from ledger_svc import errors
from ledger_svc.ledger import Ledger
from ledger_svc.storage.sqlite import SqliteStore
from tests.ledger_svc import support
from tests.ledger_svc.attack import wire
from tests.ledger_svc.attack.rounds import seeds
from tests.ledger_svc.attack.witness import Line, Witness
from tests.ledger_svc.support import Clock

CLIENTS = 8
FILLER_BYTES = 6_000_000
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 14 MB, 6 of them taken by a file `filler`; needs the right to mount."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=14m", "countersign-test", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("mounting a small tmpfs needs root and CAP_SYS_ADMIN; test_file_of_bounded_size covers the rest")
    (folder / "filler").write_bytes(bytes(FILLER_BYTES))
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


async def until(watched: AsyncIterator[Any], status: int) -> None:
    """Read health reports until one says this."""
    async for report in watched:
        if report.status == status:
            return
    raise AssertionError("the health stream ended")


class Client:
    """Reserves and charges with large responses until the ledger refuses for want of space."""

    def __init__(self, witness: Witness, stub: Any, study_id: str) -> None:
        self.witness = witness
        self.stub = stub
        self.random = random.Random(study_id)
        self.study_id = study_id

    async def run(self, turns: range) -> str:
        for turn in turns:
            line, token = Line(wire.slot(turn, self.study_id)), wire.token(self.random)
            heard = await self.witness.mutate(
                self.stub, line, wire.reserve(5, line.at, token, self.random.randbytes(30))
            )
            if heard == "done":
                response = self.random.randbytes(self.random.choice([100, 4_000, 40_000]))
                request = wire.receipt(line.attempts[-1].call_id, token, 3, response)
                heard = await self.witness.mutate(self.stub, line, request)
            if heard != "done":
                return heard
        return "done"


async def furnish(stub: Any) -> Witness:
    studies = [f"study-{number}" for number in range(CLIENTS)]
    witness = Witness("lab", dict.fromkeys(studies, 100_000))
    await wire.ask(stub, wire.open_account())
    await witness.grant(stub, wire.grant(800_000))
    for study_id in studies:
        await wire.ask(stub, wire.open_study(100_000, study_id))
    witness.mutations_count += 1 + len(studies)
    return witness


async def load(witness: Witness, stub: Any, first_turn: int, turns_count: int) -> list[str]:
    """What each client heard last."""
    turns = range(first_turn, first_turn + turns_count)
    return list(await asyncio.gather(*(Client(witness, stub, study_id).run(turns) for study_id in witness.caps)))


async def test_disk_fills_up_under_load_and_is_freed(small_disk: Path) -> None:
    database = small_disk / "ledger.db"
    arguments = ("--sweep-seconds", "0.05")
    async with wire.ledger_process(database, *arguments) as (_, address), open_channel(address) as channel:
        stub, health = LedgerServiceStub(channel), health_pb2_grpc.HealthStub(channel)
        reports = aiter(health.Watch(health_pb2.HealthCheckRequest()))
        await until(reports, SERVING)
        witness = await furnish(stub)
        heard = await load(witness, stub, 1, 10_000)
        assert set(heard) == {"doubt"}
        assert witness.problems.keys() == {"disk_full"}
        await until(reports, NOT_SERVING)
        acknowledged_count = witness.acknowledged_count
        (small_disk / "filler").unlink()
        await until(aiter(health.Watch(health_pb2.HealthCheckRequest())), SERVING)
        await witness.check(stub)
        assert await load(witness, stub, 20_001, 3) == ["done"] * CLIENTS
        assert witness.acknowledged_count > acknowledged_count
    async with wire.ledger_process(database) as (_, address), open_channel(address) as channel:
        await witness.check(LedgerServiceStub(channel))
    print(f"acknowledged {witness.acknowledged_count}, in doubt {witness.doubts_count}, landed {witness.landed_count}")


def fill(path: Path) -> None:
    """Take whatever is left of the disk."""
    with path.open("wb", buffering=0) as file:
        for size in (65_536, 4_096, 512):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


async def test_killed_on_a_full_disk(small_disk: Path) -> None:
    """Full when it is killed, full when it is started: it says so or serves, and nothing acknowledged is lost."""
    database = small_disk / "ledger.db"
    async with wire.ledger_process(database) as (_, address), open_channel(address) as channel:
        witness = await furnish(LedgerServiceStub(channel))
        assert set(await load(witness, LedgerServiceStub(channel), 1, 10_000)) == {"doubt"}
        fill(small_disk / "rest")
    process = await wire.spawn(database)
    assert process.stdout is not None
    line = await process.stdout.readline()
    if line:
        process.kill()
        await process.wait()
    else:
        assert await process.wait() == 2
    print("started on a full disk:", bool(line))
    (small_disk / "filler").unlink()
    (small_disk / "rest").unlink()
    async with wire.ledger_process(database) as (_, address), open_channel(address) as channel:
        await witness.check(LedgerServiceStub(channel))
        assert await load(witness, LedgerServiceStub(channel), 20_001, 3) == ["done"] * CLIENTS


async def test_file_of_bounded_size(tmp_path: Path) -> None:
    """The same without a mount: a file that may not grow, many commands at once, each done whole or not at all."""
    for seed in seeds(8):
        source, path = random.Random(f"bounded {seed}"), tmp_path / f"{seed}.db"
        ledger = Ledger(SqliteStore.open(path, max_pages_count=source.randrange(45, 120)), Clock())
        ledger.start()
        await support.furnish(ledger, 10**6, 10**6, max_in_flight=1_000)
        done, failed = await fill_up(ledger, source)
        assert failed > 0
        assert not support.is_healthy(ledger)
        await ledger.close()
        ledger = support.make_ledger(path, Clock())
        found = await ledger.verify(None)
        assert (found.entries_count, found.differences) == (3 + len(done), []), f"seed {seed}"
        for turn in done:
            assert len(await ledger.attempts(support.slot(turn=turn).call_id())) == 1
        account = (await ledger.summarize("lab", None, 0, 10)).balances.account
        assert (account.totals.reserved.nanos, account.totals.reserved.count) == (10 * len(done), len(done))
        await ledger.reserve(support.reserve(10, at=support.slot(turn=9_999)))
        assert support.is_healthy(ledger)
        await ledger.close()


async def fill_up(ledger: Ledger, source: random.Random) -> tuple[list[int], int]:
    """Reserve with requests of many sizes, a hundred at once; the turns that were admitted, and how many were not."""

    async def one(turn: int) -> bool:
        request = source.randbytes(source.choice([10, 1_000, 30_000]))
        try:
            await ledger.reserve(support.reserve(10, at=support.slot(turn=turn), request=request))
        except errors.StoreUnavailableError as error:
            assert error.metadata == {"problem": "disk_full"}  # noqa: PT017 - it is one of two outcomes
            return False
        return True

    outcomes = await asyncio.gather(*(one(turn) for turn in range(1, 101)))
    return [turn for turn, admitted in enumerate(outcomes, 1) if admitted], outcomes.count(False)


UNPRIVILEGED = """
import os, sys
from ledger_svc.__main__ import main
if os.getuid() == 0:
    os.setgroups([])
    os.setuid(65534)
main(sys.argv[1:])
"""


@pytest.mark.parametrize("locked", [".", "ledger.db", "ledger.db-wal", "ledger.db.head", "ledger.db.lock"])
async def test_unwritable_file_is_named_and_left_as_it_is(locked: str) -> None:
    """A ledger that may not write one of its files does not start, says so in one line, and changes nothing."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ledger = support.make_ledger(folder / "ledger.db", Clock())
        await support.furnish(ledger)
        for suffix in ("", "-wal", ".head", ".lock"):
            (folder / f"kept.db{suffix}").write_bytes((folder / f"ledger.db{suffix}").read_bytes())
        await ledger.close()
        for suffix in ("", "-wal", ".head", ".lock"):
            (folder / f"kept.db{suffix}").rename(folder / f"ledger.db{suffix}")
            (folder / f"ledger.db{suffix}").chmod(0o666)
        folder.chmod(0o777)
        (folder / locked).chmod(0o555 if locked == "." else 0o444)
        before = {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith("-shm")}
        run = subprocess.run(
            [sys.executable, "-c", UNPRIVILEGED, "--database", str(folder / "ledger.db")],
            cwd=wire.PROJECT_ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
        after = {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith("-shm")}
        folder.chmod(0o755)
    assert (run.returncode, run.stdout) == (2, "")
    (line,) = run.stderr.splitlines()
    assert "written" in line or "opened" in line
    assert after == before
