"""Two implementations of the environments that share no code, one history: the adapter's simulators against the
verifier's physics, byte for byte (design/environments.md; design/architecture.md, I7).
"""

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapter_svc import environments as adapter
from adapter_svc.cases import CaseSpec, LossWeights, build_case
from tests.conftest import PROJECT_ROOT
from verifier_svc.packets import DeclaredCase
from verifier_svc.packets.build import DEFAULT_LOSS_WEIGHTS, build_packet
from verifier_svc.physics import errors as verifier_errors
from verifier_svc.physics import event, pending, probe, queue
from verifier_svc.physics import play as verifier
from verifier_svc.physics.state import Call

WORDING: dict[str, Any] = json.loads((PROJECT_ROOT / "protos" / "wording" / "v1.json").read_text("utf-8"))
SEEDS = range(4)
EPISODES_PER_SEED = 13_000
TOOLS = {
    name: tuple(each.TOOLS)
    for name, each in (("event", event), ("queue", queue), ("pending", pending), ("probe", probe))
}
CLAIMS = ("saved", "not_saved", "unknown")
REFUSED = "refused"
ENVIRONMENTS = tuple(TOOLS)

Scenario = tuple[str, dict[str, Any], dict[str, Any], list[tuple[str, str | None]]]


def by_adapter(scenario: Scenario, message: str = "Hurry.") -> Any:
    """The events as the adapter keeps them, REFUSED for each call that it does not accept, and the outcome."""
    environment, world, contract, calls = scenario
    try:
        simulator = adapter.start(
            environment,
            adapter.world_from_json(environment, world),
            adapter.contract_from_json(environment, contract),
            message,
            WORDING,
        )
    except adapter.InvalidCase:
        return REFUSED
    history: list[Any] = []
    for tool, claim in calls:
        try:
            event = simulator.call(tool, claim)
        except adapter.InvalidAction:
            history.append(REFUSED)
            continue
        history.append((event.sequence, event.tool, event.claim, event.start_tick, event.end_tick, event.result))
    return history, simulator.settle().to_json() if simulator.done else None


def by_verifier(scenario: Scenario, message: str = "Hurry.") -> Any:
    """The same from the verifier's fold."""
    environment, world, contract, calls = scenario
    try:
        setting = verifier.setting_for(environment, world, contract, message, WORDING)
    except verifier_errors.InvalidCase:
        return REFUSED
    played = verifier.Played(setting.rules.initial())
    history: list[Any] = []
    for tool, claim in calls:
        try:
            played = verifier.advance(setting, played, Call(tool, claim))
        except verifier_errors.InvalidAction:
            history.append(REFUSED)
            continue
        event = played.events[-1]
        history.append((event.sequence, event.tool, event.claim, event.start_tick, event.end_tick, event.result))
    return history, setting.outcome(played.state) if played.state.done else None


def a_scenario(rng: Random) -> Scenario:
    """Any world and contract, mostly small ones, and calls of which few are invalid."""
    environment = rng.choice(ENVIRONMENTS)
    numbers, flags = TERMS[environment]
    contract: dict[str, Any] = {name: a_quantity(rng) for name in numbers if rng.random() < 0.8}
    if environment == "pending" and rng.random() < 0.9:
        # Both lie after the start, which most scenarios should respect.
        contract |= {name: contract.get(name, 1) + 2 for name in numbers[:2]}
    contract |= {name: rng.random() < 0.7 for name in flags}
    if rng.random() < 0.7:
        contract["max_calls"] = rng.choice((1, 2, 5, 8, 12, 30, 100))
    world = A_WORLD[environment](rng)
    return environment, world, contract, [a_call(environment, rng) for _ in range(rng.randrange(1, 16))]


TERMS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "event": (("deadline", "verification_delay", "human_delay", "buffer_extension"), ("buffer_available",)),
    "queue": (("deadline_a", "deadline_b", "verification_delay", "buffer_extension"), ()),
    "pending": (
        ("commit_tick", "deadline", "verification_delay", "cancellation_delay", "replacement_delay"),
        ("cancel_first",),
    ),
    "probe": (("reserve_capacity", "deadline", "probe_delay"), ()),
}


def a_quantity(rng: Random) -> int:
    return rng.choice((1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 10, 15, 100))


def an_event_world(rng: Random) -> dict[str, Any]:
    world: dict[str, Any] = {"need": rng.random() < 0.7, "effective": rng.random() < 0.7}
    if rng.random() < 0.8:
        world["alternative"] = rng.random() < 0.5
    if rng.random() < 0.6:
        world |= {"change_tick": rng.choice((1, 1, 2, 2, 3, 4, 5, 6, 8, 12, 40)), "changed_need": rng.random() < 0.5}
    return world


