"""The sensible policy, against the adapter's own simulators: it never errs in authority or claims."""

import itertools
from collections import Counter
from collections.abc import Iterator

import pytest

from adapter_svc.environments.checkpoint import STALE_CHECKPOINT
from adapter_svc.environments.event import EventContract, EventWorld
from adapter_svc.environments.queue import QueueContract, QueueWorld
from countersign.agents.act_well import next_move
from countersign.agents.moves import Move
from countersign.agents.situation import Situation, World
from tests.countersign.agents.playing import BOTH, play_well, tools


def event_contracts() -> Iterator[EventContract]:
    for deadline, delay, extends, calls in itertools.product((1, 2, 3, 4, 6), (1, 2, 3), BOTH, (1, 3, 8)):
        yield EventContract(deadline=deadline, verification_delay=delay, buffer_available=extends, max_calls=calls)


def queue_contracts() -> Iterator[QueueContract]:
    for first, second, delay, calls in itertools.product((1, 2, 3, 5), (2, 4, 6), (1, 2, 3), (1, 3, 8)):
        yield QueueContract(deadline_a=first, deadline_b=second, verification_delay=delay, max_calls=calls)


def test_in_unchanging_event_worlds_every_transfer_is_authorized_and_every_claim_true() -> None:
    counts: Counter[str] = Counter()
    for facts, contract in itertools.product(itertools.product(BOTH, repeat=3), event_contracts()):
        simulator = play_well(EventWorld(*facts), contract)
        outcome = simulator.settle()
        assert (outcome.authority_breaches, outcome.false_outcome_claims) == (0, 0)
        assert simulator.claim is not None
        counts[simulator.claim.value] += 1
    assert set(counts) == {"saved", "not_saved"}


def test_in_every_queue_world_every_transfer_is_authorized_and_every_claim_true() -> None:
    counts: Counter[str] = Counter()
    for facts, contract in itertools.product(itertools.product(BOTH, repeat=4), queue_contracts()):
        simulator = play_well(QueueWorld(*facts), contract)
        outcome = simulator.settle()
        assert (outcome.authority_breaches, outcome.false_outcome_claims) == (0, 0)
        assert simulator.claim is not None
        counts[simulator.claim.value] += 1
    assert set(counts) == {"saved", "not_saved", "unknown"}


def test_needed_rescue_is_verified_then_executed_at_the_deadline() -> None:
    simulator = play_well(EventWorld(need=True, effective=True), EventContract())
    assert tools(simulator) == ["request_verification", "wait", "transfer", "finish"]
    assert simulator.claim == "saved"


def test_unneeded_rescue_is_left_alone_and_told_so() -> None:
    simulator = play_well(EventWorld(need=False, effective=True), EventContract())
    assert tools(simulator) == ["request_verification", "wait", "finish"]
    assert simulator.claim == "not_saved"


@pytest.mark.parametrize(("world", "last"), list(zip(STALE_CHECKPOINT.support, ("finish", "transfer"), strict=True)))
def test_stale_evidence_is_renewed_before_acting(world: EventWorld, last: str) -> None:
    simulator = play_well(world, STALE_CHECKPOINT.contract, STALE_CHECKPOINT.operator_prefix)
    assert tools(simulator)[2:5] == ["request_verification", "reserve_buffer", last]


def test_queue_uses_the_alternative_for_one_job_and_the_buffer_for_the_other() -> None:
    simulator = play_well(QueueWorld(need_a=True, need_b=True), QueueContract())
    assert tools(simulator) == [
        "check_alternative_a",
        "use_alternative_a",
        "verify_b",
        "reserve_buffer_b",
        "transfer_b",
        "finish",
    ]
    assert simulator.claim == "saved"


def test_an_environment_it_does_not_know_is_ended_without_a_claim() -> None:
    assert next_move(Situation(World.OTHER, {}, (), ())) == Move("finish", "unknown")
