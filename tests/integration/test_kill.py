"""kill -9 at any moment: nothing is sent twice, nothing that was answered is lost, what is in doubt says so.

A collection runs against real processes; one of them is killed and comes back at its address; the collection is resumed
until it ends. The wire, the ledger and the records are then read from outside and compared with a collection of the
same plan that nobody disturbed (design/architecture.md, I1, I3 and I8). COUNTERSIGN_KILL_ROUNDS asks for more rounds.
"""

import asyncio
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from countersign.kit.money_wire import from_wire
from countersign.ledger.v1 import ledger_pb2 as pb
from countersign.study.manifest import load
from ledger_svc.calls import CallState, HoldCategory
from ledger_svc.ledger import Ledger, store_time
from ledger_svc.storage.sqlite import SqliteStore
from tests.integration.chaos import (
    LATE_SECONDS,
    LEDGER_STORE,
    MAX_IN_FLIGHT,
    WORKERS,
    Disturbance,
    Findings,
    Progress,
    Study,
    Victim,
    await_end_of_ledger,
    disturb,
    look,
    peak_of,
    study_of,
    wire_digests,
)
from tests.integration.stack import Stack, running_stack, scripted_agent

ROUNDS = int(os.environ.get("COUNTERSIGN_KILL_ROUNDS", "3"))
MOST_RESUMES = 4
AGENT = ("late", "--late-seconds", str(LATE_SECONDS))
BEYOND_EVERY_LEASE_MICROS = 86_400_000_000


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """One stack for all rounds, whose ledger therefore lives through every kill."""
    with running_stack() as running:
        yield running


@pytest.fixture
def whole_stack(stack: Stack) -> Stack:
    """The stack with everything up, whatever a round before left behind."""
    for process in stack.processes:
        if process.running is None:
            process.start()
    return stack


