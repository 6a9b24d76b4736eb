"""Concurrent clients in orders that a seed decides, with lost replies and failing commits, against the plain model.

The store yields and fails as the seed says and runs no thread, so that a seed is one schedule, every time. The order in
which transactions that landed decided their commands is the witness: carried out one by one in that order, the model
must give every answer that a client heard, and every balance that a reader saw.
"""

import random
from asyncio import TaskGroup, sleep
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from countersign.kit.errors import CountersignError
from ledger_svc import errors
from ledger_svc.calls import HoldCategory, Slot
from ledger_svc.commands.accounts import GrantBudget
from ledger_svc.commands.leases import ExpireOverdue
from ledger_svc.commands.outcomes import Hold, RecordReceipt
from ledger_svc.commands.reservations import Admitted, Answered, Reserve
from ledger_svc.commands.resolutions import ResolveHold
from ledger_svc.ledger import Ledger, StoredReceipt
from ledger_svc.storage.sqlite import SqliteStore
from ledger_svc.workspace import Wanted, Workspace
from tests.ledger_svc import support
from tests.ledger_svc.attack.rounds import seeds
from tests.ledger_svc.support import Clock
from tests.ledger_svc.test_machine import COSTS, STUDIES, TOKENS, Model, as_words

T = TypeVar("T")
CLIENTS = 8
STEPS = 14
SLOTS = [support.slot(episode, 1, study) for episode in ("e", "f") for study in sorted(STUDIES)]


@dataclass
class Decision:
    """A command as one transaction decided it."""

    command: Any
    now: int
    said: str


class Noted:
    """A command that notes each decision about it."""

    def __init__(self, command: Any, pending: list[Decision]) -> None:
        self.command = command
        self.pending = pending

    def wanted(self) -> Wanted:
        return self.command.wanted()  # type: ignore[no-any-return]

    def decide(self, book: Workspace) -> Any:
        try:
            answer = self.command.decide(book)
        except CountersignError as refusal:
            self.pending.append(Decision(self.command, book.now, refusal.reason))
            raise
        self.pending.append(Decision(self.command, book.now, said(answer)))
        return answer


class SeededStore(SqliteStore):
    """Runs everything on the event loop, after as many turns of it as the seed says, and fails as it says."""

    random: random.Random
    pending: list[Decision]
    landed: list[Decision]
    failures: Counter[str]

    async def _on(self, thread: ThreadPoolExecutor, run: Callable[[], T]) -> T:
        for _ in range(self.random.randrange(5)):
            await sleep(0)
        return run()

    async def transact(self, wanted: Wanted, now: int, work: Callable[[Workspace], T]) -> T:
        fate = self.random.choices(["lands", "before", "undone", "reply lost"], [20, 1, 1, 2])[0]
        self.failures[fate] += 1
        if fate == "before":
            raise errors.StoreUnavailableError("injected", problem=fate)

        def undone(book: Workspace) -> T:
            work(book)
            raise errors.StoreUnavailableError("injected", problem=fate)

        self.pending.clear()
        answer = await super().transact(wanted, now, undone if fate == "undone" else work)
        self.landed += self.pending
        if fate == "reply lost":
            raise errors.StoreUnavailableError("injected", problem=fate)
        return answer


def said(answer: Any) -> str:
    """An answer in the model's words."""
    if isinstance(answer, Admitted):
        return f"admitted {answer.call.attempt}" + (" again" if answer.replayed else "")
    if isinstance(answer, StoredReceipt | Answered):
        return "answered"
    if isinstance(answer, int):
        return f"swept {answer}"
    if hasattr(answer, "call"):
        return f"again {answer.call.state}" if answer.replayed else str(answer.call.state)
    return "again" if getattr(answer, "replayed", False) else "done"


