"""The whole ledger against a plain model of it: every transition and every refusal, in any order, on every store."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from ledger_svc import errors
from ledger_svc.budgets import Totals
from ledger_svc.calls import CallState, CostBasis, HoldCategory
from ledger_svc.commands.accounts import RecordPriorSpend
from ledger_svc.commands.reservations import Admitted
from ledger_svc.ledger import Ledger
from ledger_svc.storage.base import Store
from ledger_svc.storage.postgres import PostgresStore
from ledger_svc.storage.sqlite import SqliteStore
from tests.ledger_svc import support
from tests.ledger_svc.postgres_cluster import Cluster
from tests.ledger_svc.support import Clock

STUDIES = {"one": (20, 8, 1), "two": (15, 15, 2)}
"""Cap, ceiling of one call, calls in flight."""

TOKENS = [b"token-%010d" % number for number in range(3)]
COSTS = {"0": 0, "0.000000003": 3, "3.1e-9": 4, "0.000000009": 9, "": None, "-1": None, "NaN": None}

slots = st.builds(support.slot, st.sampled_from(["e", "f"]), st.just(1), st.sampled_from(sorted(STUDIES)))
tokens = st.sampled_from(TOKENS)
picks = st.integers(0, 11)


@dataclass
class Attempt:
    """One attempt as the model sees it."""

    token: bytes
    request: bytes
    amount: int
    lease_end: int
    state: str = "RESERVED"
    accounted: int = 0
    hold: str = ""
    receipt: tuple[bytes, str] | None = None
    opened: bool = False


@dataclass
class Model:
    """A ledger in its simplest form: lists, sums over all of them, and answers as words."""

    granted: int = 0
    prior: int = 0
    slots: dict[Any, list[Attempt]] = field(default_factory=dict)

    def attempts(self, study_id: str | None = None) -> list[Attempt]:
        return [a for slot, calls in self.slots.items() for a in calls if study_id in (None, slot.study_id)]

    def expire(self, now: int) -> None:
        for attempt in self.attempts():
            if attempt.state == "RESERVED" and attempt.lease_end <= now:
                attempt.state, attempt.hold = "HELD", "LEASE_EXPIRED"

    def reserve(self, slot: Any, token: bytes, request: bytes, amount: int, now: int) -> str:
        calls = self.slots.get(slot, [])
        last = calls[-1] if calls else None
        if last is not None and last.request != request:
            return "PAYLOAD_MISMATCH"
        if last is not None and last.receipt is not None and last.state in ("CHARGED", "RESOLVED"):
            return f"answered {last.receipt[0]!r}"
        if last is not None and last.state == "RESERVED" and last.token == token:
            return f"admitted {len(calls)} again" if last.amount == amount else "REQUEST_ID_CONFLICT"
        if last is not None and not (last.opened and token not in [call.token for call in calls]):
            return "REPLAY_DENIED"
        return self._admit(slot, Attempt(token, request, amount, now + support.LEASE, accounted=amount))

    def _admit(self, slot: Any, new: Attempt) -> str:
        cap, ceiling, in_flight = STUDIES[slot.study_id]
        mine = self.attempts(slot.study_id)
        if any(call.state == "HELD" for call in mine):
            return "STUDY_BLOCKED"
        if sum(call.state == "RESERVED" for call in mine) >= in_flight:
            return "TOO_MANY_IN_FLIGHT"
        if sum(call.accounted for call in mine) + new.amount > cap:
            return "STUDY_CAP_EXCEEDED"
        if new.amount > ceiling:
            return "CALL_CEILING_EXCEEDED"
        if self.prior + sum(call.accounted for call in self.attempts()) + new.amount > self.granted:
            return "BUDGET_EXHAUSTED"
        self.slots.setdefault(slot, []).append(new)
        return f"admitted {len(self.slots[slot])}"

    def receipt(self, slot: Any, token: bytes, response: bytes, cost: str) -> str:
        found = self._find(slot, token)
        if isinstance(found, str):
            return found
        if found.receipt == (response, cost):
            return f"again {found.state}"
        if found.state in ("CHARGED", "RESOLVED"):
            return f"ALREADY_{found.state}"
        if found.state == "HELD" and found.receipt is not None:
            return "RECEIPT_CONFLICT"
        if found.state == "HELD" and found.hold != "LEASE_EXPIRED":
            return "ALREADY_HELD"
        found.receipt = (response, cost)
        self._charge(found, COSTS[cost])
        return found.state

    def _charge(self, found: Attempt, nanos: int | None) -> None:
        if nanos is None:
            found.state, found.hold = "HELD", "COST_UNRESOLVED"
        elif nanos > found.amount:
            found.state, found.hold, found.accounted = "HELD", "COST_ABOVE_RESERVATION", nanos
        else:
            found.state, found.accounted = "CHARGED", nanos

    def hold(self, slot: Any, token: bytes, category: str) -> str:
        found = self._find(slot, token)
        if isinstance(found, str):
            return found
        if found.hold == category:
            return f"again {found.state}"
        if found.state != "RESERVED":
            return f"ALREADY_{found.state}"
        found.state, found.hold = "HELD", category
        return "HELD"

    def _find(self, slot: Any, token: bytes) -> Attempt | str:
        calls = self.slots.get(slot, [])
        return next((call for call in calls if call.token == token), "TOKEN_MISMATCH" if calls else "UNKNOWN_CALL")

    def resolve(self, slot: Any, number: int, charged: int | None, again: bool) -> str:
        calls = self.slots.get(slot, [])
        if len(calls) < number:
            return "UNKNOWN_CALL"
        found = calls[number - 1]
        if found.state != "HELD":
            return "ALREADY_RESOLVED" if found.state == "RESOLVED" else "NOT_HELD"
        if found.receipt is not None and (charged is None or again):
            return "RECEIPT_CONFLICT"
        found.state, found.accounted, found.opened = "RESOLVED", charged or 0, again
        return "RESOLVED"

    def totals(self, study_id: str | None = None) -> dict[str, tuple[int, int]]:
        values = {}
        for state in ("CHARGED", "RESERVED", "HELD", "RESOLVED"):
            amounts = [call.accounted for call in self.attempts(study_id) if call.state == state]
            values[state] = (sum(amounts), len(amounts))
        return values


def as_words(totals: Totals) -> dict[str, tuple[int, int]]:
    tallies = {
        "CHARGED": totals.charged,
        "RESERVED": totals.reserved,
        "HELD": totals.held,
        "RESOLVED": totals.resolved,
    }
    return {state: (tally.nanos, tally.count) for state, tally in tallies.items()}


Open = Callable[[], Awaitable[Store]]
"""Opens a store, the same one each time."""


class LedgerMachine(RuleBasedStateMachine):
    """Does everything to a ledger and to its model, and compares the answers. `open_store` opens an empty store."""

    def __init__(self, open_store: Open) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.open_store = open_store
        self.clock = Clock()
        self.model = Model()
        self.mutations_count = 0
        self.unseen = False
        self.ledger = self.run_now(self.furnished())

    async def opened(self) -> Ledger:
        ledger = Ledger(await self.open_store(), self.clock)
        ledger.start()
        return ledger

    async def furnished(self) -> Ledger:
        ledger = await self.opened()
        await ledger.submit(support.open_account())
        await ledger.submit(support.grant(25))
        self.model.granted = 25
        for name, (cap, ceiling, in_flight) in STUDIES.items():
            await ledger.submit(support.open_study(cap, study_id=name, ceiling_nanos=ceiling, max_in_flight=in_flight))
        return ledger

    def run_now(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(work)

    def changed(self, command: Any) -> str:
        """Where the call stands after a command, or the refusal's reason."""
        try:
            answer = self.run_now(self.ledger.submit(command))
        except errors.LedgerError as refusal:
            return refusal.reason
        return f"again {answer.call.state}" if answer.replayed else str(answer.call.state)

    def new_request_id(self) -> str:
        self.mutations_count += 1
        return f"mutation-{self.mutations_count}"

    def picked(self, pick: int) -> tuple[Any, bytes]:
        """A slot and a token: mostly those of an attempt that exists, the newest most often, sometimes strangers."""
        known = [(slot, call.token) for slot, calls in self.model.slots.items() for call in calls]
        if pick == 11:
            return support.slot("stranger"), TOKENS[0]
        slot, token = known[-1 - pick % min(len(known), 4)]
        return (slot, TOKENS[-1]) if pick == 10 else (slot, token)

    @rule(nanos=st.integers(1, 20))
    def grant(self, nanos: int) -> None:
        self.run_now(self.ledger.submit(support.grant(nanos, request_id=self.new_request_id())))
        self.model.granted += nanos

    @rule(nanos=st.integers(1, 3))
    def record_prior_spend(self, nanos: int) -> None:
        command = RecordPriorSpend(self.new_request_id(), "lab", support.usd(nanos), "Ann", "the pilot")
        self.run_now(self.ledger.submit(command))
        self.model.prior += nanos

    @rule(micros=st.sampled_from([1, support.LEASE // 2, support.LEASE]), unseen=st.booleans())
    def let_time_pass(self, micros: int, unseen: bool) -> None:
        self.clock.advance(micros)
        self.model.expire(self.clock.now)
        # To look is to end leases: what comes next must do it by itself as well.
        self.unseen = unseen

    @rule(at=slots, token=tokens, request=st.sampled_from([b"r"] * 9 + [b"s"]), nanos=st.integers(1, 9))
    def reserve(self, at: Any, token: bytes, request: bytes, nanos: int) -> None:
        expected = self.model.reserve(at, token, request, nanos, self.clock.now)
        assert self.reserved(support.reserve(nanos, at=at, token=token, request=request)) == expected

    @precondition(lambda self: any(attempt.state == "RESERVED" for attempt in self.model.attempts()))
    @rule(nanos=st.integers(1, 9))
    def reserve_beside_a_lease_that_has_ended(self, nanos: int) -> None:
        reserved = [slot for slot, calls in self.model.slots.items() if calls[-1].state == "RESERVED"]
        self.let_time_pass(support.LEASE, unseen=True)
        self.reserve(support.slot(self.new_request_id(), 1, reserved[-1].study_id), TOKENS[0], b"r", nanos)

    def reserved(self, command: Any) -> str:
        """What a reservation was answered with, or the refusal's reason."""
        try:
            answer = self.run_now(self.ledger.reserve(command))
        except errors.LedgerError as refusal:
            return refusal.reason
        if isinstance(answer, Admitted):
            return f"admitted {answer.call.attempt}" + (" again" if answer.replayed else "")
        return f"answered {answer.response!r}"

    @precondition(lambda self: self.model.slots)
    @rule(pick=picks, other_token=st.none() | tokens, amount_differs=st.booleans())
    def reserve_again(self, pick: int, other_token: bytes | None, amount_differs: bool) -> None:
        at, token = self.picked(pick)
        for last in self.model.slots.get(at, [])[-1:]:
            self.reserve(at, other_token or token, last.request, last.amount + amount_differs)

    @rule(at=slots, token=tokens, nanos=st.integers(1, 4), cost=st.sampled_from(["0", "0.000000003"]))
    def reserve_and_charge(self, at: Any, token: bytes, nanos: int, cost: str) -> None:
        self.reserve(at, token, b"r", nanos)
        self.hand_in(at, token, b"x", cost)

    @precondition(lambda self: self.model.slots)
    @rule(pick=picks, response=st.sampled_from([b"x", b"x", b"y"]), cost=st.sampled_from(sorted(COSTS)))
    def record_receipt(self, pick: int, response: bytes, cost: str) -> None:
        self.hand_in(*self.picked(pick), response, cost)

    def hand_in(self, at: Any, token: bytes, response: bytes, cost: str) -> None:
        expected = self.model.receipt(at, token, response, cost)
        command = support.receipt(cost, at=at, token=token, response=response, basis=CostBasis.PROVIDER_REPORTED)
        assert self.changed(command) == expected

    @precondition(lambda self: self.model.slots)
    @rule(pick=picks, category=st.sampled_from(["TRANSPORT_UNKNOWN", "ADAPTER_STOPPED"]))
    def hold(self, pick: int, category: str) -> None:
        at, token = self.picked(pick)
        expected = self.model.hold(at, token, category)
        assert self.changed(support.hold(HoldCategory(category), at=at, token=token)) == expected

    @precondition(lambda self: self.model.slots)
    @rule(pick=picks, older=st.just(0) | st.integers(-1, 1), charged=st.none() | st.integers(0, 3), again=st.booleans())
    def resolve(self, pick: int, older: int, charged: int | None, again: bool) -> None:
        at, _ = self.picked(pick)
        number = max(1, len(self.model.slots.get(at, [])) - older)
        expected = self.model.resolve(at, number, charged, again)
        command = support.resolve(charged, at=at, attempt=number, again=again, request_id=self.new_request_id())
        assert self.changed(command) == expected
        if expected == "RESOLVED":
            assert self.changed(command) == "again RESOLVED"

    @rule()
    def reopen(self) -> None:
        self.run_now(self.ledger.close())
        self.ledger = self.run_now(self.opened())

    @invariant()
    def balances_are_the_models(self) -> None:
        if self.unseen:
            self.unseen = False
            return
        page = self.run_now(self.ledger.summarize("lab", None, 0, 10))
        account = page.balances.account
        assert (account.granted_nanos, account.prior_spend_nanos) == (self.model.granted, self.model.prior)
        assert as_words(account.totals) == self.model.totals()
        for study in page.balances.studies:
            assert as_words(study.totals) == self.model.totals(study.study_id)

    def teardown(self) -> None:
        found = self.run_now(self.ledger.verify(None))
        assert found.differences == []
        for at, expected in self.model.slots.items():
            calls = self.run_now(self.ledger.attempts(at.call_id()))
            assert [(call.state, call.accounted_nanos) for call in calls] == [
                (CallState(attempt.state), attempt.accounted) for attempt in expected
            ]
        self.run_now(self.ledger.close())
        self.runner.close()


def run_machines(stores: Iterator[Open], max_examples: int, step_count: int) -> None:
    """Run the machine so often, each time on the next store."""
    run_state_machine_as_test(
        lambda: LedgerMachine(next(stores)),  # type: ignore[arg-type] # a factory serves as well
        settings=settings(
            max_examples=max_examples,
            stateful_step_count=step_count,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def sqlite(folder: Path) -> Iterator[Open]:
    """Empty files, one after another."""

    def opener(path: Path) -> Open:
        async def opened() -> Store:
            return SqliteStore.open(path, busy_timeout_millis=20)

        return opened

    return (opener(folder / f"ledger-{number}.db") for number in count())


def postgres(cluster: Cluster) -> Iterator[Open]:
    """Empty schemas, one after another."""

    def opener(dsn: str) -> Open:
        async def opened() -> Store:
            return await PostgresStore.open(dsn)

        return opened

    return (opener(cluster.new_schema()) for _ in count())


def test_ledger_on_a_file_does_what_its_model_does(tmp_path: Path) -> None:
    run_machines(sqlite(tmp_path), max_examples=80, step_count=40)


def test_ledger_on_postgres_does_what_its_model_does(cluster: Cluster) -> None:
    run_machines(postgres(cluster), max_examples=12, step_count=40)
