"""The inspector: it watches the wire, the store, the ledger's answers and the files, and shares no code with a service.

It reads the journal where it is stored (`stores`), derives everything anew (`book`), and asks the ledger over its
contract. Everything that it finds is a `Violation`; the first one stops the soak.
"""

import asyncio
import json
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from countersign.ledger.v1 import ledger_pb2 as pb
from countersign.ledger.v1.ledger_pb2_grpc import LedgerServiceStub
from tests.soak.book import Book, Entry
from tests.soak.door import Arrival, Door
from tests.soak.records import SecretScan
from tests.soak.stores import Reader, StoreAway
from tests.soak.violations import Invariant, Violation

ASK_SECONDS = 5.0
VERIFY_SECONDS = 120.0
CLOCK_NANOS = 1_000_000_000
"""By how much two readings of one machine's clock may disagree: a ledger on a file counts on from its own start, and
the date may be slewed meanwhile. Only what came while the store was away is judged by its times.
"""

KEPT_BALANCES = 20_000
"""How many of the latest balances of an account are remembered, to find the ledger's answer among them."""

NANOS_A_UNIT = 10**9
STATES = ("charged", "reserved", "held", "resolved")
AGENT_REFUSES = range(400, 500)
"""The scripted agent answers so where a request, or the reasoning in it, did not come back as it was sent."""


