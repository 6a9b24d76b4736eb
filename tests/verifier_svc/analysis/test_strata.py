"""Counts, rates with bounds, pairs, regret and money (design/study.md, Analysis)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.verifier_svc.analysis.studies import completed, study, unknown
from verifier_svc.analysis import Error, Fault, analyse, stray_calls
from verifier_svc.analysis.rates import mean, rate
from verifier_svc.analysis.strata import pairs, strata, summary

NONE = dict.fromkeys(("CHARGED", "RESERVED", "HELD", "RESOLVED"), 0)


@given(st.lists(st.booleans()), st.integers(0, 20))
def test_a_rate_lies_within_its_bounds_and_full_coverage_closes_them(holds: list[bool], missing: int) -> None:
    found = rate(holds, len(holds) + missing)
    if not holds:
        assert found["rate"] is None
    if holds:
        assert found["lower_bound"] <= found["rate"] <= found["upper_bound"]
    if holds and not missing:
        assert found["lower_bound"] == found["rate"] == found["upper_bound"]
    if missing:
        assert found["upper_bound"] - found["lower_bound"] == pytest.approx(missing / (len(holds) + missing))


def test_a_mean_counts_the_missing_as_nothing_and_as_the_most() -> None:
    assert mean([1.0, 3.0], [10.0, 6.0]) == {
        "completed": 2,
        "planned": 4,
        "mean": 2.0,
        "lower_bound": 1.0,
        "upper_bound": 5.0,
    }
    assert mean([], [])["mean"] is None


def test_a_stratum_adds_up_and_imputes_nothing() -> None:
    of = study()
    line = summary(of, [completed(of, 0, 0.0), completed(of, 1, 5.0, claim="saved"), unknown(of, 2)])
    assert line["planned"] == 3
    assert line["completed"] == {"explicit_finish": 2}
    assert line["technical_unknown"] == {"TRUNCATED": 1}
    assert line["losses"]["weighted_loss"]["mean"] == 2.5
    assert line["losses"]["weighted_loss"]["completed"] == 2
    assert (line["achieved"]["lower_bound"], line["achieved"]["upper_bound"]) == (1 / 3, 2 / 3)
    assert line["claims"]["saved"] == {"achieved": 1, "not_achieved": 1, "false": 0}
    assert line["money"] == {"charged": "2.5", "reserved": "0", "held": "0", "resolved": "0"}


def test_pairs_share_world_message_and_repetition_and_both_must_have_completed() -> None:
    of = study()
    episodes = [completed(of, 0, 1.0), completed(of, 1, 4.0), completed(of, 2, 2.0), unknown(of, 3)]
    (pair,) = pairs(of, episodes)
    assert (pair["first"], pair["second"]) == ("neutral", "verify")
    assert (pair["pairs"], pair["complete"], pair["incomplete"]) == (2, 1, 1)
    assert pair["mean_differences"]["weighted_loss"] == 3.0
    assert pair["mean_differences"]["primary_loss"] == 3.0


def test_regret_at_the_prior_needs_every_possible_world() -> None:
    of = study()
    neutral, verify = strata(of, [completed(of, 0, 2.0), completed(of, 1, 2.0), completed(of, 2, 4.0), unknown(of, 3)])
    assert neutral["regret"] == {"comparator": 1.0, "completed": 2, "mean": 2.0, "at_prior": 0.25 * 2 + 0.75 * 4 - 1}
    assert verify["regret"]["mean"] == 1.0
    assert verify["regret"]["at_prior"] is None


def test_an_unsolved_comparator_gives_no_regret() -> None:
    of = study()
    (line, *_) = strata(of, [completed(of, number, 2.0, comparator=None) for number in range(4)])
    assert line["regret"] == {"comparator": None, "completed": 0, "mean": None, "at_prior": None}


def test_money_must_be_the_ledgers_and_every_error_is_named() -> None:
    of = study()
    episodes = [completed(of, number, 0.0) for number in range(4)]
    good = analyse(of, episodes, {**NONE, "CHARGED": 4 * 10**9}, [])
    assert (good["agrees"], good["errors"]) == (True, [])
    stray = Error(Fault.STRAY_CALL, "e", "the ledger has 1 calls of it, and it was not planned")
    bad = analyse(of, episodes, {**NONE, "CHARGED": 4 * 10**9 + 1}, [stray])
    assert [error["fault"] for error in bad["errors"]] == ["STRAY_CALL", "MONEY_DIFFERS"]
    assert bad["errors"][1]["detail"] == "CHARGED: the episodes' calls sum to 4, the ledger says 4.000000001"
    assert not bad["agrees"]


def test_calls_that_no_episode_accounts_for_are_errors() -> None:
    of = study()
    episodes = [completed(of, number, 0.0) for number in range(4)]
    ids = [episode.planned.episode_id for episode in episodes]
    calls = [episode.calls for episode in episodes]
    assert stray_calls(dict(zip(ids, calls, strict=True)), episodes) == []
    found = stray_calls({ids[0]: calls[0] + 2, ids[1]: calls[1] - 1, "e": 3}, episodes)
    assert [(error.fault, error.episode_id, error.detail) for error in found] == [
        (Fault.STRAY_CALL, ids[0], f"the ledger has {calls[0] + 2} calls of it, and {calls[0]} in turns without a gap"),
        (Fault.STRAY_CALL, "e", "the ledger has 3 calls of it, and it was not planned"),
    ]
