"""One soak from its start to its end: site, lanes, faults, watching, and what is checked when it is over."""

import asyncio
import random
import signal
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from countersign.ledger.v1 import ledger_pb2 as pb
from countersign.ledger.v1.ledger_pb2_grpc import LedgerServiceStub
from tests.soak import growth
from tests.soak.faults import COLLECTOR, Fault, Kind, Phase, Store, phases, plan_of
from tests.soak.inspector import VERIFY_SECONDS, Inspector
from tests.soak.lanes import Lane, Tally
from tests.soak.operator import Operator
from tests.soak.records import SECRETS, Outcomes
from tests.soak.services import STOPPED_STATUSES, Service
from tests.soak.site import Site
from tests.soak.stores import StoreAway
from tests.soak.studies import ATTEMPT_SECONDS
from tests.soak.violations import Invariant, Violation

LANES = 3
SAMPLE_SECONDS = 1.0
SCAN_SECONDS = 5.0
VERIFY_EVERY_SECONDS = 20.0
AWAY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
BOUND = growth.Bound(mib=6.0, mib_an_hour=6.0)
"""What a service may grow once it is warm: its allocator's noise, and little besides."""

FILE_BOUND = growth.Bound(mib=140.0, mib_an_hour=6.0)
"""The same for a ledger on a file: its page cache fills up to 128 MiB, its keys 12 MB (docs/performance.md)."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a soak is told."""

    seed: int
    seconds: float
    stores: tuple[Store, ...]
    folder: Path
    gap_seconds: float = 3.0
    think_seconds: float = 0.03


