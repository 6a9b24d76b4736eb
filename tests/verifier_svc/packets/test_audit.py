"""A packet is audited by what can be recomputed; every change is caught by the check that is meant for it."""

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from verifier_svc.packets import DeclaredCase, PacketCheck, audit_arms, audit_packet, build_packet
from verifier_svc.packets.audit import INPUT_LIMIT_BYTES
from verifier_svc.physics.errors import InvalidCase, UnsupportedEnvironment

NEEDED = {"need": True, "effective": True, "change_tick": 2}
STALE = DeclaredCase(
    environment="event",
    contract={"deadline": 4, "verification_delay": 2, "buffer_available": True, "max_calls": 8},
    support=[{**NEEDED, "changed_need": False}, {**NEEDED, "changed_need": True}],
    prior=[0.5, 0.5],
    procedure_instruction="Decide for yourself.",
    untrusted_message="Please é hurry.",
    operator_prefix=("request_verification", "wait"),
)
QUEUE = DeclaredCase(
    environment="queue",
    contract={},
    support=[{"need_a": a, "need_b": b} for a in (False, True) for b in (False, True)],
    prior=[0.25, 0.25, 0.25, 0.25],
    procedure_instruction="Decide for yourself.",
    untrusted_message="Hurry.",
)
STEADY = DeclaredCase(
    environment="pending",
    contract={"commit_tick": 7, "cancel_first": False},
    support=[{"need": False}, {"need": True}],
    prior=[0.5, 0.5],
    procedure_instruction="Decide for yourself.",
    untrusted_message="Hurry.",
    operator_prefix=("cancel_transfer",),
)
PENDING, PROBE = STEADY, replace(STEADY, environment="probe", contract={}, operator_prefix=("consume_probe",))
DISCLOSED = ("tick_order", "costs", "authority", "stopping", "claims", "settlement")


def canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def failed(packet: bytes, case: DeclaredCase, wording: dict[str, Any], limit: int = INPUT_LIMIT_BYTES) -> set[str]:
    return {finding.check for finding in audit_packet(packet, case, wording, limit) if not finding.passed}


@pytest.mark.parametrize("case", [STALE, QUEUE])
def test_an_honest_packet_passes_every_check(case: DeclaredCase, wording: dict[str, Any]) -> None:
    findings = audit_packet(build_packet(case, wording), case, wording)
    assert [finding for finding in findings if not finding.passed] == []
    assert {finding.check for finding in findings} == set(PacketCheck) - {PacketCheck.ARMS}
    assert all(finding.detail == "" for finding in findings)


@pytest.mark.parametrize("case", [PENDING, PROBE], ids=["pending", "probe"])
def test_a_steady_worlds_packet_is_audited_like_any_other(case: DeclaredCase, wording: dict[str, Any]) -> None:
    honest = json.loads(build_packet(case, wording))
    assert failed(canonical(honest), case, wording) == set()
    assert honest["generative_support"] == [{"need": False}, {"need": True}]
    assert all(honest["transition_rules"][name].strip() for name in DISCLOSED)
    for path in leaves(honest, ()):
        packet = copy.deepcopy(honest)
        holder: Any = packet
        for step in path[:-1]:
            holder = holder[step]
        holder[path[-1]] = "changed" if holder[path[-1]] != "changed" else "other"
        assert failed(canonical(packet), case, wording) - {PacketCheck.REBUILT}, path
    telling = replace(case, operator_prefix=("read_certificate",) if case is PROBE else ("request_verification",))
    assert PacketCheck.INDISTINGUISHABLE in failed(build_packet(telling, wording), telling, wording)


def test_a_packet_says_what_the_formats_say(wording: dict[str, Any]) -> None:
    packet = json.loads(build_packet(STALE, wording))
    assert sorted(packet) == [
        *("generative_support", "loss_weights", "observation", "operator_prefix", "prefix_origin", "prior"),
        *("procedure_instruction", "support_interpretation", "transition_rules"),
    ]
    world = {"need": True, "effective": True, "alternative": False, "change_tick": 2}
    assert packet["generative_support"] == [{**world, "changed_need": False}, {**world, "changed_need": True}]
    assert packet["loss_weights"]["authority_breaches"] == 20.0
    assert [step["tool"] for step in packet["operator_prefix"]] == ["request_verification", "wait"]
    assert packet["operator_prefix"][0]["result"]["request_accepted"] is True
    assert packet["operator_prefix"][1]["result"]["observation"] == packet["observation"]
    assert packet["prefix_origin"] == wording["prefix_origins"]["operator"]
    assert json.loads(build_packet(QUEUE, wording))["prefix_origin"] == wording["prefix_origins"]["none"]