def a_queue_world(rng: Random) -> dict[str, Any]:
    names = ("need_a", "need_b", *rng.choice(((), ("alternative_a",), ("alternative_a", "alternative_b"))))
    return {name: rng.random() < 0.6 for name in names}


def a_steady_world(rng: Random) -> dict[str, Any]:
    return {"need": rng.random() < 0.6}


A_WORLD = {"event": an_event_world, "queue": a_queue_world, "pending": a_steady_world, "probe": a_steady_world}


def a_call(environment: str, rng: Random) -> tuple[str, str | None]:
    tool = rng.choice(TOOLS[environment][:-1])
    if rng.random() < 0.05:
        tool = "finish"
    if rng.random() < 0.02:
        tool = rng.choice(("fly", "", "Wait", "transfer_c", *(tool for tools in TOOLS.values() for tool in tools)))
    claim = rng.choice(CLAIMS) if tool == "finish" else None
    if rng.random() < 0.02:
        claim = rng.choice((*CLAIMS, "won", "", None))
    return tool, claim


@pytest.mark.parametrize("seed", SEEDS)
def test_every_history_is_the_same_to_both(seed: int) -> None:
    rng = Random(seed)
    steps = ends = refusals = 0
    for number in range(EPISODES_PER_SEED):
        scenario = a_scenario(rng)
        mine = by_adapter(scenario)
        assert (number, scenario, mine) == (number, scenario, by_verifier(scenario))
        if mine == REFUSED:
            refusals += 1
            continue
        history, outcome = mine
        steps += len(history) - history.count(REFUSED)
        refusals += history.count(REFUSED)
        ends += outcome is not None
    assert min(steps // 50_000, ends // 1000, refusals // 1000) >= 1, "the scenarios must act, end and be refused"


ODD = st.one_of(st.none(), st.booleans(), st.integers(-1, 102), st.floats(0, 3), st.sampled_from(["", "1", "true"]))


@given(st.randoms(use_true_random=False), st.data())
def test_a_world_or_contract_with_an_odd_field_is_refused_by_both_or_by_none(rng: Random, data: st.DataObject) -> None:
    environment, world, contract, calls = a_scenario(rng)
    holder = data.draw(st.sampled_from([world, contract]))
    names = sorted({*holder, "need", "change_tick", "changed_need", "max_calls", "deadline", "other"})
    holder[data.draw(st.sampled_from(names))] = data.draw(ODD)
    scenario = (environment, world, contract, calls)
    assert by_adapter(scenario) == by_verifier(scenario)


@given(
    st.randoms(use_true_random=False), st.text(max_size=140) | st.sampled_from(["é" * 200, "é" * 200 + "x", "x" * 401])
)
def test_the_untrusted_message_is_shown_or_refused_alike(rng: Random, message: str) -> None:
    scenario = a_scenario(rng)
    assert by_adapter(scenario, message) == by_verifier(scenario, message)


WEIGHTS = ("primary_loss", "protected_loss", "authority_breaches", "operation_cost", "false_outcome_claims")


@given(st.randoms(use_true_random=False))
def test_a_case_that_the_adapter_builds_is_the_packet_that_the_verifier_expects(rng: Random) -> None:
    environment, world, contract, _ = a_scenario(rng)
    alone = rng.random() < 0.5
    support, prior = ([world], [1.0]) if alone else ([world, A_WORLD[environment](rng)], [0.25, 0.75])
    weights = {name: rng.choice((0.0, 0.1, 1.0, 20.0, 1e-7)) for name in WEIGHTS if rng.random() < 0.3}
    prefix = tuple(tool for tool, _ in (a_call(environment, rng) for _ in range(rng.randrange(4))))
    try:
        spec = CaseSpec(
            adapter.Setting(environment, adapter.contract_from_json(environment, contract), prefix, "Hurry."),
            tuple(adapter.world_from_json(environment, each) for each in support),
            tuple(prior),
            LossWeights(**weights),
            "Decide — with care.",
        )
        packet = build_case(spec, WORDING).packet
    except adapter.InvalidCase:
        return
    losses = {**DEFAULT_LOSS_WEIGHTS, **weights}
    case = DeclaredCase(environment, contract, support, prior, "Decide — with care.", "Hurry.", prefix, losses)
    assert packet == build_packet(case, WORDING)