@dataclass
class Inspector:
    """Checks continuously; `found` is everything that broke, `checks` how often each kind was checked."""

    folder: Path
    book: Book = field(default_factory=Book)
    found: list[Violation] = field(default_factory=list)
    checks: Counter[str] = field(default_factory=Counter)
    broken: asyncio.Event = field(default_factory=asyncio.Event)
    packets: dict[tuple[str, str], str] = field(default_factory=dict)
    """The packet's digest of every planned episode, by study and episode."""
    secret_requests: set[str] = field(default_factory=set)
    """Digests of requests whose answers hold reasoning."""
    reader: Reader | None = None
    first_number: int = 0
    """Requests up to this one belong to the store before."""

    def __post_init__(self) -> None:
        self.door = Door(self.at_the_door)
        self.scan = SecretScan()
        self._busy = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, "inspector")
        self._balances: dict[str, deque[tuple[int, ...]]] = {}
        self._later: list[Arrival] = []
        self._wire_read = 0
        self._wire: Counter[str] = Counter()

    def tell(self, violations: Iterable[Violation]) -> None:
        """Keep what was found."""
        for one in violations:
            self.found.append(one)
            self.broken.set()

    def begin(self, reader: Reader) -> None:
        """From now on the ledger keeps its books here, and they are new."""
        self.book = Book()
        self.reader = reader
        self._balances = {}
        self._later = []
        self.secret_requests = set()
        self.first_number = self.door.count

    async def close(self) -> None:
        """Inspect no more."""
        if self.reader is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, self.reader.close)
        self._thread.shutdown()

    async def catch_up(self) -> None:
        """Read the journal to its end. Raises StoreAway."""
        async with self._busy:
            assert self.reader is not None
            heads = {name: one.sequence for name, one in self.book.accounts.items()}
            entries = await asyncio.get_running_loop().run_in_executor(self._thread, self.reader.after, heads)
            for entry in entries:
                self.tell(self.entry_faults(entry))
            self.checks["journal_entries"] += len(entries)

    def entry_faults(self, entry: Entry) -> list[Violation]:
        """What one entry of the journal breaks, by itself, by what was before it and by what the door has seen."""
        try:
            found = self.book.take(entry)
            found += self.answer_faults(entry.kind, json.loads(entry.body).get("call") or {})
        except (KeyError, TypeError, ValueError, IndexError) as error:
            what = f"entry {entry.sequence} of {entry.account_id} cannot be read: {type(error).__name__} {error}"
            return [Violation(Invariant.JOURNAL, what)]
        kept = self._balances.setdefault(entry.account_id, deque(maxlen=KEPT_BALANCES))
        kept.append(self.book.accounts[entry.account_id].balances())
        return found

    def answer_faults(self, kind: str, body: Mapping[str, Any]) -> Iterable[Violation]:
        """I5, I9: a receipt holds what left the provider's door whole; the agent got its reasoning back unchanged."""
        receipt, hold = body.get("receipt"), body.get("hold")
        where = f"call {str(body.get('call_id'))[:12]}"
        if kind in ("CALL_CHARGED", "CALL_HELD") and receipt is not None:
            arrivals = self.door.by_digest.get(body["request_digest"], [])
            if receipt["response_digest"] not in {one.answer for one in arrivals}:
                yield Violation(Invariant.I5, f"{where}: a receipt of an answer that no provider gave")
            self.checks["receipts"] += 1
        if kind == "CALL_HELD" and hold is not None and hold["http_status"] in AGENT_REFUSES:
            yield Violation(Invariant.I9, f"{where}: the agent refused what came back ({hold['http_status']})")

    async def at_the_door(self, arrival: Arrival) -> None:
        """I1, I4: a request is about to reach the provider; its reservation must be in the store already."""
        try:
            await self.catch_up()
        except StoreAway:
            # The database is down: judged by its times once it is back.
            self._later.append(arrival)
            return
        self.checks["requests_at_the_door"] += 1
        self.tell(self.arrival_faults(arrival, at_once=True))

    def arrival_faults(self, arrival: Arrival, *, at_once: bool) -> Iterable[Violation]:
        """What is wrong with a request by the journal as it was read: until then, or by its times."""
        attempts = self.book.by_digest.get(arrival.digest, [])
        until = arrival.at + CLOCK_NANOS
        reserved = [one for one in attempts if at_once or one.reserved_at * 1_000 <= until]
        earlier = [one for one in self.door.by_digest[arrival.digest] if one.number <= arrival.number]
        where = f"request {arrival.number} ({arrival.digest[:12]})"
        if len(earlier) > len(reserved):
            yield Violation(
                Invariant.I1, f"{where}: request {len(earlier)} of a slot with {len(reserved)} reservations"
            )
        for one in attempts:
            before = one.receipted_at is not None and (at_once or one.receipted_at * 1_000 + CLOCK_NANOS < arrival.at)
            if before:
                yield Violation(Invariant.I4, f"{where}: asked again though attempt {one.number} has its answer")

    def sent_faults(self) -> Iterable[Violation]:
        """I1, over everything: no more requests than reservations, whatever was seen at the time."""
        for digest, arrivals in self.door.by_digest.items():
            if self._of_this_store(arrivals) and len(arrivals) > len(self.book.by_digest.get(digest, ())):
                yield Violation(Invariant.I1, f"{len(arrivals)} requests {digest[:12]} for fewer reservations")
        for digest, count in self._wire.items():
            if count > len(self.door.by_digest.get(digest, ())):
                yield Violation(Invariant.I1, f"the provider has {count} requests {digest[:12]}, more than were sent")
        self.checks["requests_over_all"] += len(self.door.by_digest)

    def _of_this_store(self, arrivals: Sequence[Arrival]) -> bool:
        return arrivals[-1].number > self.first_number

    async def late_arrivals(self) -> None:
        """Judge what came while the store was away. Raises StoreAway."""
        await self.catch_up()
        waiting, self._later = self._later, []
        for arrival in waiting:
            self.checks["requests_by_time"] += 1
            self.tell(self.arrival_faults(arrival, at_once=False))

    def wire_log(self, path: Path) -> None:
        """I1, I6: the provider's own log: nothing that did not come through the door, each with the frozen packet."""
        if not path.exists():
            return
        with path.open("rb") as file:
            file.seek(self._wire_read)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._wire_read += len(line)
                self.tell(self.wire_faults(json.loads(line)))

    def wire_faults(self, line: Mapping[str, Any]) -> Iterable[Violation]:
        """One line of the provider's log."""
        digest = line["sha256"]
        self._wire[digest] += 1
        self.checks["provider_log_lines"] += 1
        if self._wire[digest] > len(self.door.by_digest.get(digest, ())):
            yield Violation(Invariant.I1, f"the provider has a request {digest[:12]} that no adapter sent")
        for attempt in self.book.by_digest.get(digest, ()):
            frozen = self.packets.get((attempt.study_id, attempt.episode_id))
            if frozen is not None and frozen[:16] != line["episode"]:
                yield Violation(Invariant.I6, f"{attempt.episode_id[:12]} was shown another packet than was frozen")

    async def ask_balances(self, address: str) -> None:
        """I2: what the ledger answers adds up, is never above the budget, and is a state of its journal."""
        await self.late_arrivals()
        async with grpc.aio.insecure_channel(address) as channel:
            request = pb.ListAccountsRequest(page_size=1000)
            answer = await LedgerServiceStub(channel).ListAccounts(request, timeout=ASK_SECONDS)
        await self.catch_up()
        for account in answer.accounts:
            said = account.balances
            amounts = [nanos(getattr(said, name)) for name in ("granted", "prior_spend", *STATES)]
            self.tell(self.balance_faults(account.account_id, tuple(amounts), nanos(said.available)))

    def balance_faults(self, account_id: str, said: tuple[int, ...], available: int) -> Iterable[Violation]:
        """What is wrong with one account's balances, as the ledger said them just now."""
        self.checks["balances"] += 1
        granted, *rest = said
        if granted - sum(rest) != available:
            yield Violation(Invariant.I2, f"{account_id}: {said} does not leave {available}")
        if available < 0:
            yield Violation(Invariant.I2, f"{account_id}: {-available} above the budget")
        known = self._balances.get(account_id)
        # Nearly always the latest one.
        if known is None or (said != known[-1] and said not in known):
            yield Violation(Invariant.I2, f"{account_id}: the ledger says {said}, which its journal never was")

    async def verify_journal(self, address: str) -> None:
        """The ledger verifies its journal, and finds in it every chain digest that was derived here."""
        await self.catch_up()
        heads = [
            pb.JournalHead(account_id=name, sequence=one.sequence, chain_digest=one.chain)
            for name, one in self.book.accounts.items()
        ]
        async with grpc.aio.insecure_channel(address) as channel:
            request = pb.VerifyJournalRequest(expected_heads=heads)
            answer = await LedgerServiceStub(channel).VerifyJournal(request, timeout=VERIFY_SECONDS)
        self.tell(journal_faults(answer, len(heads)))
        self.checks["journal_verified"] += 1

    def plan(self, manifest: Mapping[str, Any], study_id: str) -> None:
        """Remember what was frozen of a study."""
        for episode in manifest["episodes"]:
            self.packets[(study_id, episode["episode_id"])] = episode["packet_digest"]


def journal_faults(answer: pb.VerifyJournalResponse, accounts_count: int) -> Iterable[Violation]:
    """What the ledger's own verification found."""
    if not answer.intact:
        differences = "; ".join(f"{one.account_id} {one.sequence} {one.what}" for one in answer.differences)
        yield Violation(Invariant.JOURNAL, f"VerifyJournal: {differences}")
    if answer.accounts_count < accounts_count:
        yield Violation(
            Invariant.JOURNAL, f"{answer.accounts_count} accounts were verified, {accounts_count} are stored"
        )


def nanos(money: Any) -> int:
    """An amount on the wire in nano-units."""
    return int(money.units) * NANOS_A_UNIT + int(money.nanos)
