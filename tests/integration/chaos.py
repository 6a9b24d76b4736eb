"""A collection that is disturbed: its plan, the moment and the victim, and what is found afterwards, from outside."""

import asyncio
import fcntl
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from countersign.kit.channel import call, open_channel
from countersign.kit.money_wire import from_wire
from countersign.ledger.v1 import ledger_pb2 as pb
from countersign.ledger.v1.ledger_pb2_grpc import LedgerServiceStub
from tests.integration.stack import Process, Stack

LEDGER_STORE = "ledger.sqlite"
"""The file of a ledger that the collector starts."""

CALL_SECONDS = 20
COLLECT_SECONDS = 60
POLL_SECONDS = 0.004
LATE_SECONDS = 0.05
"""How long the agent takes to answer: long enough that a request is under way at almost every moment."""

WORKERS = 3
"""How many episodes the collector runs at once."""

MAX_IN_FLIGHT = 2 * WORKERS
"""Every worker's call may be lost with the adapter, and as many must still be possible."""

ROOM_NANOS = 10**10
"""A cap that is no limit: for the collection that nobody disturbs."""

# One world a template and a message of its own for each episode: no two slots have the same request.
PLAN = """
name = "kill"
account = {{ id = "{account}", currency = "USD", grant = "{cap}" }}
arms = [{{ name = "neutral", wording = "neutral" }}]
messages = [
    {{ name = "first", body = "The first message." }},
    {{ name = "second", body = "The second message." }},
    {{ name = "third", body = "The third message." }},
    {{ name = "fourth", body = "The fourth message." }},
]

[study]
cap = "{cap}"
call_ceiling = "0.05"
max_in_flight = {max_in_flight}
stop = "never"
readiness = "waived"

[[templates]]
name = "window"
environment = "event"
contract = {{ deadline = 6, verification_delay = 3 }}
worlds = [{{ name = "need", need = true, effective = true }}]

[[templates]]
name = "queue"
environment = "queue"
worlds = [{{ name = "both-needed", need_a = true, need_b = true }}]

[[routes]]
name = "agent"
base_url = "http://{agent}/v1"
model = "agent-under-test"
price = {{ input_per_million = "0.50", output_per_million = "1.50" }}
output_cap = 256
input_limit_bytes = 60000
"""


class Victim(StrEnum):
    """What is killed."""

    LEDGER = "ledger"
    ADAPTER = "adapter"
    VERIFIER = "verifier"
    COLLECTOR = "collector"


class Progress(StrEnum):
    """What is counted to find the moment."""

    REQUESTS = "requests"
    RECORDS = "records"


