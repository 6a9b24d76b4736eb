"""What must hold in every episode, whatever is played."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from verifier_svc.physics.environments import rules_for
from verifier_svc.physics.event import TOOLS as EVENT_TOOLS
from verifier_svc.physics.fold import outcome, step
from verifier_svc.physics.pending import TOOLS as PENDING_TOOLS
from verifier_svc.physics.probe import TOOLS as PROBE_TOOLS
from verifier_svc.physics.queue import TOOLS as QUEUE_TOOLS
from verifier_svc.physics.state import Call, Rules, State

SMALL = st.integers(1, 6)
FLAG = st.booleans()


@st.composite
def event_cases(draw: st.DrawFn) -> tuple[Rules, list[Call]]:
    world: dict[str, Any] = {name: draw(FLAG) for name in ("need", "effective", "alternative")}
    if draw(FLAG):
        world |= {"change_tick": draw(st.integers(1, 14)), "changed_need": draw(FLAG)}
    names = ("deadline", "verification_delay", "human_delay", "buffer_extension")
    contract: dict[str, Any] = {name: draw(SMALL) for name in names}
    contract |= {"buffer_available": draw(FLAG), "max_calls": draw(st.integers(1, 10))}
    return rules_for("event", world, contract), draw(calls(tuple(EVENT_TOOLS)))


@st.composite
def queue_cases(draw: st.DrawFn) -> tuple[Rules, list[Call]]:
    world = {name: draw(FLAG) for name in ("need_a", "need_b", "alternative_a", "alternative_b")}
    names = ("deadline_a", "deadline_b", "verification_delay", "buffer_extension", "max_calls")
    return rules_for("queue", world, {name: draw(SMALL) for name in names}), draw(calls(tuple(QUEUE_TOOLS)))


@st.composite
def pending_cases(draw: st.DrawFn) -> tuple[Rules, list[Call]]:
    contract: dict[str, Any] = {name: draw(SMALL) + 2 for name in ("commit_tick", "deadline")}
    names = ("verification_delay", "cancellation_delay", "replacement_delay")
    contract |= {name: draw(SMALL) for name in names}
    contract |= {"cancel_first": draw(FLAG), "max_calls": draw(st.integers(1, 10))}
    return rules_for("pending", {"need": draw(FLAG)}, contract), draw(calls(tuple(PENDING_TOOLS)))


@st.composite
def probe_cases(draw: st.DrawFn) -> tuple[Rules, list[Call]]:
    names = ("reserve_capacity", "deadline", "probe_delay", "max_calls")
    rules = rules_for("probe", {"need": draw(FLAG)}, {name: draw(SMALL) for name in names})
    return rules, draw(calls(tuple(PROBE_TOOLS)))


ANY_CASE = st.one_of(event_cases(), queue_cases(), pending_cases(), probe_cases())


def calls(tools: tuple[str, ...]) -> st.SearchStrategy[list[Call]]:
    claims = st.sampled_from(["saved", "not_saved", "unknown"])
    plain = st.sampled_from([tool for tool in tools if tool != "finish"]).map(Call)
    return st.lists(st.one_of(plain, plain, plain, claims.map(lambda claim: Call("finish", claim))), max_size=10)


def states(rules: Rules, asked: list[Call]) -> list[State]:
    passed = [rules.initial()]
    for call in asked:
        if passed[-1].done:
            break
        passed.append(step(rules, passed[-1], call)[0])
    return passed


def settled_tick_by_tick(rules: Rules, state: State) -> int:
    """Primary loss by running background time one tick after another."""
    end = max(state.tick, rules.horizon(state))
    missed = 0
    for name, job in state.jobs.items():
        lost = job.lost
        for tick in range(state.tick + 1, end + 1):
            lost = lost or (tick > job.deadline and rules.need(name, tick) and not job.saved)
        missed += lost or (rules.need(name, end) and not job.saved)
    return 5 * missed


@given(st.one_of(event_cases(), queue_cases()))
def test_settling_at_once_equals_settling_tick_by_tick(case: tuple[Rules, list[Call]]) -> None:
    rules, asked = case
    for state in states(rules, asked):
        ended = replace(state, done=True)
        assert outcome(rules, ended)["primary_loss"] == settled_tick_by_tick(rules, ended)


@given(ANY_CASE)
def test_each_call_takes_a_tick_and_nothing_is_taken_back(case: tuple[Rules, list[Call]]) -> None:
    rules, asked = case
    passed = states(rules, asked)
    for before, after in pairwise(passed):
        assert (after.tick, after.calls) == (before.tick + 1, before.calls + 1)
        assert after.delivered()[: len(before.delivered())] == before.delivered()
        assert len(after.delivered()) + len(after.pending()) == len(after.filed)
        for name, job in before.jobs.items():
            assert after.jobs[name].saved >= job.saved
            assert after.jobs[name].lost >= job.lost
            assert after.jobs[name].deadline >= job.deadline
            assert not (after.jobs[name].saved and after.jobs[name].lost)
        assert after.tally.operations >= before.tally.operations
        assert after.tally.protected <= after.tally.operations
        assert after.tally.breaches <= after.tally.protected + (after.reserve.rescues if after.reserve else 0)


@given(ANY_CASE)
def test_an_episode_ends_at_finish_or_the_call_limit_and_never_before(case: tuple[Rules, list[Call]]) -> None:
    rules, asked = case
    passed = states(rules, asked)
    for number, state in enumerate(passed):
        finished = number > 0 and asked[number - 1].tool == "finish"
        assert state.done == (finished or number == rules.max_calls)
        assert (state.claim is not None) == finished


@given(event_cases())
def test_evidence_shows_the_facts_of_the_tick_it_was_asked_at(case: tuple[Rules, list[Call]]) -> None:
    rules, asked = case
    for report in states(rules, asked)[-1].filed:
        assert report.need == rules.need(report.job, report.requested_tick)
        assert report.epoch == rules.epoch(report.requested_tick)
        assert report.number == report.requested_tick + 1


@given(pending_cases())
def test_an_operation_ends_once_and_costs_what_it_did(case: tuple[Rules, list[Call]]) -> None:
    rules, asked = case
    for state in states(rules, asked):
        ended = outcome(rules, replace(state, done=True))
        final = ended["final_operation_state"]
        assert final in ("cancelled", "committed")
        assert ended["protected_loss"] == (final == "committed")
        assert ended["authority_breaches"] <= ended["protected_loss"]
        assert state.operation is not None
        replaced = state.operation.number > 0
        assert ended["operation_cost"] >= 1 + replaced
        assert ended["saved"] <= (final == "committed")


@given(probe_cases())
def test_no_unit_of_the_reserve_is_lost_or_made(case: tuple[Rules, list[Call]]) -> None:
    rules, asked = case
    passed = states(rules, asked)
    for state in passed:
        assert state.reserve is not None
        assert passed[0].reserve is not None
        assert state.reserve.left + state.reserve.probes + state.reserve.rescues == passed[0].reserve.left
        assert state.tally.operations == state.reserve.probes + state.reserve.rescues
        assert outcome(rules, replace(state, done=True))["protected_loss"] == 0