@dataclass
class Soak:
    """`run` it once; afterwards everything that is known about it is here."""

    settings: Settings
    tally: Tally = field(default_factory=Tally)
    applied: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    unanswered: Counter[str] = field(default_factory=Counter)
    series: list[growth.Series] = field(default_factory=list)
    secrets_stored: int = 0
    error: str = ""
    ran_seconds: float = 0.0
    accounts: dict[str, tuple[int, ...]] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    store: str = ""
    """The store that is under the ledgers now."""

    def __post_init__(self) -> None:
        self.inspector = Inspector(self.settings.folder)
        self.site = Site(self.settings.folder, self.inspector.door)
        self.inspector.door.think_seconds = self.settings.think_seconds
        self.operator = Operator(self.settings.seed)
        self.faults = plan_of(
            self.settings.seed, self.settings.stores, self.settings.seconds, self.settings.gap_seconds
        )
        outcomes, clock = Outcomes(), self.clock
        self.lanes = [
            Lane(n, self.settings.seed, self.site, self.inspector, self.operator, outcomes, self.tally,
                 self.settings.folder / "studies", clock)
            for n in range(1, LANES + 1)
        ]  # fmt: skip
        self._begun = time.monotonic()
        self._hits: set[asyncio.Task[None]] = set()

    def clock(self) -> float:
        """Seconds since the first store was begun."""
        return time.monotonic() - self._begun

    async def run(self) -> None:
        """Run all of it. Whatever happens, nothing of it runs afterwards."""
        try:
            await self.site.start()
            self._begun = time.monotonic()
            for phase in phases(self.settings.stores, self.settings.seconds):
                if not self.inspector.broken.is_set():
                    await self._phase(phase)
            if not self.inspector.broken.is_set():
                self.inspector.tell(_end_faults(await self.site.stop()))
                self.inspector.tell(self.growth_faults())
        except asyncio.CancelledError:
            self.error = "interrupted"
            raise
        except Exception as error:  # noqa: BLE001 - told in the result, which then is not that all held
            self.error = f"{type(error).__name__}: {error}"
            traceback.print_exc()
        finally:
            self.ran_seconds = self.clock()
            self.site.abandon()
            with suppress(Exception):
                await self.site.bury()
                await self.inspector.close()

    async def _phase(self, phase: Phase) -> None:
        """One store from its start to its end."""
        self.store = phase.store.value
        self.inspector.begin(await self.site.begin(phase.store))
        watching = [
            asyncio.create_task(self._every(SAMPLE_SECONDS, self._sample)),
            asyncio.create_task(self._every(SAMPLE_SECONDS, self._ask)),
            asyncio.create_task(self._every(SCAN_SECONDS, self._scan)),
            asyncio.create_task(self._every(VERIFY_EVERY_SECONDS, self._verify)),
        ]
        disturbing = asyncio.create_task(self._disturb(phase))
        collecting = asyncio.gather(*(lane.run(phase.store, phase.end) for lane in self.lanes))
        try:
            await self._until_broken(collecting)
            disturbing.cancel()
            await asyncio.gather(disturbing, *self._hits, return_exceptions=True)
            self._mend()
            await self._until_broken(asyncio.ensure_future(self._settle()))
        finally:
            for task in (*watching, disturbing, *self._hits):
                task.cancel()
            collecting.cancel()
            await asyncio.gather(*watching, disturbing, collecting, return_exceptions=True)
        for task in watching:
            if not task.cancelled() and task.exception() is not None:
                raise RuntimeError("watching failed") from task.exception()
        if not self.inspector.broken.is_set():
            self.inspector.tell(_end_faults(await self.site.end()))
            await self._scan()

    async def _until_broken(self, work: "asyncio.Future[Any]") -> None:
        """Wait for the work, or for the first violation, which ends it."""
        broken = asyncio.create_task(self.inspector.broken.wait())
        await asyncio.wait((work, broken), return_when=asyncio.FIRST_COMPLETED)
        broken.cancel()
        if not work.done():
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            return
        work.result()

    async def _every(self, seconds: float, what: Callable[[], Awaitable[None]]) -> None:
        """Do it again and again; what cannot be watched any further ends the soak."""
        try:
            while True:
                begun = time.monotonic()
                await what()
                await asyncio.sleep(max(0.05, begun + seconds - time.monotonic()))
        except Exception:
            self.inspector.broken.set()
            raise

    async def _sample(self) -> None:
        """Memory and descriptors of every service, and whether it runs."""
        for service in self.site.services.values():
            if service.busy.locked() or service.pid is None:
                continue
            if (status := service.died()) is not None:
                what = f"{service.name} ended by itself with status {status}: {_tail(service.log)}"
                self.inspector.tell([Violation(Invariant.CONDUCT, what)])
                return
            seen = growth.look(service.pid)
            if seen is not None:
                self._series_of(service).points.append((self.clock(), *seen))

    def _series_of(self, service: Service) -> growth.Series:
        for one in reversed(self.series):
            if (one.service, one.pid) == (service.name, service.pid):
                return one
        assert service.pid is not None
        self.series.append(growth.Series(service.name, self.store, service.pid))
        return self.series[-1]

    async def _ask(self) -> None:
        """The ledgers' answers, and the provider's log."""
        for name in self.site.ledgers():
            try:
                await self.inspector.ask_balances(self.site.address(name))
            except StoreAway:
                self.unanswered["store"] += 1
            except grpc.aio.AioRpcError as error:
                self._refused(name, error)
        self.inspector.wire_log(self.site.wire_log)

    async def _scan(self) -> None:
        logs = [path for path in self.site.logs.iterdir() if path.is_file()]
        self.inspector.tell(self.inspector.scan.faults(logs))

    async def _verify(self) -> None:
        try:
            await self.inspector.verify_journal(self.site.address("ledger-1"))
        except StoreAway:
            self.unanswered["store"] += 1
        except grpc.aio.AioRpcError as error:
            self._refused("ledger-1", error)

    def _refused(self, name: str, error: grpc.aio.AioRpcError) -> None:
        """A ledger that is down, frozen or without its store may say so, and nothing else."""
        self.unanswered[f"{name}.{error.code().name}"] += 1
        if error.code() not in AWAY:
            what = f"{name} answered {error.code().name}: {error.details()}"
            self.inspector.tell([Violation(Invariant.CONDUCT, what)])

    async def _disturb(self, phase: Phase) -> None:
        """Begin every fault of the phase at its offset; several may last at once."""
        for fault in self.faults:
            if phase.begin <= fault.at < phase.end:
                await asyncio.sleep(max(0.0, fault.at - self.clock()))
                task = asyncio.create_task(self._apply(fault))
                self._hits.add(task)
                task.add_done_callback(self._hits.discard)

    async def _apply(self, fault: Fault) -> None:
        if self._is_hit(fault):
            self.skipped[fault.kind] += 1
            return
        self.applied[fault.kind] += 1
        try:
            if fault.target == COLLECTOR:
                await self._hit_collector(fault)
            else:
                await self.site.apply(fault)
        except Exception as error:  # noqa: BLE001 - whatever it is, the soak must end with it
            what = f"{fault.kind} of {fault.target} at {fault.at}: {type(error).__name__} {error}"
            self.inspector.tell([Violation(Invariant.CONDUCT, what)])

    def _is_hit(self, fault: Fault) -> bool:
        """Whether the target has a fault already, or there is none to hit."""
        if fault.target == COLLECTOR:
            return not any(lane.running for lane in self.lanes)
        if fault.target in self.site.services:
            return self.site.services[fault.target].busy.locked()
        return fault.target == "database" and self.site.database_is_down.locked()

    async def _hit_collector(self, fault: Fault) -> None:
        victims = [process for lane in self.lanes for process in lane.running]
        victim = random.Random(f"{self.settings.seed} {fault.at}").choice(victims)
        with suppress(ProcessLookupError):
            victim.send_signal(signal.SIGKILL if fault.kind is Kind.KILL else signal.SIGSTOP)
        if fault.kind is Kind.PAUSE:
            await asyncio.sleep(fault.seconds)
            with suppress(ProcessLookupError):
                victim.send_signal(signal.SIGCONT)

    def _mend(self) -> None:
        for link in self.site.links.values():
            link.heal()

    async def _settle(self) -> None:
        """Once nothing is disturbed any more: everything is asked and compared once more, and must be answered."""
        # A turn goes on though its collector has gone.
        await asyncio.sleep(ATTEMPT_SECONDS)
        address = self.site.address("ledger-1")
        for name in self.site.ledgers():
            await self._insist(lambda name=name: self.inspector.ask_balances(self.site.address(name)))  # type: ignore[misc]
        await self._insist(lambda: self.inspector.verify_journal(address))
        self.inspector.wire_log(self.site.wire_log)
        self.inspector.tell(self.inspector.sent_faults())
        await self._scan()
        await self._insist(lambda: self._look_at_receipts(address))
        for account_id, account in self.inspector.book.accounts.items():
            self.accounts[account_id] = account.balances()
        self.calls += Counter(one.state for one in self.inspector.book.attempts.values())

    async def _insist(self, ask: Callable[[], Awaitable[None]]) -> None:
        end = time.monotonic() + VERIFY_SECONDS
        while True:
            try:
                return await ask()
            except (StoreAway, grpc.aio.AioRpcError) as error:
                if time.monotonic() > end:
                    told = [Violation(Invariant.CONDUCT, f"undisturbed, the ledger does not answer: {error}")]
                    return self.inspector.tell(told)
                await asyncio.sleep(1.0)

    async def _look_at_receipts(self, address: str) -> None:
        """I9: the reasoning that is nowhere else is in the receipts: else looking for it would prove nothing."""
        book = self.inspector.book
        keys = [
            key
            for key, one in book.attempts.items()
            if one.state == "CHARGED" and one.digest in self.inspector.secret_requests
        ]
        async with grpc.aio.insecure_channel(address) as channel:
            stub = LedgerServiceStub(channel)
            for call_id, attempt in keys[:20]:
                request = pb.GetReceiptRequest(call_id=bytes.fromhex(call_id), attempt=attempt)
                answer = await stub.GetReceipt(request, timeout=10)
                self.secrets_stored += any(secret in answer.receipt.response for secret in SECRETS)
        if keys and not self.secrets_stored:
            self.inspector.tell([Violation(Invariant.I9, "no receipt has the reasoning that the agent sent")])

    def growth_faults(self) -> list[Violation]:
        """Every process that grew by more than it may."""
        found = []
        for told in self.judged():
            if told["grows"]:
                what = f"{told['service']}: {told['grown_mib']} MiB of {told['allowed_mib']}"
                what += f", {told['grown_descriptors']} descriptors, in {told['judged_seconds']} s"
                found.append(Violation(Invariant.MEMORY, what))
        return found

    def judged(self) -> list[dict[str, Any]]:
        """Every process with what became of its memory."""
        return [one.judged(bound_of(one.service, one.store)) for one in self.series]


def bound_of(service: str, store: str) -> growth.Bound:
    """What the service may grow."""
    return FILE_BOUND if service.startswith("ledger") and store == Store.SQLITE else BOUND


def _end_faults(statuses: Any) -> list[Violation]:
    return [
        Violation(Invariant.CONDUCT, f"{name} was asked to stop and ended with status {status}")
        for name, status in statuses.items()
        if status not in STOPPED_STATUSES
    ]


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-800:]