@dataclass(frozen=True, slots=True)
class Disturbance:
    """Kill `victim` once `count` of `progress` are seen and `delay_seconds` have passed.

    It starts again `pause_seconds` later; `ended_first`: but not before the collector has ended.
    """

    victim: Victim
    progress: Progress
    count: int
    delay_seconds: float
    pause_seconds: float
    ended_first: bool

    @classmethod
    def draw(cls, victim: Victim, seed: int, requests_count: int, records_count: int) -> "Disturbance":
        """The disturbance of this seed, in the first two thirds of a collection of so many requests and records."""
        dice = random.Random(f"{victim}:{seed}")
        progress = dice.choice(list(Progress))
        most = requests_count if progress is Progress.REQUESTS else records_count
        return cls(
            victim,
            progress,
            dice.randint(1, most * 2 // 3),
            dice.choice((0.0, dice.uniform(0, 2 * LATE_SECONDS))),
            dice.choice((0.0, dice.uniform(0, 0.5))),
            # Without a ledger the collector ends only once the lease of a call under way has: minutes.
            victim in (Victim.ADAPTER, Victim.VERIFIER) and dice.random() < 0.5,
        )


@dataclass(slots=True)
class Study:
    """One study in a folder of its own, collected by processes against an agent and a stack.

    Without a stack the collector starts services of its own.
    """

    stack: Stack | None
    folder: Path
    agent: str
    cap_nanos: int = ROOM_NANOS
    collector: "subprocess.Popen[bytes] | None" = None
    statuses: list[int] = field(default_factory=list)

    @property
    def account_id(self) -> str:
        """An account of its own, so that studies in one ledger do not meet."""
        return self.folder.name

    @property
    def out(self) -> Path:
        """The collector's own folder."""
        return self.folder / "out"

    @property
    def records(self) -> Path:
        """Where the collector keeps records."""
        return self.out / "records"

    def start(self) -> None:
        """Write the plan and start a collector."""
        cap = f"{self.cap_nanos // 10**9}.{self.cap_nanos % 10**9:09}"
        plan = self.folder / "plan.toml"
        plan.write_text(PLAN.format(account=self.account_id, cap=cap, max_in_flight=MAX_IN_FLIGHT, agent=self.agent))
        addresses = self.stack.addresses() if self.stack is not None else []
        command = ["collect", str(plan), "--out", str(self.out), *addresses]
        options = ["--max-in-flight", str(WORKERS), "--json"]
        with (self.folder / "report.jsonl").open("wb") as out, (self.folder / "collect.log").open("ab") as log:
            self.collector = subprocess.Popen(
                [sys.executable, "-m", "countersign.cli", *command, *options], stdout=out, stderr=log
            )

    def is_running(self) -> bool:
        """Whether the collector runs."""
        return self.collector is not None and self.collector.poll() is None

    def wait(self) -> int:
        """The collector's exit status once it has ended by itself."""
        assert self.collector is not None
        self.statuses.append(self.collector.wait(COLLECT_SECONDS))
        return self.statuses[-1]

    def kill(self) -> None:
        """End the collector at once."""
        assert self.collector is not None
        self.collector.kill()
        self.collector.wait()

    def collect(self) -> int:
        """Run a collector to its end; its exit status."""
        self.start()
        return self.wait()

    def report(self) -> dict[str, Any]:
        """The last collection's report."""
        last: dict[str, Any] = json.loads((self.folder / "report.jsonl").read_text().splitlines()[-1])
        assert last["event"] == "report", last
        return last

    def seen(self, progress: Progress) -> int:
        """How far the collection is, by the wire or by the records that are kept."""
        if progress is Progress.REQUESTS:
            return len(wire_digests(self.folder))
        return len(list(self.records.glob("*.json")))

    def log(self) -> str:
        """What the collectors said."""
        return (self.folder / "collect.log").read_text()


@contextmanager
def study_of(stack: Stack | None, folder: Path, agent: Process, cap_nanos: int = ROOM_NANOS) -> Iterator[Study]:
    """A study whose collector does not outlive it."""
    study = Study(stack, folder, agent.address, cap_nanos)
    try:
        yield study
    finally:
        if study.is_running():
            study.kill()


def wire_digests(folder: Path) -> list[str]:
    """The digest of every request that the agent received, in order; a line that is being written does not count."""
    log = folder / "wire.jsonl"
    text = log.read_text() if log.exists() else ""
    return [json.loads(line)["sha256"] for line in text.splitlines(keepends=True) if line.endswith("\n")]


def disturb(study: Study, disturbance: Disturbance) -> None:
    """Wait for the moment and kill; afterwards the victim runs again, and the collector has ended."""
    wait_until(lambda: study.seen(disturbance.progress) >= disturbance.count, study)
    time.sleep(disturbance.delay_seconds)
    assert study.is_running(), f"the collection had ended before the kill: {study.log()}"
    if disturbance.victim is Victim.COLLECTOR:
        study.kill()
        time.sleep(disturbance.pause_seconds)
        return
    assert study.stack is not None
    process = next(one for one in study.stack.processes if one.name == disturbance.victim)
    process.kill()
    if disturbance.ended_first:
        study.wait()
    time.sleep(disturbance.pause_seconds)
    process.start()
    if not disturbance.ended_first:
        study.wait()


def wait_until(reached: Callable[[], bool], study: Study) -> None:
    """Poll until `reached`; fails where the collector ends before."""
    while not reached():
        assert study.is_running(), f"the collection ended too early: {study.log()[-2000:]}"
        time.sleep(POLL_SECONDS)


def await_end_of_ledger(study: Study) -> None:
    """Wait until no ledger serves the collector's own file any more."""
    end = time.monotonic() + COLLECT_SECONDS
    with (study.out / f"{LEDGER_STORE}.lock").open("r+b") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                assert time.monotonic() < end, "the ledger outlived the collector and never ended"
                time.sleep(POLL_SECONDS)
            else:
                return


@dataclass(frozen=True, slots=True)
class Findings:
    """What the wire, the ledger and the folder say about a study after a collection."""

    wire: Sequence[str]
    calls: Sequence[pb.Call]
    account: pb.Balances
    study: pb.StudySummary
    journal: pb.VerifyJournalResponse
    records: dict[str, dict[str, Any]]
    report: dict[str, Any]

    def episodes_in_doubt(self) -> set[str]:
        """The episodes with a call whose outcome the ledger does not know."""
        return {one.slot.episode_id for one in self.calls if one.state != pb.CALL_STATE_CHARGED}

    def stopped_episodes(self) -> set[str]:
        """The episodes that are recorded as stopped."""
        return {name for name, record in self.records.items() if record["status"] == "stopped"}

    def digests(self, *states: "pb.CallState.ValueType") -> set[str]:
        """The request digests of the calls in these states; of all where none is named."""
        return {one.request_digest.hex() for one in self.calls if not states or one.state in states}


def look(study: Study) -> Findings:
    """Ask everything that can be asked from outside."""
    return asyncio.run(_look(study))


async def _look(study: Study) -> Findings:
    assert study.stack is not None
    report = study.report()
    listed = pb.ListCallsRequest(study_id=report["study_id"], page_size=1000)
    async with open_channel(study.stack.ledger.address) as channel:
        stub = LedgerServiceStub(channel)
        calls = (await call(stub.ListCalls, listed, CALL_SECONDS)).calls
        summary = await call(stub.Summarize, pb.SummarizeRequest(account_id=study.account_id), CALL_SECONDS)
        journal = await call(stub.VerifyJournal, pb.VerifyJournalRequest(), CALL_SECONDS)
    records = {path.stem: json.loads(path.read_text()) for path in sorted(study.records.glob("*.json"))}
    (only,) = summary.studies
    return Findings(wire_digests(study.folder), list(calls), summary.balances, only, journal, records, report)


@dataclass(frozen=True, slots=True)
class Peak:
    """The most that was ever accounted for, in nano-units, and the most calls that were ever under way."""

    nanos: int
    in_flight: int


def peak_of(calls: Sequence[pb.Call]) -> Peak:
    """The highest point of a study's history, from the times of its calls: reserved, then what each came to."""
    steps: list[tuple[int, int, int]] = []
    for one in calls:
        reserved = from_wire(one.reserved).nanos
        steps.append((one.reserved_at.ToNanoseconds(), reserved, 1))
        if one.state != pb.CALL_STATE_RESERVED:
            steps.append((one.changed_at.ToNanoseconds(), from_wire(one.accounted).nanos - reserved, -1))
    nanos = most_nanos = in_flight = most_in_flight = 0
    for _, change, begun in sorted(steps):
        nanos, in_flight = nanos + change, in_flight + begun
        most_nanos, most_in_flight = max(most_nanos, nanos), max(most_in_flight, in_flight)
    return Peak(most_nanos, most_in_flight)