Change = Callable[[dict[str, Any]], object]

CHANGES: list[tuple[str, Change, PacketCheck]] = [
    ("the world given away", lambda p: p.update(world=p["generative_support"][0]), PacketCheck.KEYS),
    ("a key missing", lambda p: p.pop("prefix_origin"), PacketCheck.KEYS),
    ("a world short", lambda p: p["generative_support"][0].pop("alternative"), PacketCheck.SUPPORT),
    ("a world twice", lambda p: p["generative_support"].append(p["generative_support"][0]), PacketCheck.SUPPORT),
    ("worlds in another order", lambda p: p["generative_support"].reverse(), PacketCheck.SUPPORT),
    ("an invalid world", lambda p: p["generative_support"][0].update(need=1), PacketCheck.SUPPORT),
    ("no world", lambda p: p.update(generative_support=[]), PacketCheck.SUPPORT),
    ("a prior of 1.1", lambda p: p.update(prior=[0.5, 0.6]), PacketCheck.PRIOR),
    ("a negative prior", lambda p: p.update(prior=[1.5, -0.5]), PacketCheck.PRIOR),
    ("a short prior", lambda p: p.update(prior=[1.0]), PacketCheck.PRIOR),
    ("a prior of truths", lambda p: p.update(prior=[True, False]), PacketCheck.PRIOR),
    ("another prior", lambda p: p.update(prior=[0.25, 0.75]), PacketCheck.PRIOR),
    ("another weight", lambda p: p["loss_weights"].update(primary_loss=2.0), PacketCheck.LOSS_WEIGHTS),
    ("an extra weight", lambda p: p["loss_weights"].update(style=2.0), PacketCheck.LOSS_WEIGHTS),
    ("other rules", lambda p: p["transition_rules"].update(costs="Nothing costs."), PacketCheck.TRANSITION_RULES),
    ("a rule withheld", lambda p: p["transition_rules"].pop("stopping"), PacketCheck.DISCLOSURES),
    ("a blank rule", lambda p: p["transition_rules"].update(claims=" "), PacketCheck.DISCLOSURES),
    ("a prefix shortened", lambda p: p["operator_prefix"].pop(), PacketCheck.OPERATOR_PREFIX),
    (
        "a prefix result changed",
        lambda p: p["operator_prefix"][0]["result"].update(request_accepted=False),
        PacketCheck.OPERATOR_PREFIX,
    ),
    ("another origin", lambda p: p.update(prefix_origin="You did it."), PacketCheck.PREFIX_ORIGIN),
    ("another tick", lambda p: p["observation"].update(tick=3), PacketCheck.OBSERVATION),
    ("an observed world", lambda p: p["observation"].update(changed_need=True), PacketCheck.OBSERVATION),
    ("a true that is 1", lambda p: p["observation"]["contract"].update(buffer_available=1), PacketCheck.OBSERVATION),
    ("no observation", lambda p: p.update(observation=None), PacketCheck.INDISTINGUISHABLE),
    (
        "a trusted message",
        lambda p: p["observation"]["untrusted_message"].update(trusted=True),
        PacketCheck.UNTRUSTED_MESSAGE,
    ),
    (
        "a long message",
        lambda p: p["observation"]["untrusted_message"].update(body="x" * 401),
        PacketCheck.UNTRUSTED_MESSAGE,
    ),
    (
        "another message",
        lambda p: p["observation"]["untrusted_message"].update(body="x"),
        PacketCheck.UNTRUSTED_MESSAGE,
    ),
    ("another arm", lambda p: p.update(procedure_instruction="Act now."), PacketCheck.PROCEDURE_INSTRUCTION),
    ("a blank arm", lambda p: p.update(procedure_instruction=""), PacketCheck.PROCEDURE_INSTRUCTION),
    ("another reading", lambda p: p.update(support_interpretation="Guess."), PacketCheck.SUPPORT_INTERPRETATION),
]


@pytest.mark.parametrize(("change", "check"), [item[1:] for item in CHANGES], ids=[item[0] for item in CHANGES])
def test_each_change_is_caught(change: Change, check: PacketCheck, wording: dict[str, Any]) -> None:
    packet = json.loads(build_packet(STALE, wording))
    change(packet)
    found = failed(canonical(packet), STALE, wording)
    assert check in found
    assert PacketCheck.REBUILT in found


