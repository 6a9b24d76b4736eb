"""Lanes: each collects one study after another, as processes that are killed, resumed and told about decisions."""

import asyncio
import json
import random
import shutil
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from countersign.study.manifest import load
from tests.soak.faults import PROVIDER_LINK
from tests.soak.inspector import Inspector
from tests.soak.operator import Operator
from tests.soak.records import Outcomes, record_faults, records_in, report_faults
from tests.soak.services import begin, ended, python
from tests.soak.site import Site
from tests.soak.stores import StoreAway
from tests.soak.studies import LEASE_SECONDS, SECRET, WORKERS, Plan, draw, policy_of
from tests.soak.violations import Invariant, Violation

MOST_COLLECTIONS = 8
"""After so many collections a study is left as it is."""

COLLECT_SECONDS = 600.0
"""A collection that takes longer hangs."""

STUDIES_AN_ACCOUNT = 6
UNREACHABLE = "cannot be reached"
"""Why a collector may end as if told something wrong: a service was away when it began."""

AWAY_SECONDS = 1.0
"""How long a lane waits then."""

KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)
SETTLED, FAILED, WRONG, HELD = 0, 1, 2, 3


@dataclass
class Job:
    """One study and what became of it so far."""

    plan: Plan
    folder: Path
    due: float = 0.0
    statuses: list[int] = field(default_factory=list)
    total: dict[str, Any] | None = None
    """The last report's counts."""

    @property
    def out(self) -> Path:
        """The collector's own folder."""
        return self.folder / "out"

    @property
    def report(self) -> Path:
        """What the last collection, the first of two, wrote."""
        return self.folder / "report-0.jsonl"


@dataclass
class Tally:
    """What the lanes did, over all."""

    studies: int = 0
    settled: int = 0
    left: int = 0
    collections: Counter[str] = field(default_factory=Counter)
    episodes: Counter[str] = field(default_factory=Counter)
    records: int = 0


