"""Reservations a second, side by side: this ledger on both stores, PostgreSQL in the usual two ways, the disk itself.

    python -m benchmarks.ledger [--quick] [--stored 1000000]

Every reply and, after each row, what is stored are checked; a row that is wrong ends the run.
"""

import argparse
import asyncio
import gc
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc

from benchmarks import load
from benchmarks.processes import PROJECT_ROOT, Server, postgres, postgres_programs, server, slow_disk
from countersign.kit.channel import call, open_channel
from countersign.kit.ledger_stream import LedgerStream
from countersign.ledger.v1 import ledger_pb2 as pb
from countersign.ledger.v1.ledger_pb2_grpc import LedgerServiceStub
from ledger_svc.__main__ import COLLECTOR_THRESHOLD

CALLERS = (1, 16, 64, 256)
DELAYS_MICROS = (0, 4_000)
WARM_UP = 100
FEW_STORED = 1_000
ROUNDS = 3


@dataclass(frozen=True, slots=True)
class System:
    """One way to reserve: its row's name, how its server is started, on what, whether callers share a stream."""

    name: str
    module: str
    options: tuple[str, ...] = ()
    coalesced: bool = False
    on_postgres: bool = True

    @property
    def is_baseline(self) -> bool:
        """Whether it is PostgreSQL used directly."""
        return self.module == "benchmarks.baseline"


COALESCED = System("this ledger, SQLite, coalesced", "ledger_svc", coalesced=True, on_postgres=False)
SYSTEMS = (
    System("PostgreSQL, row locked", "benchmarks.baseline", ("--way", "lock")),
    System("PostgreSQL, one statement", "benchmarks.baseline", ("--way", "update")),
    System("this ledger, SQLite, unary", "ledger_svc", on_postgres=False),
    COALESCED,
    System("this ledger, PostgreSQL, unary", "ledger_svc"),
    System("this ledger, PostgreSQL, coalesced", "ledger_svc", coalesced=True),
)


@contextmanager
def started(system: System, folder: Path, environment: Mapping[str, str]) -> Iterator[tuple[Server, Callable[[], int]]]:
    """The system's server with an empty store, and what counts its stored reservations."""
    options = (*system.options, "--listen", f"unix:{folder}/s.sock")
    if not system.on_postgres:
        database = folder / "ledger.db"
        with server(system.module, (*options, "--database", str(database)), environment) as running:
            yield running, lambda: stored_in(database)
        return
    import psycopg

    from benchmarks.baseline import SCHEMA

    with postgres(folder, environment) as (dsn, pid), psycopg.connect(dsn, autocommit=True) as db:
        if system.is_baseline:
            db.execute(SCHEMA)
            with server(system.module, (*options, "--dsn", dsn), {}, pid) as running:
                yield running, lambda: stored_in_baseline(db)
        else:
            with server(system.module, (*options, "--postgres", dsn), {}, pid) as running:
                yield running, lambda: int(db.execute("SELECT count(*) FROM calls").fetchone()[0])  # type: ignore[index]


def stored_in(database: Path) -> int:
    """How many calls the ledger's file holds."""
    db = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    (count,) = db.execute("SELECT count(*) FROM calls").fetchone()
    db.close()
    return int(count)


def stored_in_baseline(db: "object") -> int:
    """How many reservations the baseline holds; raises AssertionError where its budget says otherwise."""
    query = "SELECT count(*), coalesce(sum(amount) FILTER (WHERE state = 'RESERVED'), 0) FROM reservations"
    count, nanos = db.execute(query).fetchone()  # type: ignore[attr-defined]
    (reserved,) = db.execute("SELECT reserved FROM budgets").fetchone()  # type: ignore[attr-defined]
    if reserved != nanos:
        raise AssertionError("the baseline's budget is not the sum of its reservations")
    return int(count)


