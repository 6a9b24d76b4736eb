"""What is solved, what is refused, and that no approximation is called exact."""

from random import Random
from typing import Any

import pytest

from tests.verifier_svc.comparator.cases import declared, steady_worlds
from verifier_svc.comparator import Budget, StateLimitExceeded, Stopped, read_case, solve
from verifier_svc.comparator.case import MAX_WEIGHT
from verifier_svc.comparator.errors import SolverFault
from verifier_svc.comparator.models import model_of
from verifier_svc.comparator.solver import Solver
from verifier_svc.packets.build import DEFAULT_LOSS_WEIGHTS
from verifier_svc.physics.errors import InvalidCase, UnsupportedEnvironment

BOTH = steady_worlds(Random(0))
EVENT = [{"need": True, "effective": e, "alternative": a} for e in (False, True) for a in (False, True)]
QUEUE = [{"need_a": a, "need_b": b} for a in (False, True) for b in (False, True)]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"prior": [0.5, 0.4]}, "prior"),
        ({"prior": [1.5, -0.5]}, "prior"),
        ({"prior": [float("nan"), 1.0]}, "prior"),
        ({"prior": [1.0]}, "prior"),
        ({"support": [], "prior": []}, "prior"),
        ({"support": [{"need": 1}, {"need": False}]}, "need"),
        ({"contract": {"deadline": 0}}, "deadline"),
        ({"operator_prefix": ["fly"]}, "operator_prefix"),
        ({"operator_prefix": ["finish"]}, "operator_prefix"),
        ({"operator_prefix": ["wait"] * 5, "contract": {"deadline": 9}}, "operator_prefix"),
        ({"operator_prefix": ["wait"] * 6, "contract": {"deadline": 9}}, "operator_prefix"),
        ({"operator_prefix": ["read_certificate"]}, "support"),
        ({"operator_prefix": ["wait"] * 4}, "support"),
        ({"loss_weights": {"primary_loss": -1.0}}, "loss_weights"),
        ({"loss_weights": {"primary_loss": float("inf")}}, "loss_weights"),
        ({"loss_weights": {"primary_loss": float("nan")}}, "loss_weights"),
        ({"loss_weights": {"primary_loss": 1e301}}, "loss_weights"),
    ],
)
def test_a_case_that_is_none_is_refused_by_field(changes: dict[str, Any], field: str) -> None:
    support = changes.pop("support", BOTH)
    changes.setdefault("prior", [0.5, 0.5])
    with pytest.raises(InvalidCase) as refusal:
        read_case(declared("probe", BOTH, **changes) if support is BOTH else _with_support(support, changes))
    assert refusal.value.metadata == {"field": field}


def _with_support(support: list[dict[str, Any]], changes: dict[str, Any]) -> Any:
    case = declared("probe", BOTH, **changes)
    return type(case)(**{**{name: getattr(case, name) for name in case.__slots__}, "support": support})


def test_a_result_on_the_way_that_tells_worlds_apart_is_refused_though_the_observation_does_not() -> None:
    with pytest.raises(InvalidCase) as refusal:
        read_case(declared("event", EVENT, operator_prefix=["check_alternative"]))
    assert refusal.value.metadata == {"field": "support"}


def test_an_unknown_environment_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedEnvironment):
        read_case(declared("chess", BOTH))


def test_worlds_without_probability_are_dropped() -> None:
    alone = solve(read_case(declared("probe", [{"need": True}])))
    case = read_case(declared("probe", BOTH, prior=[0.0, 1.0], operator_prefix=[]))
    assert case.worlds == [{"need": True}]
    assert solve(case).certificate == alone.certificate
    # It would be told apart by the certificate; without probability it is not there to be told.
    read_case(declared("probe", BOTH, prior=[0.0, 1.0], operator_prefix=["read_certificate"]))


@pytest.mark.parametrize("raw_histories", [False, True])
def test_a_state_limit_is_kept_exactly_and_nothing_is_approximated(raw_histories: bool) -> None:
    case = read_case(declared("queue", QUEUE, contract={"max_calls": 3}))
    count = solve(case, raw_histories=raw_histories).states_count
    assert solve(case, Budget(count), raw_histories).states_count == count
    with pytest.raises(StateLimitExceeded) as refusal:
        solve(case, Budget(count - 1), raw_histories)
    assert refusal.value.metadata == {"state_limit": str(count - 1)}


def test_a_solver_stops_soon_after_nobody_waits() -> None:
    case = read_case(declared("queue", QUEUE, contract={"max_calls": 9, "deadline_a": 9, "deadline_b": 9}))
    assert solve(case).states_count > 512
    with pytest.raises(Stopped):
        solve(case, Budget(stopped=lambda: True))


def test_what_the_prefix_cost_and_lost_is_part_of_the_loss() -> None:
    needed = [{"need": True, "effective": True}]
    transferred = read_case(declared("event", needed, operator_prefix=["transfer"]))
    assert solve(transferred).expected_loss == pytest.approx(2.0 + 20.0 + 0.1)
    late = read_case(declared("event", needed, contract={"deadline": 1}, operator_prefix=["wait", "wait"]))
    assert solve(late).expected_loss == pytest.approx(5.0)


def test_the_greatest_weights_still_have_a_sum() -> None:
    weights = dict.fromkeys(DEFAULT_LOSS_WEIGHTS, MAX_WEIGHT)
    assert solve(read_case(declared("pending", BOTH, loss_weights=weights))).expected_loss == pytest.approx(1.5e300)


def test_finish_is_never_better_than_the_first_tool_and_so_never_chosen() -> None:
    case = read_case(declared("event", [{"need": False, "effective": True}], contract={"max_calls": 3}))
    comparator = solve(case, raw_histories=True)
    assert (comparator.expected_loss, comparator.first_action) == (0.0, "request_verification")


def test_statistics_that_tell_apart_what_receipts_do_not_are_caught() -> None:
    case = read_case(declared("probe", BOTH))
    model = model_of(case)
    solver = Solver(model, Budget())
    _, _, root = model.root()
    read_certificate = 0
    assert solver.follow(root, read_certificate, 0b01) is None
    with pytest.raises(SolverFault):
        solver.follow(root, read_certificate, 0b11)


def test_a_long_horizon_is_solved_too() -> None:
    contract = {"max_calls": 100, "deadline": 90, "reserve_capacity": 100, "probe_delay": 20}
    comparator = solve(read_case(declared("probe", BOTH, contract=contract)))
    assert comparator.expected_loss == pytest.approx(0.05)
    contract = {"max_calls": 100, "commit_tick": 90, "deadline": 95}
    assert solve(read_case(declared("pending", BOTH, contract=contract))).expected_loss == pytest.approx(1.1)