@pytest.fixture(scope="module")
def undisturbed(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Findings:
    """What the collection comes to when nobody disturbs it."""
    folder = tmp_path_factory.mktemp("undisturbed")
    with scripted_agent(folder, *AGENT) as agent, study_of(stack, folder, agent) as study:
        assert study.collect() == 0, study.log()
        found = look(study)
    assert len(set(found.wire)) == len(found.wire) == len(found.calls), "every slot's request must be its own"
    assert not found.stopped_episodes()
    return found


@pytest.mark.parametrize("seed", range(ROUNDS))
@pytest.mark.parametrize("victim", Victim)
def test_a_killed_process_costs_nothing_twice(
    victim: Victim, seed: int, whole_stack: Stack, undisturbed: Findings, tmp_path: Path
) -> None:
    disturbance = Disturbance.draw(victim, seed, len(undisturbed.wire), len(undisturbed.records))
    with scripted_agent(tmp_path, *AGENT) as agent, study_of(whole_stack, tmp_path, agent, cap(undisturbed)) as study:
        study.start()
        disturb(study, disturbance)
        found = resume(study)
    print(disturbance, study.statuses, len(found.episodes_in_doubt()))

    assert len(set(found.wire)) == len(found.wire), "a slot was requested twice"
    assert set(found.wire) <= found.digests(), "a request without a reservation"
    assert found.digests(pb.CALL_STATE_CHARGED) <= set(found.wire), "a charge without a request"
    assert_within_limits(found, cap(undisturbed))
    assert found.journal.intact, found.journal.differences
    assert_records(found, undisturbed)
    assert_counts(found)
    if victim is Victim.ADAPTER:
        assert len(found.episodes_in_doubt()) <= WORKERS
        asyncio.run(assert_held_later(later_ledger(whole_stack, tmp_path / "later.db"), found))
    else:
        assert not found.episodes_in_doubt(), "only the adapter takes what it knows with it"
        assert set(found.wire) == set(undisturbed.wire)
        assert found.account.charged == undisturbed.account.charged


def test_the_services_of_a_killed_collector_first_finish_what_is_under_way(tmp_path: Path) -> None:
    """The ledger that it started outlives its adapter, and the adapter the answers that it waits for."""
    disturbance = Disturbance(Victim.COLLECTOR, Progress.REQUESTS, 2 * WORKERS, 0.0, 0.0, ended_first=False)
    with scripted_agent(tmp_path, "late", "--late-seconds", "0.7") as agent, study_of(None, tmp_path, agent) as study:
        study.start()
        disturb(study, disturbance)
        await_end_of_ledger(study)
        wire = wire_digests(tmp_path)
    ledger = Ledger(SqliteStore.open(study.out / LEDGER_STORE), store_time)
    charged = asyncio.run(request_digests(ledger, load(study.out).study_id, CallState.CHARGED))
    assert sorted(charged) == sorted(wire)
    assert len(wire) >= 2 * WORKERS


async def request_digests(ledger: Ledger, study_id: str, *states: CallState) -> list[str]:
    """The request digests of a study's calls, each of which must be in one of `states`."""
    try:
        calls = (await ledger.calls(study_id, list(CallState), 0, 1000)).calls
    finally:
        await ledger.close()
    assert {call.state for call in calls} <= set(states)
    return [call.request_digest.hex() for call in calls]


def cap(undisturbed: Findings) -> int:
    """What the collection costs and room for the calls in doubt and under way: money that leaked would be missing."""
    dearest = max(from_wire(call.reserved).nanos for call in undisturbed.calls)
    return from_wire(undisturbed.account.charged).nanos + MAX_IN_FLIGHT * dearest


def resume(study: Study) -> Findings:
    """Collect until only doubt is left; once more then asks for it again, sends nothing and changes nothing."""
    for _ in range(MOST_RESUMES):
        if study.collect() == 0:
            found = look(study)
            if found.stopped_episodes() == found.episodes_in_doubt():
                break
    else:
        pytest.fail(f"still not settled after {study.statuses}: {study.log()}")
    if not found.episodes_in_doubt():
        return found
    assert study.collect() == 0, study.log()
    again = look(study)
    assert again.wire == found.wire
    assert again.calls == found.calls
    assert again.report == found.report
    return again


def assert_within_limits(found: Findings, cap_nanos: int) -> None:
    """Nothing exceeds the cap, the budget or the calls under way: not now, and not at any time before."""
    peak = peak_of(found.calls)
    assert peak.nanos <= cap_nanos
    assert peak.in_flight <= MAX_IN_FLIGHT
    for balances in (found.account, found.study.balances):
        spent = (balances.charged, balances.reserved, balances.held, balances.resolved)
        assert from_wire(balances.granted).nanos == cap_nanos
        assert sum(from_wire(one).nanos for one in spent) + from_wire(balances.available).nanos == cap_nanos
        assert from_wire(balances.available).nanos >= 0
    assert sum(from_wire(call.accounted).nanos for call in found.calls) <= cap_nanos


def assert_records(found: Findings, undisturbed: Findings) -> None:
    """Every episode without doubt is verified and as if nothing had happened; the others say what they are."""
    assert found.records.keys() == undisturbed.records.keys()
    for episode_id, record in found.records.items():
        expected = undisturbed.records[episode_id]
        if episode_id in found.episodes_in_doubt():
            assert record["stop_category"] == "unresolved_prior_request"
            assert record["outcome"] is None
            assert record["events"] == expected["events"][: len(record["events"])]
            assert record["calls"][-1]["state"] == "RESERVED"
        else:
            assert record["verification"]["agrees"], record["verification"]
            assert comparable(record) == comparable(expected)


def comparable(record: dict[str, Any]) -> dict[str, Any]:
    """The record without what names the study, and without whether an answer was replayed."""
    own = {"study_id", "manifest_digest", "calls"}
    calls = [
        {key: value for key, value in call.items() if key not in ("call_id", "replayed")} for call in record["calls"]
    ]
    return {key: value for key, value in record.items() if key not in own} | {"calls": calls}


def assert_counts(found: Findings) -> None:
    """The report has a place for every planned episode, and its money is the ledger's."""
    total, money = found.report["total"], found.report["money"]
    doubtful = len(found.episodes_in_doubt())
    completed = sum(total["completed"].values())
    assert total["planned"] == len(found.records) == completed + doubtful
    assert total["technical_unknown"] == {}
    assert total["stopped"] == ({"unresolved_prior_request": doubtful} if doubtful else {})
    assert total["not_attempted"] == 0
    assert total["verification"] == {"verified": completed, "differs": 0, "not_verified": 0}
    assert money["adds_up"] is True
    assert money["calls"]["reserved"] == doubtful


def later_ledger(stack: Stack, copy: Path) -> Ledger:
    """The ledger's file as it will be read when every lease is over."""
    with closing(sqlite3.connect(stack.database)) as live, closing(sqlite3.connect(copy)) as later:
        live.backup(later)
    return Ledger(SqliteStore.open(copy), lambda: time.time_ns() // 1_000 + BEYOND_EVERY_LEASE_MICROS)


async def assert_held_later(ledger: Ledger, found: Findings) -> None:
    """What is in doubt, and nothing else, is on hold when its lease has ended, and blocks its study."""
    study_id = found.study.study_id
    ledger.start()
    try:
        held = (await ledger.calls(study_id, [CallState.HELD], 0, 1000)).calls
        assert {call.slot.episode_id for call in held} == found.episodes_in_doubt()
        assert {call.hold.category for call in held if call.hold is not None} <= {HoldCategory.LEASE_EXPIRED}
        assert not (await ledger.calls(study_id, [CallState.RESERVED], 0, 1000)).calls
        assert (await ledger.study(study_id)).blocked is bool(held)
        assert not (await ledger.verify(None)).differences
    finally:
        await ledger.close()