class Sequential:
    """The model, one command after another; after each, the number of journal entries and the balances."""

    def __init__(self) -> None:
        self.model = Model(granted=12)
        self.done: dict[str, str] = {}
        self.entries_count = 4
        self.states = {4: self.balances()}

    def balances(self) -> tuple[Any, ...]:
        return (self.model.granted, self.model.totals(), *(self.model.totals(name) for name in sorted(STUDIES)))

    def carry_out(self, decision: Decision) -> str:
        """What the model answers."""
        answer = self._answer(decision.command, decision.now)
        self.states[self.entries_count] = self.balances()
        return answer

    def expire(self, now: int, study_id: str | None) -> int:
        """Unlike the model's own, of one study only, as a command does it: the clock of this test runs back as well."""
        overdue = [a for a in self.model.attempts(study_id) if a.state == "RESERVED" and a.lease_end <= now]
        for attempt in overdue:
            attempt.state, attempt.hold = "HELD", "LEASE_EXPIRED"
        self.entries_count += len(overdue)
        return len(overdue)

    def _answer(self, command: Any, now: int) -> str:
        match command:
            case ExpireOverdue():
                return f"swept {self.expire(now, None)}"
            case GrantBudget():
                return self._once(command.request_id, lambda: self._grant(command.amount.nanos), "again")
            case Reserve():
                self.expire(now, command.slot.study_id)
                answer = self.model.reserve(
                    command.slot, command.attempt_token, command.request, command.amount.nanos, now
                )
                self.entries_count += answer.startswith("admitted") and not answer.endswith("again")
                return "answered" if answer.startswith("answered") else answer
            case ResolveHold():
                return self._once(command.request_id, lambda: self._resolve(command, now), "again RESOLVED")
        return self._outcome(command, now)

    def _once(self, request_id: str, work: Callable[[], str], again: str) -> str:
        if request_id in self.done:
            return again
        answer = work()
        if answer in ("done", "RESOLVED"):
            self.done[request_id] = answer
            self.entries_count += 1
        return answer

    def _grant(self, nanos: int) -> str:
        self.model.granted += nanos
        return "done"

    def _resolve(self, command: ResolveHold, now: int) -> str:
        at = slot_of(command.call_id)
        if len(self.model.slots.get(at, [])) >= command.attempt:
            self.expire(now, at.study_id)
        charged = None if command.charged is None else command.charged.nanos
        return self.model.resolve(at, command.attempt, charged, command.open_new_attempt)

    def _outcome(self, command: RecordReceipt | Hold, now: int) -> str:
        at = slot_of(command.call_id)
        if command.attempt_token in [attempt.token for attempt in self.model.slots.get(at, [])]:
            self.expire(now, at.study_id)
        if isinstance(command, Hold):
            answer = self.model.hold(at, command.attempt_token, command.facts.category)
        else:
            answer = self.model.receipt(at, command.attempt_token, command.response, command.cost.amount_text)
        self.entries_count += answer in ("HELD", "CHARGED")
        return answer


def slot_of(call_id: bytes) -> Slot:
    return next(at for at in SLOTS if at.call_id() == call_id)