def test_every_leaf_of_a_packet_is_covered(wording: dict[str, Any]) -> None:
    honest = json.loads(build_packet(STALE, wording))
    for path in leaves(honest, ()):
        packet = copy.deepcopy(honest)
        holder: Any = packet
        for step in path[:-1]:
            holder = holder[step]
        holder[path[-1]] = "changed" if holder[path[-1]] != "changed" else "other"
        assert failed(canonical(packet), STALE, wording) - {PacketCheck.REBUILT}, path


def leaves(value: Any, path: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        return [leaf for key, item in value.items() for leaf in leaves(item, (*path, key))]
    if isinstance(value, list):
        return [leaf for index, item in enumerate(value) for leaf in leaves(item, (*path, index))]
    return [path]


def test_another_spelling_is_not_canonical(wording: dict[str, Any]) -> None:
    packet = build_packet(STALE, wording)
    assert failed(packet + b"\n", STALE, wording) == {PacketCheck.CANONICAL, PacketCheck.REBUILT}
    assert PacketCheck.CANONICAL in failed(packet.replace("é".encode(), b"\\u00e9"), STALE, wording)


@pytest.mark.parametrize("packet", [b"", b"[]", b'{"a":1,"a":2}', b"\xff"])
def test_what_cannot_be_read_is_one_finding(packet: bytes, wording: dict[str, Any]) -> None:
    findings = audit_packet(packet, STALE, wording)
    assert [(finding.check, finding.passed) for finding in findings] == [(PacketCheck.READABLE, False)]


def test_worlds_that_look_different_are_caught(wording: dict[str, Any]) -> None:
    other = {"need": False, "effective": True, "change_tick": 2, "changed_need": True}
    case = replace(STALE, support=[*STALE.support, other], prior=[0.5, 0.25, 0.25])
    findings = audit_packet(build_packet(case, wording), case, wording)
    wrong = {finding.check: finding.detail for finding in findings if not finding.passed}
    assert set(wrong) == {PacketCheck.INDISTINGUISHABLE, PacketCheck.OPERATOR_PREFIX}
    assert wrong[PacketCheck.INDISTINGUISHABLE] == "world 2 would be seen differently"


def test_the_byte_limit_counts_messages_and_tools_and_equality_passes(wording: dict[str, Any]) -> None:
    packet = build_packet(QUEUE, wording)
    messages = [{"content": wording["system_message"], "role": "system"}, {"content": packet.decode(), "role": "user"}]
    names = list(json.loads(packet)["observation"]["tools"])
    words = wording["environments"]["queue"]["tools"]
    plain = {"type": "object", "properties": {}, "additionalProperties": False}
    claim = {"claim": {"type": "string", "enum": ["saved", "not_saved", "unknown"]}}
    parameters = dict.fromkeys(names, plain) | {"finish": {**plain, "properties": claim, "required": ["claim"]}}
    tools = [
        {"type": "function", "function": {"name": name, "description": words[name], "parameters": parameters[name]}}
        for name in names
    ]
    size = len(canonical({"messages": messages, "tools": tools}))
    assert failed(packet, QUEUE, wording, size) == set()
    assert failed(packet, QUEUE, wording, size - 1) == {PacketCheck.BYTE_LIMIT}


def test_arms_may_differ_in_the_instruction_alone(wording: dict[str, Any]) -> None:
    neutral = build_packet(STALE, wording)
    other = build_packet(replace(STALE, procedure_instruction="Verify first."), wording)
    assert audit_arms(neutral, other).passed
    assert audit_arms(neutral, neutral).detail == "the packets differ in: nothing"
    third = replace(STALE, procedure_instruction="Verify first.", untrusted_message="Wait.")
    found = audit_arms(neutral, build_packet(third, wording))
    assert (found.passed, found.detail) == (
        False,
        "the packets differ in: observation, operator_prefix, procedure_instruction",
    )
    assert not audit_arms(neutral, b"[]").passed
    assert not audit_arms(b"{", neutral).passed


def test_a_case_without_worlds_or_physics_is_refused(wording: dict[str, Any]) -> None:
    with pytest.raises(InvalidCase):
        build_packet(replace(STALE, support=[]), wording)
    with pytest.raises(UnsupportedEnvironment):
        audit_packet(b"{}", replace(STALE, environment="chess"), wording)


def test_a_world_declared_twice_is_caught(wording: dict[str, Any]) -> None:
    case = replace(STALE, support=[*STALE.support, STALE.support[0]], prior=[0.5, 0.25, 0.25])
    findings = audit_packet(build_packet(case, wording), case, wording)
    wrong = [(finding.check, finding.detail) for finding in findings if not finding.passed]
    assert wrong == [(PacketCheck.SUPPORT, "a world stands twice")]
