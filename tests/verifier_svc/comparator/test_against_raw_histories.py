"""The statistics are sufficient: in any small case they give the value and the very policy of raw histories."""

from random import Random

import pytest

from tests.verifier_svc.comparator.cases import TOOLS, a_case
from verifier_svc.comparator import Budget, StateLimitExceeded, read_case, solve
from verifier_svc.physics.errors import InvalidCase

CASES_PER_SEED = {"event": 12, "queue": 12, "pending": 20, "probe": 20}
RAW_LIMIT = 6_000


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("environment", sorted(TOOLS))
def test_both_methods_choose_the_same_policy(environment: str, seed: int) -> None:
    rng = Random(f"{environment} {seed}")
    compared = decisions = 0
    while compared < CASES_PER_SEED[environment]:
        declared = a_case(environment, rng)
        try:
            case = read_case(declared)
            raw = solve(case, Budget(RAW_LIMIT), raw_histories=True)
        except (InvalidCase, StateLimitExceeded):
            continue
        comparator = solve(case)
        assert comparator.expected_loss == pytest.approx(raw.expected_loss, abs=1e-9), declared
        assert comparator.certificate.policy == raw.certificate.policy, declared
        assert comparator.states_count <= raw.states_count
        compared += 1
        decisions += comparator.states_count > 1
    assert decisions * 3 > compared, "the cases must leave something to decide"