class Client:
    """Does what its seed says, asks again where a reply was lost, and keeps what it heard and saw."""

    def __init__(self, ledger: Ledger, store: SeededStore, clock: Clock, source: random.Random) -> None:
        self.ledger = ledger
        self.store = store
        self.clock = clock
        self.random = source
        self.heard: list[tuple[Any, str]] = []
        self.seen: list[Any] = []
        self.sent: list[Any] = []

    async def run(self) -> None:
        for _ in range(STEPS):
            for _ in range(self.random.randrange(4)):
                await sleep(0)
            choice = self.random.random()
            if choice < 0.08:
                # Forward over a lease's end, or back again.
                self.clock.advance(self.random.choice([1, 1, -1]) * support.LEASE * self.random.randrange(1, 3) // 2)
            elif choice < 0.25:
                await self.look()
            else:
                await self.do(self.command())

    def command(self) -> Any:
        at, token = self.random.choice(SLOTS), self.random.choice(TOKENS)
        mine = [sent for sent in self.sent if isinstance(sent, Reserve)]
        if mine and self.random.random() < 0.7:
            at, token = mine[-1].slot, mine[-1].attempt_token
        request_id = f"id-{self.random.getrandbits(40)}"
        if self.sent and self.random.random() < 0.15:
            return self.random.choice(self.sent)
        match self.random.randrange(9):
            case 0:
                return support.grant(self.random.randrange(1, 4), request_id=request_id)
            case 1:
                return ExpireOverdue()
            case 2:
                return support.hold(HoldCategory.ADAPTER_STOPPED, at=at, token=token)
            case 3 | 4:
                charged, again = self.random.choice([None, 2]), self.random.random() < 0.6
                return support.resolve(
                    charged, at=at, attempt=self.random.randrange(1, 3), again=again, request_id=request_id
                )
            case 5 | 6:
                cost, response = self.random.choice(sorted(COSTS)), self.random.choice([b"x", b"y"])
                return support.receipt(cost, at=at, token=token, response=response)
        request = b"s" if self.random.random() < 0.05 else b"r"
        return support.reserve(self.random.randrange(1, 9), at=at, token=token, request=request)

    async def do(self, command: Any) -> None:
        """Send a command until it is answered; each answer is kept."""
        self.sent.append(command)
        noted = Noted(command, self.store.pending)
        for _ in range(100):
            try:
                submit = self.ledger.reserve if isinstance(command, Reserve) else self.ledger.submit
                answer = said(await submit(noted))  # type: ignore[arg-type]
            except errors.StoreUnavailableError:
                continue
            except CountersignError as refusal:
                answer = refusal.reason
            self.heard.append((command, answer))
            return
        raise AssertionError("the store never works again")

    async def look(self) -> None:
        """Read the balances, and note the journal's length that they are of."""
        try:
            page = await self.ledger.summarize("lab", None, 0, 10)
        except errors.StoreUnavailableError:
            return
        self.seen.append(page.balances)


async def furnished(path: Path, clock: Clock, source: random.Random) -> tuple[Ledger, SeededStore]:
    ledger = support.make_ledger(path, clock)
    await ledger.submit(support.open_account())
    await ledger.submit(support.grant(12))
    for name, (cap, ceiling, in_flight) in STUDIES.items():
        await ledger.submit(support.open_study(cap, study_id=name, ceiling_nanos=ceiling, max_in_flight=in_flight))
    store: Any = ledger._store
    store.__class__ = SeededStore
    store.random, store.pending, store.landed, store.failures = source, [], [], Counter()
    return ledger, store


async def interleaving(path: Path, seed: int, patch: pytest.MonkeyPatch) -> tuple[list[Client], SeededStore, Ledger]:
    """One schedule, carried out; the ledger's own sweeps before its reads are noted as well."""
    clock, source = Clock(), random.Random(f"interleaving {seed}")
    # How long the writer waits for callers to come back is measured, so it would not be the seed's.
    patch.setattr("ledger_svc.limits.LINGER_SHARE", 0.0)
    ledger, store = await furnished(path, clock, source)
    # The writer would wait for callers as long as the last commit really took.
    patch.setattr("ledger_svc.limits.LINGER_SHARE", 0)
    patch.setattr("ledger_svc.ledger.ExpireOverdue", lambda: Noted(ExpireOverdue(), store.pending))
    clients = [Client(ledger, store, clock, source) for _ in range(CLIENTS)]
    async with TaskGroup() as tasks:
        for client in clients:
            tasks.create_task(client.run())
    store.random = random.Random(0)
    return clients, store, ledger


def check_heard(clients: list[Client], landed: list[Decision]) -> None:
    """Each answer that a client heard is one that a transaction that landed decided for that very command."""
    decided = Counter((id(decision.command), decision.said) for decision in landed)
    heard = Counter((id(command), answer) for client in clients for command, answer in client.heard)
    assert heard <= decided


def check_seen(client: Client, states: dict[int, Any]) -> None:
    """Each balance that a reader saw is the one after exactly so many entries, and no later one is older."""
    heads = [seen.account.head_sequence for seen in client.seen]
    assert heads == sorted(heads)
    for seen in client.seen:
        studies = sorted(seen.studies, key=lambda study: study.study_id)
        granted, account, *each = states[seen.account.head_sequence]
        assert (granted, account) == (seen.account.granted_nanos, as_words(seen.account.totals))
        assert each == [as_words(study.totals) for study in studies]


async def test_every_answer_and_every_balance_is_that_of_one_sequential_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    for seed in seeds(30):
        path = tmp_path / f"{seed}.db"
        clients, store, ledger = await interleaving(path, seed, monkeypatch)
        sequential = Sequential()
        for decision in store.landed:
            assert sequential.carry_out(decision) == decision.said, f"seed {seed}: {decision}"
        check_heard(clients, store.landed)
        for client in clients:
            check_seen(client, sequential.states)
        await ledger.close()
        again = support.make_ledger(path, lambda: 0)  # a time at which no lease ends
        found = await again.verify(None)
        assert (found.differences, found.entries_count) == ([], sequential.entries_count), f"seed {seed}"
        await again.close()
        words.update(decision.said for decision in store.landed)
        failures.update(store.failures)
    print(dict(failures), dict(words))
    assert {"admitted 1", "admitted 2", "CHARGED", "HELD", "RESOLVED", "again CHARGED", "answered"} <= words.keys()
    assert {"BUDGET_EXHAUSTED", "STUDY_BLOCKED", "REPLAY_DENIED", "ALREADY_HELD", "TOO_MANY_IN_FLIGHT"} <= words.keys()
    assert min(failures.values()) > 0


async def test_schedule_is_the_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without this a seed that failed could not be looked at again."""
    said_by = []
    for number in range(2):
        _, store, ledger = await interleaving(tmp_path / f"{number}.db", 1, monkeypatch)
        said_by.append([(type(decision.command).__name__, decision.now, decision.said) for decision in store.landed])
        await ledger.close()
    assert said_by[0] == said_by[1]
