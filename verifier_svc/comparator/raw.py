"""Expectimin over whole histories, in the verifier's own physics: slow, and the measure of the statistics.

A belief state is the worlds and the full state in each: every report ever filed, every tally. Those that finish ended
count once, whatever the claim (docs/comparators.md).
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from verifier_svc.comparator.budget import Budget
from verifier_svc.comparator.case import Case
from verifier_svc.comparator.receipts import public_result
from verifier_svc.comparator.solver import BETTER_BY
from verifier_svc.physics.fold import step
from verifier_svc.physics.state import CLAIMS, Call, Deed, State

Belief: TypeAlias = tuple[tuple[int, State], ...]
"""The worlds that are possible still, and the state in each."""

_ENDED_BY_CLAIM = "claimed"


@dataclass(frozen=True, slots=True)
class _Choice:
    loss: float
    call: Call


class RawSolver:
    """The value and the best call of every belief state that is reached from those asked for."""

    def __init__(self, case: Case, budget: Budget) -> None:
        self._case = case
        self._budget = budget
        self._choices: dict[Hashable, _Choice] = {}
        self._ended: dict[Hashable, None] = {}
        self._calls = [
            Call(tool, claim)
            for tool, (deed, _) in case.rules[0].tools.items()
            for claim in (CLAIMS if deed is Deed.FINISH else (None,))
        ]

    @property
    def states_count(self) -> int:
        """How many belief states were visited, the ended ones included."""
        return len(self._choices) + len(self._ended)

    def best(self, belief: Belief) -> tuple[float, Call]:
        """The least expected loss of the whole episode, and the call to make. Raises StateLimitExceeded or Stopped."""
        key = _key(belief)
        known = self._choices.get(key)
        if known is None:
            known = self._choose(belief)
            self._choices[key] = known
            self._budget.admit(self.states_count)
        return known.loss, known.call

    def _choose(self, belief: Belief) -> _Choice:
        least: _Choice | None = None
        for call in self._calls:
            loss = self._expect(belief, call)
            if least is None or loss < least.loss - BETTER_BY:
                least = _Choice(loss, call)
        assert least is not None
        return least

    def _expect(self, belief: Belief, call: Call) -> float:
        mass = self._mass(belief)
        total = 0.0
        for part in classes(self._case, belief, call):
            loss = self._settle(part) if part[0][1].done else self.best(part)[0]
            total += self._mass(part) / mass * loss
        return total

    def _settle(self, belief: Belief) -> float:
        self._ended[_key(belief)] = None
        self._budget.admit(self.states_count)
        losses = [self._case.prior[world] * self._case.loss(world, state) for world, state in belief]
        return sum(losses) / self._mass(belief)

    def _mass(self, belief: Belief) -> float:
        return sum(self._case.prior[world] for world, _ in belief)


def classes(case: Case, belief: Belief, call: Call) -> list[Belief]:
    """The belief states that `call` can lead to: the worlds grouped by identical receipts."""
    found: list[tuple[dict[str, Any], list[tuple[int, State]]]] = []
    for world, state in belief:
        later, own = step(case.rules[world], state, call)
        result = public_result(case.rules[world], later, own)
        for known, members in found:
            if known == result:
                members.append((world, later))
                break
        else:
            found.append((result, [(world, later)]))
    return [tuple(members) for _, members in found]


def roots(case: Case) -> Belief:
    """The belief state of the checkpoint."""
    return tuple(enumerate(case.roots))


def _key(belief: Sequence[tuple[int, State]]) -> Hashable:
    return tuple((world, *_facts(state)) for world, state in belief)


def _facts(state: State) -> tuple[Hashable, ...]:
    claimed = state.claim and _ENDED_BY_CLAIM
    jobs = tuple(state.jobs.values())
    clock = (state.tick, state.calls, state.done, state.busy_until)
    return (jobs, state.buffer_free, clock, claimed, state.filed, state.tally, state.operation, state.reserve)
