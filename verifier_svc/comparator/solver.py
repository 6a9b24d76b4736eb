"""Expectimin over belief states in sufficient statistics (design/environments.md, Exact comparators)."""

from verifier_svc.comparator.budget import Budget
from verifier_svc.comparator.errors import SolverFault
from verifier_svc.comparator.models import Model
from verifier_svc.comparator.models.shared import Move, State

BETTER_BY = 1e-12
"""A later tool is preferred only where it is better by more than this, in weighted units."""
FIRST_TOOL = 0


class Solver:
    """The value and the best tool of every belief state that is reached from those asked for."""

    def __init__(self, model: Model, budget: Budget) -> None:
        self._model = model
        self._budget = budget
        self._best: dict[State, tuple[float, int]] = {}

    @property
    def states_count(self) -> int:
        """How many belief states were visited."""
        return len(self._best)

    def best(self, state: State | None) -> tuple[float, int]:
        """The least expected loss from `state` on, given its belief, and the tool's index.

        Raises StateLimitExceeded or Stopped.
        """
        if state is None:
            return 0.0, FIRST_TOOL
        known = self._best.get(state)
        if known is None:
            known = self._choose(state)
            self._best[state] = known
            self._budget.admit(len(self._best))
        return known

    def follow(self, state: State | None, tool: int, worlds: int) -> State | None:
        """The state after `tool`, for a class of worlds that the receipts leave; raises SolverFault where the
        statistics tell apart what the receipts do not."""
        if state is None:
            return None
        for part, _, later in self._model.moves(state)[tool] or ():
            if worlds & part == worlds:
                return later
        raise SolverFault("the statistics tell worlds apart that the receipts do not")

    def _choose(self, state: State) -> tuple[float, int]:
        least, chosen = float("inf"), FIRST_TOOL
        for index, move in enumerate(self._model.moves(state)):
            if move is None:
                continue
            loss = self._expect(state[1], move)
            if loss < least - BETTER_BY:
                least, chosen = loss, index
        return least, chosen

    def _expect(self, worlds: int, move: Move) -> float:
        """The branches' losses, weighed and summed in the order of the branches."""
        total = 0.0
        for part, cost, later in move:
            loss = cost if later is None else cost + self.best(later)[0]
            total += loss if part == worlds else self._model.masses.share(part, worlds) * loss
        return total
