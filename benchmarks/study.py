"""Verified episodes a second through the real services, beside Inspect AI on as many turns with its mock model.

    python -m benchmarks.study [--quick] [--python PYTHON] [--sizes [100000]]

Ledger (durable, SQLite), adapter, verifier, provider and collector are processes of their own, on one machine with the
measurement; Inspect is one process. `--python` has inspect-ai installed; without it, its rows are left out. Every
episode must be completed and verified, and every sample scored, or the run ends. `--sizes` measures instead what
collection, analysis and report cost from 100 to 10,000 episodes, or as many as are named.
"""

import argparse
import asyncio
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.canned import MODEL, ROUNDS
from benchmarks.processes import PROJECT_ROOT, Server, server
from countersign.kit.channel import open_channel
from countersign.study.analysing import analyse
from countersign.study.manifest import load
from countersign.study.records import RECORDS_FOLDER
from countersign.verifier.v1.verifier_pb2_grpc import VerifierServiceStub

IN_FLIGHT = (1, 16, 64)
SIZES = (100, 1_000, 10_000)
WARM_UP = 20
OURS, THEIRS = "Countersign, all services", "Inspect AI, mock model"

PLAN = """
name = "bench-{name}"
account = {{ id = "bench", currency = "USD", grant = "100000" }}
study = {{ cap = "100000", call_ceiling = "0.05", max_in_flight = 1000, stop = "never", readiness = "waived" }}
arms = [{{ name = "neutral", wording = "neutral" }}]
[[templates]]
name = "window"
environment = "event"
worlds = [{{ name = "need", need = true, effective = true }}]
"""
ROUTE = """
[[routes]]
name = "canned-{number}"
base_url = "http://{agent}/v1"
model = "{model}"
price = {{ input_per_million = "0.50", output_per_million = "1.50" }}
output_cap = 1024
input_limit_bytes = 40000
repetitions = {count}
"""
MOST_REPETITIONS = 10_000


@dataclass(frozen=True, slots=True)
class Stack:
    """The started services and the provider."""

    ledger: Server
    adapter: Server
    verifier: Server
    agent: Server

    def parts(self) -> Mapping[str, Server]:
        """Every process by its name."""
        return {"ledger": self.ledger, "adapter": self.adapter, "verifier": self.verifier, "provider": self.agent}


@dataclass(frozen=True, slots=True)
class Measured:
    """Episodes a second, and milliseconds of CPU time for each."""

    rate: float
    cpu_millis: float


@contextmanager
def started(folder: Path) -> Iterator[Stack]:
    """The services on Unix sockets in `folder`, the provider on loopback."""
    with ExitStack() as stack:

        def begin(name: str, *options: str) -> Server:
            arguments = ("--listen", f"unix:{folder}/{name}.sock", *options)
            return stack.enter_context(server(f"{name}_svc", arguments, {}))

        ledger = begin("ledger", "--database", str(folder / "ledger.db"))
        known = ("--ledger", ledger.address)
        agent = stack.enter_context(server("benchmarks.canned", (), {}))
        yield Stack(ledger, begin("adapter", *known), begin("verifier", *known), agent)


def write_plan(path: Path, agent: str, count: int) -> None:
    """A plan of `count` episodes, every one the same four turns."""
    text = PLAN.format(name=path.stem)
    for number, first in enumerate(range(0, count, MOST_REPETITIONS)):
        share = min(MOST_REPETITIONS, count - first)
        text += ROUTE.format(number=number, agent=agent, model=MODEL, count=share)
    path.write_text(text, encoding="utf-8")


