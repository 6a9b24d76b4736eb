"""Solving a case exactly, by either method, with a certificate."""

from dataclasses import dataclass

from verifier_svc.comparator.budget import Budget
from verifier_svc.comparator.case import Case
from verifier_svc.comparator.certificate import Certificate, certify
from verifier_svc.comparator.models import model_of
from verifier_svc.comparator.models.shared import State, spent
from verifier_svc.comparator.policy import Execution, Group, execute
from verifier_svc.comparator.raw import RawSolver, roots
from verifier_svc.comparator.solver import Solver
from verifier_svc.physics.state import Call

SUFFICIENT_STATISTICS = "sufficient_statistics"
RAW_HISTORIES = "raw_histories"


@dataclass(frozen=True, slots=True)
class Comparator:
    """The exact answer. `expected_loss` is of the whole episode, the operator's prefix included, in weighted units."""

    expected_loss: float
    first_action: str
    states_count: int
    certificate: Certificate


def solve(case: Case, budget: Budget | None = None, raw_histories: bool = False) -> Comparator:
    """The best expected loss with the same information, the policy that has it, and its certificate.

    Raises StateLimitExceeded or Stopped as `budget` says, and SolverFault where the answer cannot be certified.
    """
    if raw_histories:
        return _solve_raw(case, budget or Budget())
    return _solve_statistics(case, budget or Budget())


def _solve_statistics(case: Case, budget: Budget) -> Comparator:
    model = model_of(case)
    solver, tools = Solver(model, budget), case.tools
    index = {tool: number for number, tool in enumerate(tools)}
    _, cost, root = model.root()
    solved_loss = spent(case) + cost + solver.best(root)[0]

    def choose(state: State | None, _: Group) -> Call:
        return Call(tools[solver.best(state)[1]])

    def follow(state: State | None, call: Call, group: Group) -> State | None:
        return solver.follow(state, index[call.tool], sum(1 << world for world, _ in group))

    execution = execute(case, root, choose, follow)
    return _certified(case, execution, solved_loss, solver.states_count, SUFFICIENT_STATISTICS)


def _solve_raw(case: Case, budget: Budget) -> Comparator:
    solver = RawSolver(case, budget)
    solved_loss, _ = solver.best(roots(case))
    execution = execute(case, None, lambda _, group: solver.best(group)[1], lambda *_: None)
    return _certified(case, execution, solved_loss, solver.states_count, RAW_HISTORIES)


def _certified(case: Case, execution: Execution, solved_loss: float, states_count: int, method: str) -> Comparator:
    certificate = certify(case, execution, solved_loss, states_count, method)
    expected_loss, first_action = case.expected(execution.losses), str(execution.tree["tool"])
    return Comparator(expected_loss, first_action, states_count, certificate)
