"""The published comparators are reproduced, by both methods, and the queue's value lies within its bounds."""

import os
from pathlib import Path

import pytest

from tests.verifier_svc.comparator.cases import published, published_case
from verifier_svc.comparator import solve

SOLVED = (
    "async/static_uniform",
    "stale_checkpoint",
    "pending/cancel_wins_equal_tick",
    "pending/commit_wins_equal_tick",
    "probe/cap1_dl2_delay1/root",
)
LONG = "stale_checkpoint"
"""Raw histories of this one take seconds; they are gone through where COUNTERSIGN_SLOW asks for it."""


@pytest.mark.parametrize("name", SOLVED)
def test_a_published_value_is_reproduced_from_few_states(shared_data: Path, name: str) -> None:
    one = published(shared_data)[name]
    comparator = solve(published_case(one))
    assert comparator.expected_loss == pytest.approx(one["expected_loss"], abs=1e-9)
    assert comparator.first_action == one["first_action"]
    assert comparator.states_count * 100 < one["raw_history_belief_states"]


@pytest.mark.parametrize("name", [name for name in SOLVED if name != LONG or os.environ.get("COUNTERSIGN_SLOW")])
def test_raw_histories_give_the_same_policy_and_the_published_count(shared_data: Path, name: str) -> None:
    one = published(shared_data)[name]
    case = published_case(one)
    raw = solve(case, raw_histories=True)
    assert raw.expected_loss == pytest.approx(one["expected_loss"], abs=1e-9)
    assert raw.states_count == one["raw_history_belief_states"]
    assert raw.certificate.policy == solve(case).certificate.policy


def test_the_queues_exact_value_lies_within_its_published_bounds(shared_data: Path) -> None:
    one = published(shared_data)["queue_bounds/default"]
    comparator = solve(published_case(one))
    assert one["lower_bound"] <= comparator.expected_loss <= one["upper_bound"]
    assert comparator.expected_loss == pytest.approx(1.225, abs=1e-9)
    assert comparator.first_action == "verify_b"