@dataclass
class Lane:
    """One lane; `running` are its collectors now."""

    number: int
    seed: int
    site: Site
    inspector: Inspector
    operator: Operator
    outcomes: Outcomes
    tally: Tally
    folder: Path
    clock: Callable[[], float]
    running: list[asyncio.subprocess.Process] = field(default_factory=list)
    _count: int = 0
    _waiting: list[Job] = field(default_factory=list)

    async def run(self, phase: str, until: float) -> None:
        """Collect until the clock says `until`; what is under way then is interrupted, as by its user."""
        self._waiting = []
        while self.clock() < until and not self.inspector.broken.is_set():
            job = self._next(phase)
            await self._collect(job, until)
        for job in self._waiting:
            self._leave(job)

    def _leave(self, job: Job) -> None:
        """Nothing more is done about the study."""
        self.tally.left += 1
        self._count_episodes(job)

    def _next(self, phase: str) -> Job:
        """A study whose leases are over by now, else a new one."""
        for job in self._waiting:
            if job.due <= self.clock():
                self._waiting.remove(job)
                return job
        self._count += 1
        self.tally.studies += 1
        name = f"{phase}-{self.number}-{self._count}"
        account_id = f"{phase}-lab-{self.number}-{self._count // STUDIES_AN_ACCOUNT}"
        job = Job(draw(self.seed, name, account_id, self.site.links[PROVIDER_LINK].address), self.folder / name)
        job.folder.mkdir(parents=True)
        job.plan.write(job.folder / "plan.toml")
        return job

    async def _collect(self, job: Job, until: float) -> None:
        while not self.inspector.broken.is_set():
            twice = random.Random(f"{self.seed} {job.plan.name} {len(job.statuses)}").random() < 0.15
            both = await asyncio.gather(*(self._one(job, n, until) for n in range(1 + twice)))
            job.statuses.append(both[0])
            for status in both:
                self.tally.collections[_named(status)] += 1
            is_alone = len(both) == 1
            is_settled = both[0] == SETTLED and is_alone and knows_money(job.report)
            self._check(job, is_settled=is_settled)
            if is_settled:
                self.tally.settled += 1
                self._count_episodes(job)
                self._forget(job)
                return
            if self.clock() >= until or len(job.statuses) >= MOST_COLLECTIONS:
                self._leave(job)
                return
            if both[0] == WRONG:
                job.statuses.pop()
                await asyncio.sleep(AWAY_SECONDS)
            if HELD in both and not await self._decide(job):
                job.due = self.clock() + LEASE_SECONDS
                self._waiting.append(job)
                return

    async def _one(self, job: Job, number: int, until: float) -> int:
        """One collector from its start to its end; its exit status."""
        options = ["--out", job.out, *self.site.collector_options(), "--max-in-flight", WORKERS, "--json"]
        command = python("countersign.cli", "collect", job.folder / "plan.toml", *options)
        log, report = job.folder / f"collect-{number}.log", job.folder / f"report-{number}.jsonl"
        process = await begin(command, log, report)
        self.running.append(process)
        try:
            left = max(1.0, until - self.clock())
            try:
                await asyncio.wait_for(process.wait(), min(COLLECT_SECONDS, left))
            except TimeoutError:
                if left > COLLECT_SECONDS:
                    self.inspector.tell([Violation(Invariant.CONDUCT, f"a collector of {job.plan.name} hangs")])
                process.send_signal(signal.SIGTERM)
                process.send_signal(signal.SIGCONT)
                await asyncio.wait_for(process.wait(), COLLECT_SECONDS)
            return await ended(process)
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await ended(process)
            self.running.remove(process)

    def _check(self, job: Job, *, is_settled: bool) -> None:
        """Everything that the collection left behind."""
        tell = self.inspector.tell
        said = (job.folder / "collect-0.log").read_text()[-600:]
        if job.statuses[-1] == WRONG and UNREACHABLE not in said:
            tell(
                [
                    Violation(
                        Invariant.CONDUCT, f"a collector of {job.plan.name} was told that its input is wrong: {said}"
                    )
                ]
            )
        if not (job.out / "manifest.json").exists():
            return
        manifest = load(job.out)
        self.inspector.plan(manifest.document, manifest.study_id)
        records = records_in(job.out)
        for record in records:
            tell(record_faults(record))
            tell(self.outcomes.faults(record))
            if policy_of(record["identity"]["route"]) == SECRET:
                self.inspector.secret_requests.update(call["request_digest"] for call in record["calls"])
        self.tally.records += len(records)
        self.inspector.checks["records"] += len(records)
        report = report_of(job.report)
        if report is not None:
            planned = len(manifest.document["episodes"])
            tell(report_faults(report, planned, is_settled=is_settled))
            self.inspector.checks["reports"] += 1
            job.total = report["total"]
        tell(self.inspector.scan.faults([path for path in job.folder.rglob("*") if path.is_file()]))

    def _count_episodes(self, job: Job) -> None:
        total = job.total
        if total is None:
            return
        for name in ("completed", "technical_unknown", "stopped"):
            for detail, count in total[name].items():
                self.tally.episodes[f"{name}.{detail}"] += count
        self.tally.episodes["not_attempted"] += total["not_attempted"]
        self.tally.episodes["planned"] += total["planned"]

    async def _decide(self, job: Job) -> int:
        """Let the operator decide; how many calls were decided."""
        if not (job.out / "manifest.json").exists():
            return 0
        try:
            await self.inspector.catch_up()
            address = self.site.address("ledger-1")
            study_id = load(job.out).study_id
            return await self.operator.decide(address, self.inspector.book, self.inspector.door, study_id)
        except (StoreAway, grpc.aio.AioRpcError):
            return 0

    def _forget(self, job: Job) -> None:
        """A study that is settled and whole needs no room any more."""
        self.inspector.scan.forget(job.folder)
        if not self.inspector.found:
            shutil.rmtree(job.folder)


def knows_money(path: Path) -> bool:
    """Whether the report's money is the ledger's; where that was away at the end, it is the records' own."""
    report = report_of(path)
    return report is not None and report["money"]["source"] == "ledger"


def report_of(path: Path) -> dict[str, Any] | None:
    """The report that a collection ended with, if it did."""
    lines = path.read_text().splitlines() if path.exists() else []
    try:
        last = json.loads(lines[-1]) if lines else {}
    except ValueError:
        # Killed while it wrote.
        return None
    return last if last.get("event") == "report" else None


def _named(status: int) -> str:
    if status in KILLED:
        return "killed"
    return {
        SETTLED: "settled",
        FAILED: "failed",
        HELD: "held",
        WRONG: "unreachable",
        143: "interrupted",
        -signal.SIGTERM: "interrupted",
    }.get(status, f"status {status}")