@contextmanager
def folder_for_a_run() -> Iterator[Path]:
    """A new folder that another user's processes can enter."""
    folder = Path(tempfile.mkdtemp(prefix="countersign-bench-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


async def measured(
    system: System,
    running: Server,
    channel: grpc.aio.Channel,
    callers: int,
    first: int,
    limits: tuple[int, float],
    *,
    charge: bool = False,
) -> tuple[load.Run, float]:
    """One run on a warm server, and the CPU seconds of its processes and this one."""
    stream = LedgerStream(channel)
    asker = load.coalesced(stream, charge=charge) if system.coalesced else load.unary(channel, charge=charge)
    before = running.cpu_seconds()
    run = await load.run(asker, callers, first, *limits)
    cpu_seconds = running.cpu_seconds() - before + run.client_cpu_seconds
    await stream.close()
    return run, cpu_seconds


async def measure_callers(system: System, environment: Mapping[str, str], seconds: float) -> dict[str, float]:
    """One system at every number of callers, and once with charges: prints a row for each, gives the rates."""
    rates: dict[str, float] = {}
    with folder_for_a_run() as folder, started(system, folder, environment) as (running, count_stored):
        async with open_channel(running.address) as channel:
            if not system.is_baseline:
                await load.furnish(channel)
            run, _ = await measured(system, running, channel, 8, 1, (WARM_UP, 30.0))
            done = run.count
            for callers, charge in (*((callers, False) for callers in CALLERS), (CALLERS[-1], True)):
                run, cpu = await measured(system, running, channel, callers, done + 1, (10**9, seconds), charge=charge)
                done += run.count
                what = f"{callers} callers" + (", reserve and charge" if charge else "")
                rates[what] = run.count / run.seconds
                print_row(system.name, what, run, cpu)
                if count_stored() != done:
                    raise AssertionError(f"{system.name} stores {count_stored()} reservations, not {done}")
            if not system.is_baseline:
                await check(channel, done)
    return rates


async def check(channel: grpc.aio.Channel, count: int) -> None:
    """Raise AssertionError unless the ledger's totals and its journal agree with what was admitted."""
    stub = LedgerServiceStub(channel)
    balances = (await call(stub.Summarize, pb.SummarizeRequest(account_id=load.ACCOUNT), 60)).balances
    if balances.reserved_count + balances.charged_count != count or balances.held_count:
        raise AssertionError("the balances are not those of what was admitted")
    found = await call(stub.VerifyJournal, pb.VerifyJournalRequest(), 300)
    if not found.intact or found.entries_count != 3 + count + balances.charged_count:
        raise AssertionError("the journal does not verify")


def print_row(name: str, what: str, run: load.Run, cpu_seconds: float) -> None:
    """One line of the table."""
    print(
        f"{name:34} {what:32} {run.count / run.seconds:9,.0f}/s  p50 {run.latency_millis(0.5):8.2f} ms  "
        f"p99 {run.latency_millis(0.99):8.2f} ms  {cpu_seconds / run.count * 1e6:6,.0f} us CPU each",
        flush=True,
    )


def print_ratios(rates: Mapping[str, Mapping[str, float]], bases: Iterable[str]) -> None:
    """Every system's rate as a multiple of each base's."""
    for base in bases:
        print(f"As multiples of: {base}")
        for name, found in rates.items():
            row = "  ".join(f"{what}: {rate / rates[base][what]:.2f}x" for what, rate in found.items())
            print(f"{name:34} {row}")


async def compare_systems(seconds: float) -> None:
    """Every system on the disk as it is, and on one whose flushes take 4 ms more."""
    systems = [system for system in SYSTEMS if not system.on_postgres or postgres_programs() is not None]
    for delay_micros in DELAYS_MICROS:
        print(f"\nThe disk as it is{f', each flush {delay_micros / 1000:g} ms slower' if delay_micros else ''}")
        rates = {}
        with folder_for_a_run() as folder:
            environment = slow_disk(folder, delay_micros)
            command = [sys.executable, "-m", "benchmarks.append", str(folder / "file"), str(seconds)]
            appended = subprocess.run(
                command, env={**environment}, cwd=PROJECT_ROOT, check=True, capture_output=True, text=True
            )
            print(f"{'the disk':34} {'one durable append':32} {float(appended.stdout):9,.0f}/s", flush=True)
            for system in systems:
                rates[system.name] = await measure_callers(system, environment, seconds)
        print_ratios(rates, [system.name for system in systems if system.is_baseline])


async def compare_stored(count: int, reservations: int) -> None:
    """The coalesced ledger with few and with many stored calls, in turns; prints both and how much more it costs."""
    system = COALESCED
    costs: dict[int, list[tuple[float, float]]] = {FEW_STORED: [], count: []}
    with folder_for_a_run() as folder:
        for stored in costs:
            (folder / str(stored)).mkdir()
            command = [sys.executable, "-m", "benchmarks.prefill", str(folder / str(stored) / "ledger.db"), str(stored)]
            subprocess.run(command, cwd=PROJECT_ROOT, check=True)
        for round_ in range(ROUNDS):
            for stored, found in costs.items():
                with started(system, folder / str(stored), {}) as (running, count_stored):
                    async with open_channel(running.address) as channel:
                        first = stored + round_ * (reservations + WARM_UP) + 1
                        await measured(system, running, channel, 8, first, (WARM_UP, 30.0))
                        run, cpu = await measured(
                            system, running, channel, CALLERS[-1], first + WARM_UP, (reservations, 120.0)
                        )
                    if count_stored() != first + WARM_UP + run.count - 1:
                        raise AssertionError("a reservation is not stored")
                print_row(system.name, f"{stored:,} stored calls", run, cpu)
                found.append((run.seconds / run.count, cpu / run.count))
    few, many = costs.values()
    for index, what in enumerate(("time", "CPU")):
        ratio = statistics.median(each[index] for each in many) / statistics.median(each[index] for each in few)
        print(f"{what} of a reservation with {count:,} stored calls: {ratio:.2f} times that with {FEW_STORED:,}")


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="half a second a row instead of two and a half")
    parser.add_argument("--stored", type=int, metavar="COUNT", help="compare 1,000 stored calls with COUNT instead")
    given = parser.parse_args()
    # The callers are not what is measured: they shall not spend their time looking for cycles that they do not make.
    gc.freeze()
    gc.set_threshold(COLLECTOR_THRESHOLD)
    if given.stored:
        asyncio.run(compare_stored(given.stored, 5_000 if given.quick else 20_000))
    else:
        asyncio.run(compare_systems(0.5 if given.quick else 2.5))


if __name__ == "__main__":
    main()