def child(python: str, *arguments: str) -> dict[str, Any]:
    """Run a module to its end; the object that it prints last."""
    done = subprocess.run([python, "-m", *arguments], cwd=PROJECT_ROOT, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def collected(stack: Stack, folder: Path, name: str, count: int, in_flight: int) -> dict[str, Any]:
    """Collect a new study of `count` episodes; raises AssertionError unless every one is completed and verified."""
    plan = folder / f"{name}.toml"
    write_plan(plan, stack.agent.address, count)
    addresses = ("--ledger", stack.ledger.address, "--adapter", stack.adapter.address)
    more = ("--verifier", stack.verifier.address, "--in-flight", str(in_flight))
    found = child(sys.executable, "benchmarks.study_collector", str(plan), str(folder / name), *addresses, *more)
    assert found["ended"] == {"verified": count}, found
    return found


def peak_mib(pid: int) -> float:
    """The most memory that a process has held so far."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def print_row(name: str, in_flight: int, count: int, found: Mapping[str, Any]) -> Measured:
    """One line of the table, and what is compared of it."""
    rate, cpu = count / float(found["seconds"]), float(found["cpu_seconds"]) / count * 1000
    mib = found["peak_kib"] / 1024
    print(
        f"{name:26} {in_flight:3} in flight {rate:8.1f} episodes/s  {cpu:6.2f} ms CPU each  {mib:6.0f} MiB", flush=True
    )
    return Measured(rate, cpu)


def measure_ours(stack: Stack, folder: Path, name: str, in_flight: int, count: int) -> Measured:
    """Our services and collector, warm; the CPU time is that of every process but the provider's."""
    services = {part: one for part, one in stack.parts().items() if one is not stack.agent}
    before = {part: one.cpu_seconds() for part, one in services.items()}
    found = collected(stack, folder, name, count, in_flight)
    used = {part: one.cpu_seconds() - before[part] for part, one in services.items()}
    used["collector"] = found["cpu_seconds"]
    measured = print_row(OURS, in_flight, count, {**found, "cpu_seconds": sum(used.values())})
    shares = "  ".join(f"{part} {seconds / count * 1000:.2f}" for part, seconds in used.items())
    memory = "  ".join(f"{part} {peak_mib(one.roots[0]):.0f}" for part, one in services.items())
    print(f"{'':26} ms CPU each: {shares}; MiB at most: {memory}", flush=True)
    return measured


def compare(python: str | None, *, quick: bool) -> None:
    """Both in turns at every number in flight, so that whatever else the machine does meets both; then the ratios."""
    rounds, times = (1, 1) if quick else (3, 2)
    counts = {number: (40 if number == 1 else 200) * times for number in IN_FLIGHT}
    found: dict[int, list[tuple[Measured, Measured]]] = {number: [] for number in IN_FLIGHT}
    print(f"{len(ROUNDS)} turns an episode")
    with tempfile.TemporaryDirectory(prefix="cs-bench-") as name, started(Path(name)) as stack:
        collected(stack, Path(name), "warm", WARM_UP, 4)
        for round_, number in itertools.product(range(rounds), IN_FLIGHT):
            ours = measure_ours(stack, Path(name), f"round-{round_}-at-{number}", number, counts[number])
            if python is not None:
                options = ("--samples", str(counts[number]), "--in-flight", str(number))
                theirs = child(python, "benchmarks.inspect_task", *options)
                found[number].append((ours, print_row(THEIRS, number, counts[number], theirs)))
    for number, pairs in found.items():
        if pairs:
            rate = statistics.median(ours.rate / theirs.rate for ours, theirs in pairs)
            cpu = statistics.median(ours.cpu_millis / theirs.cpu_millis for ours, theirs in pairs)
            print(f"{number} in flight: {rate:.2f} times Inspect's episodes a second, {cpu:.2f} times its CPU time")


async def _analysed(stack: Stack, folder: Path) -> tuple[float, int]:
    async with open_channel(stack.verifier.address) as channel:
        begun = time.perf_counter()
        analysis = await analyse(VerifierServiceStub(channel), load(folder), folder)
        seconds = time.perf_counter() - begun
    assert analysis.document["agrees"], analysis.document["errors"][:3]
    return seconds, len(analysis.episodes)


def measure_sizes(sizes: Sequence[int]) -> None:
    """What collecting and analysing cost by the number of episodes, each in a ledger of its own."""
    for count in sizes:
        with tempfile.TemporaryDirectory(prefix="cs-bench-") as name, started(Path(name)) as stack:
            folder = Path(name)
            found = collected(stack, folder, "sized", count, IN_FLIGHT[-1])
            print_size(stack, "collection", count, found["seconds"], {"collector": found["peak_kib"] / 1024})
            seconds, planned = asyncio.run(_analysed(stack, folder / "sized"))
            assert planned == count
            print_size(stack, "analysis", count, seconds, {})
            seconds, mib = reported(stack, folder / "sized", count)
            print_size(stack, "report", count, seconds, {"command": mib})
            database = sum(path.stat().st_size for path in folder.glob("ledger.db*"))
            records = sum(path.stat().st_size for path in (folder / "sized" / RECORDS_FOLDER).iterdir())
            print(f"{'':8} bytes an episode: ledger's file {database / count:,.0f}  records {records / count:,.0f}")


def reported(stack: Stack, folder: Path, count: int) -> tuple[float, float]:
    """How long `countersign report` takes, which has the journal verified, and how much memory, in MiB."""
    command = ["report", str(folder), "--ledger", stack.ledger.address, "--json"]
    begun = time.perf_counter()
    running = subprocess.Popen([sys.executable, "-m", "countersign.cli", *command], stdout=subprocess.PIPE)
    assert running.stdout is not None
    answer = json.loads(running.stdout.read())
    _, status, usage = os.wait4(running.pid, 0)
    assert status == 0, answer["money"]["differences"]
    assert answer["total"]["completed"] == {"explicit_finish": count}, answer["total"]
    return time.perf_counter() - begun, usage.ru_maxrss / 1024


def print_size(stack: Stack, step: str, count: int, seconds: float, others: Mapping[str, float]) -> None:
    """One step's time an episode, and the most memory that every process has held so far."""
    held = {**others, **{part: peak_mib(one.roots[0]) for part, one in stack.parts().items()}}
    memory = "  ".join(f"{part} {mib:.0f}" for part, mib in held.items())
    print(f"{count:8,} episodes: {step:10} {seconds / count * 1000:6.2f} ms each; MiB at most: {memory}", flush=True)


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short round instead of three")
    parser.add_argument("--python", metavar="PYTHON", help="a Python that has inspect-ai")
    parser.add_argument("--sizes", type=int, nargs="*", metavar="COUNT", help="measure costs by size instead")
    given = parser.parse_args()
    if given.sizes is not None:
        measure_sizes(given.sizes or SIZES)
    else:
        compare(given.python, quick=given.quick)


if __name__ == "__main__":
    main()
