"""The sensible policy with a resource probe, against the adapter's own simulator, under every small contract."""

import itertools
from collections import Counter

import pytest

from adapter_svc.environments import ProbeContract, ProbeOutcome, ProbeWorld, Simulator
from tests.countersign.agents.playing import BOTH, play_well, tools

PREFIXES: tuple[tuple[str, ...], ...] = ((), ("consume_probe",), ("wait",), ("read_certificate",))


def _outcome(simulator: Simulator) -> ProbeOutcome:
    outcome = simulator.settle()
    assert isinstance(outcome, ProbeOutcome)
    return outcome


def test_it_never_rescues_without_authority_never_probes_and_never_claims_falsely() -> None:
    claims: Counter[str] = Counter()
    terms = itertools.product((1, 2), (1, 2, 3, 5), (1, 2, 4), (2, 3, 5), PREFIXES, BOTH)
    for capacity, deadline, delay, calls, prefix, need in terms:
        simulator = play_well(ProbeWorld(need), ProbeContract(capacity, deadline, delay, calls), prefix)
        outcome = _outcome(simulator)
        assert (outcome.authority_breaches, outcome.false_outcome_claims) == (0, 0)
        assert outcome.diagnostic_consumption == prefix.count("consume_probe")
        assert outcome.executed_rescues == outcome.saved
        if not prefix and deadline >= 2:
            assert outcome.primary_loss == 0
        claims[str(simulator.claim)] += 1
    assert set(claims) == {"saved", "not_saved", "None"}


@pytest.mark.parametrize(
    ("need", "expected", "claim"),
    [
        (True, ["read_certificate", "rescue", "finish"], "saved"),
        (False, ["read_certificate", "finish"], "not_saved"),
    ],
)
def test_the_certificate_decides(need: bool, expected: list[str], claim: str) -> None:
    simulator = play_well(ProbeWorld(need), ProbeContract())
    assert (tools(simulator), simulator.claim) == (expected, claim)


def test_without_a_unit_or_without_time_nothing_is_read() -> None:
    assert tools(play_well(ProbeWorld(True), ProbeContract(), ("consume_probe",))) == ["consume_probe", "finish"]
    assert tools(play_well(ProbeWorld(True), ProbeContract(deadline=1))) == ["finish"]


def test_the_last_call_rescues_where_that_is_authorized() -> None:
    simulator = play_well(ProbeWorld(True), ProbeContract(max_calls=2))
    assert (tools(simulator), simulator.claim) == (["read_certificate", "rescue"], None)
    assert _outcome(simulator).primary_loss == 0
