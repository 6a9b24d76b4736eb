"""The time of a ledger on a file: a date that is set while it runs neither shortens nor lengthens a lease."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from ledger_svc.calls import Call, CallState
from ledger_svc.commands.reservations import Admitted
from ledger_svc.ledger import Ledger, store_time
from ledger_svc.storage.clock import LATEST_MICROS, SteadyClock, elapsed_nanos
from ledger_svc.storage.sqlite import SqliteStore
from tests.ledger_svc import support
from tests.ledger_svc.support import LEASE, START

YEAR = 365 * 86_400 * 1_000_000
JUMPS = [-30 * YEAR, -LEASE, -1, 1, LEASE, 30 * YEAR]


@dataclass
class Machine:
    """A date and a count of what has elapsed, both in microseconds."""

    date: int = START
    elapsed: int = 7_000

    def wall_nanos(self) -> int:
        return self.date * 1_000

    def elapsed_nanos(self) -> int:
        return self.elapsed * 1_000

    def clock(self, floor_micros: int = 0) -> SteadyClock:
        return SteadyClock(floor_micros, self.wall_nanos, self.elapsed_nanos)

    def wait(self, micros: int) -> None:
        self.date += micros
        self.elapsed += micros

    def ledger(self, path: Path) -> Ledger:
        """A ledger that keeps time by this machine, started."""
        store = SqliteStore.open(path, busy_timeout_millis=20, wall=self.wall_nanos, elapsed=self.elapsed_nanos)
        ledger = Ledger(store, store_time)
        ledger.start()
        return ledger


@pytest.fixture
def machine() -> Machine:
    return Machine()


async def only_call(ledger: Ledger) -> Call:
    (call,) = await ledger.attempts(support.slot().call_id())
    return call


async def reserved(ledger: Ledger, turn: int = 1) -> Call:
    answer = await ledger.reserve(support.reserve(10, at=support.slot(turn=turn)))
    assert isinstance(answer, Admitted)
    return answer.call


@pytest.mark.parametrize("jump", JUMPS)
def test_clock_goes_on_from_the_date_at_its_start(machine: Machine, jump: int) -> None:
    clock = machine.clock()
    assert clock() == START
    machine.wait(5)
    machine.date += jump
    assert clock() == START + 5
    machine.wait(LEASE)
    assert clock() == START + 5 + LEASE


@pytest.mark.parametrize(
    ("floor", "begins"),
    [(0, START), (START - 1, START), (START, START), (START + 9, START + 9), (LATEST_MICROS, LATEST_MICROS)],
)
def test_clock_begins_no_earlier_than_what_is_written(machine: Machine, floor: int, begins: int) -> None:
    clock = machine.clock(floor)
    assert clock() == begins
    machine.wait(3)
    assert clock() == begins + 3


@pytest.mark.parametrize("damage", [-1, LATEST_MICROS + 1, 2**63 - 1])
def test_time_that_is_none_holds_no_clock(machine: Machine, damage: int) -> None:
    assert machine.clock(damage)() == START


def test_machines_own_count_never_goes_back() -> None:
    counts = [elapsed_nanos() for _ in range(1_000)]
    assert counts == sorted(counts)


@pytest.mark.parametrize("jump", JUMPS)
async def test_date_that_is_set_leaves_a_lease_as_long_as_it_was(database: Path, machine: Machine, jump: int) -> None:
    ledger = machine.ledger(database)
    await support.furnish(ledger)
    call = await reserved(ledger)
    assert call.lease_expires_at - call.reserved_at == LEASE
    machine.wait(LEASE - 1)
    machine.date += jump
    assert (await only_call(ledger)).state is CallState.RESERVED
    machine.wait(1)
    held = await only_call(ledger)
    assert (held.state, held.changed_at) == (CallState.HELD, START + LEASE)
    await ledger.close()


@pytest.mark.parametrize("jump", JUMPS)
async def test_ledger_that_starts_again_begins_no_earlier_than_its_journal_ends(
    database: Path, machine: Machine, jump: int
) -> None:
    ledger = machine.ledger(database)
    await support.furnish(ledger, max_in_flight=2)
    machine.wait(LEASE // 2)
    await reserved(ledger)
    await ledger.close()
    machine.date += jump
    machine.elapsed = 0
    ledger = machine.ledger(database)
    expected = max(START + LEASE // 2, START + LEASE // 2 + jump)
    await ledger.submit(support.grant(1, request_id="later"))
    entries = [entry async for page in ledger.journal("lab", 1) for entry in page]
    assert entries[-1].at == expected
    assert [entry.at for entry in entries] == sorted(entry.at for entry in entries)
    assert (await only_call(ledger)).state is (CallState.HELD if jump >= LEASE else CallState.RESERVED)
    machine.wait(LEASE)
    assert (await only_call(ledger)).state is CallState.HELD
    assert (await ledger.verify(None)).differences == []
    await ledger.close()
