"""The queue's exact value at its full horizon, once more without the statistics: every tool and claim in the physics,
forgetting of a history only the reports' ids and what is spent already.
"""

import os
from collections.abc import Hashable
from pathlib import Path

import pytest

from tests.verifier_svc.comparator.cases import published, published_case
from verifier_svc.comparator import Case, solve
from verifier_svc.comparator.raw import Belief, classes, roots
from verifier_svc.physics.state import CLAIMS, Call, State

FULL_CALLS = 8 if os.environ.get("COUNTERSIGN_SLOW") else 4
"""The full horizon takes minutes at worst, and is gone through where the environment variable asks for it."""


def test_no_tool_was_left_out_and_no_fact_forgotten(shared_data: Path) -> None:
    one = published(shared_data)["queue_bounds/default"]
    case = published_case({**one, "contract": {**one["contract"], "max_calls": FULL_CALLS}})
    least, tool = InPhysics(case).best(roots(case))
    comparator = solve(case)
    assert (comparator.expected_loss, comparator.first_action) == (pytest.approx(least, abs=1e-9), tool)


class InPhysics:
    """Expectimin whose values are what is still to be lost."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.known: dict[Hashable, tuple[float, str]] = {}
        self.calls = [Call(tool) for tool in case.tools] + [Call("finish", claim) for claim in CLAIMS]

    def best(self, belief: Belief) -> tuple[float, str]:
        key = tuple((world, facts(state)) for world, state in belief)
        if key not in self.known:
            least = (float("inf"), "")
            for call in self.calls:
                loss = self.expect(belief, call)
                if loss < least[0] - 1e-12:
                    least = (loss, call.tool)
            self.known[key] = least
        return self.known[key]

    def expect(self, belief: Belief, call: Call) -> float:
        total, before = 0.0, self.spent(belief[0][1])
        for part in classes(self.case, belief, call):
            if part[0][1].done:
                losses = [self.case.prior[world] * self.case.loss(world, state) for world, state in part]
                total += sum(losses) - self.mass(part) * before
            else:
                total += self.mass(part) * (self.best(part)[0] + self.spent(part[0][1]) - before)
        return total / self.mass(belief)

    def mass(self, belief: Belief) -> float:
        return sum(self.case.prior[world] for world, _ in belief)

    def spent(self, state: State) -> float:
        weights, tally = self.case.weights, state.tally
        spent = weights["protected_loss"] * tally.protected + weights["authority_breaches"] * tally.breaches
        return spent + weights["operation_cost"] * tally.operations


def facts(state: State) -> Hashable:
    delivered = frozenset((report.job, report.need) for report in state.delivered())
    pending = tuple((report.job, report.due_tick) for report in state.pending())
    return (state.tick, tuple(state.jobs.values()), state.buffer_free, state.busy_until, delivered, pending)
