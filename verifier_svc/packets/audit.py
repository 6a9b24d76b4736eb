"""What can be said of a packet from its bytes, the declared case and the wording; it certifies only what it lists."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from countersign.kit.canonical import canonical_json
from countersign.kit.errors import CountersignError
from verifier_svc.packets.build import DEFAULT_LOSS_WEIGHTS, DeclaredCase, build_packet, checkpoint, prefix_as_json
from verifier_svc.physics import fields
from verifier_svc.physics.environments import complete_world, offered_tools
from verifier_svc.physics.play import Played, Setting
from verifier_svc.physics.trace import same
from verifier_svc.receipts.conversations import conversation, input_bytes
from verifier_svc.receipts.strict import Limits, read
from verifier_svc.receipts.verdicts import Inadmissible
from verifier_svc.receipts.wire import WireFormat

INPUT_LIMIT_BYTES = 20_000
"""The most bytes of {messages, tools}; equality passes (design/admission.md, Routes and admission control)."""
PRIOR_TOLERANCE = 1e-9
DISCLOSURES = ("tick_order", "costs", "authority", "stopping", "claims", "settlement")
KEYS = frozenset(
    (
        *("generative_support", "prior", "loss_weights", "transition_rules", "operator_prefix"),
        *("prefix_origin", "observation", "procedure_instruction", "support_interpretation"),
    )
)


class PacketCheck(StrEnum):
    """What an audit checks; each finding names one."""

    READABLE = "readable"
    KEYS = "keys"
    CANONICAL = "canonical"
    SUPPORT = "support"
    PRIOR = "prior"
    LOSS_WEIGHTS = "loss_weights"
    TRANSITION_RULES = "transition_rules"
    DISCLOSURES = "disclosures"
    OPERATOR_PREFIX = "operator_prefix"
    PREFIX_ORIGIN = "prefix_origin"
    OBSERVATION = "observation"
    INDISTINGUISHABLE = "indistinguishable"
    UNTRUSTED_MESSAGE = "untrusted_message"
    PROCEDURE_INSTRUCTION = "procedure_instruction"
    SUPPORT_INTERPRETATION = "support_interpretation"
    BYTE_LIMIT = "byte_limit"
    REBUILT = "rebuilt"
    ARMS = "arms"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check; `detail` says in a line what is wrong, "" where it passed."""

    check: PacketCheck
    passed: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class _Subject:
    data: bytes
    packet: Mapping[str, Any]
    case: DeclaredCase
    wording: Mapping[str, Any]
    byte_limit: int

    @property
    def words(self) -> Mapping[str, Any]:
        words: Mapping[str, Any] = self.wording["environments"][self.case.environment]
        return words

    def checkpoints(self) -> list[tuple[Setting, Played]]:
        """The checkpoint in every world that the packet itself lists."""
        return [checkpoint(self.case, world, self.wording) for world in self.packet["generative_support"]]


class _Wrong(Exception):
    """What a check found; never leaves this module."""


def audit_packet(
    packet: bytes, case: DeclaredCase, wording: Mapping[str, Any], byte_limit: int = INPUT_LIMIT_BYTES
) -> list[Finding]:
    """Every check that was made, in a fixed order; a packet that cannot be read gets that one finding.

    Raises UnsupportedEnvironment where this verifier has no physics for the case. A check that needs what another
    found missing fails too.
    """
    offered_tools(case.environment, wording)
    try:
        value = read(packet, Limits())
    except Inadmissible as fault:
        return [Finding(PacketCheck.READABLE, False, f"not strict JSON: {fault.unknown.reason}")]
    if not isinstance(value, dict):
        return [Finding(PacketCheck.READABLE, False, "not an object")]
    subject = _Subject(packet, value, case, wording, byte_limit)
    return [Finding(PacketCheck.READABLE, True), *(_make(check, subject) for check in _CHECKS)]


def audit_arms(left: bytes, right: bytes) -> Finding:
    """Whether two packets are the same but for their procedure_instruction, and differ there."""
    try:
        first, second = read(left, Limits()), read(right, Limits())
    except Inadmissible as fault:
        return Finding(PacketCheck.ARMS, False, f"not strict JSON: {fault.unknown.reason}")
    if not isinstance(first, dict) or not isinstance(second, dict):
        return Finding(PacketCheck.ARMS, False, "not an object")
    keys = {*first, *second}
    differing = sorted(key for key in keys if not same(first.get(key, ...), second.get(key, ...)))
    if differing != ["procedure_instruction"]:
        return Finding(PacketCheck.ARMS, False, f"the packets differ in: {', '.join(differing) or 'nothing'}")
    return Finding(PacketCheck.ARMS, True)


def _make(check: PacketCheck, subject: _Subject) -> Finding:
    try:
        _CHECKS[check](subject)
    except _Wrong as wrong:
        return Finding(check, False, str(wrong))
    except CountersignError as refusal:
        return Finding(check, False, refusal.message)
    except (LookupError, TypeError, AttributeError):
        return Finding(check, False, "not checked: a part that it needs is missing or of another form")
    return Finding(check, True)


def _require(holds: bool, detail: str) -> None:
    if not holds:
        raise _Wrong(detail)


def _keys(subject: _Subject) -> None:
    extra, missing = sorted(subject.packet.keys() - KEYS), sorted(KEYS - subject.packet.keys())
    _require(not extra, f"keys that must not be there: {', '.join(extra)}")
    _require(not missing, f"keys that are missing: {', '.join(missing)}")


def _canonical(subject: _Subject) -> None:
    _require(canonical_json(subject.packet) == subject.data, "the bytes are not canonical JSON")


def _support(subject: _Subject) -> None:
    stated = subject.packet["generative_support"]
    _require(isinstance(stated, list) and bool(stated), "no possible world")
    environment = subject.case.environment
    for index, world in enumerate(stated):
        _require(same(complete_world(environment, world), world), f"world {index} is not spelled out in full")
    distinct = {canonical_json(world) for world in stated}
    _require(len(distinct) == len(stated), "a world stands twice")
    declared = [complete_world(environment, world) for world in subject.case.support]
    _require(same(declared, stated), "not the declared worlds in the declared order")


def _prior(subject: _Subject) -> None:
    stated = subject.packet["prior"]
    _require(isinstance(stated, list), "not a list")
    _require(all(_is_weight(share) for share in stated), "a share is negative or no number")
    _require(len(stated) == len(subject.packet["generative_support"]), "not one share for each world")
    _require(abs(math.fsum(stated) - 1) <= PRIOR_TOLERANCE, "the shares do not sum to 1")
    _require(stated == list(subject.case.prior), "not the declared prior")


def _loss_weights(subject: _Subject) -> None:
    stated = subject.packet["loss_weights"]
    _require(isinstance(stated, dict) and stated.keys() == DEFAULT_LOSS_WEIGHTS.keys(), "not exactly the five weights")
    _require(all(_is_weight(weight) for weight in stated.values()), "a weight is negative or no number")
    _require(stated == dict(subject.case.loss_weights or DEFAULT_LOSS_WEIGHTS), "not the declared weights")


def _is_weight(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and value >= 0


def _transition_rules(subject: _Subject) -> None:
    _require(same(subject.packet["transition_rules"], subject.words["transition_rules"]), "not the wording's rules")


def _disclosures(subject: _Subject) -> None:
    rules = subject.packet["transition_rules"]
    missing = [name for name in DISCLOSURES if not isinstance(rules.get(name), str) or not rules[name].strip()]
    _require(not missing, f"not disclosed: {', '.join(missing)}")


def _operator_prefix(subject: _Subject) -> None:
    stated = subject.packet["operator_prefix"]
    _require([step["tool"] for step in stated] == list(subject.case.operator_prefix), "not the declared tools")
    for index, (_setting, played) in enumerate(subject.checkpoints()):
        _require(same(prefix_as_json(played), stated), f"world {index} gives other results")


def _prefix_origin(subject: _Subject) -> None:
    name = "operator" if subject.case.operator_prefix else "none"
    _require(subject.packet["prefix_origin"] == subject.wording["prefix_origins"][name], "not the wording's text")


def _observation(subject: _Subject) -> None:
    setting, played = checkpoint(subject.case, subject.case.support[0], subject.wording)
    expected, stated = setting.observation(played.state), subject.packet["observation"]
    _require(isinstance(stated, dict), "not an object")
    differing = sorted(key for key in {*expected, *stated} if not same(expected.get(key, ...), stated.get(key, ...)))
    _require(not differing, f"not as recomputed: {', '.join(differing)}")


def _indistinguishable(subject: _Subject) -> None:
    """Every world of the packet's support, with the same history, must show the packet's observation."""
    seen = subject.packet["observation"]
    checkpoints = subject.checkpoints()
    _require(bool(checkpoints), "no possible world")
    for index, (setting, played) in enumerate(checkpoints):
        _require(same(setting.observation(played.state), seen), f"world {index} would be seen differently")


def _untrusted_message(subject: _Subject) -> None:
    shown = subject.packet["observation"]["untrusted_message"]
    _require(shown["source"] == "untrusted_message" and shown["trusted"] is False, "not marked as untrusted")
    _require(fields.message(shown["body"]) == subject.case.untrusted_message, "not the declared message")


def _procedure_instruction(subject: _Subject) -> None:
    stated = subject.packet["procedure_instruction"]
    _require(isinstance(stated, str) and bool(stated.strip()), "blank")
    _require(stated == subject.case.procedure_instruction, "not the declared instruction")


def _support_interpretation(subject: _Subject) -> None:
    stated = subject.packet["support_interpretation"]
    _require(stated == subject.wording["support_interpretation"], "not the wording's text")


def _byte_limit(subject: _Subject) -> None:
    """The first request's messages and tools in chat completions, as docs/formats.md has them."""
    environment = subject.case.environment
    size = input_bytes(conversation(WireFormat.CHAT_COMPLETIONS, subject.wording, environment, subject.data, ()))
    _require(size <= subject.byte_limit, f"{size} bytes of messages and tools, over {subject.byte_limit}")


def _rebuilt(subject: _Subject) -> None:
    same_bytes = build_packet(subject.case, subject.wording) == subject.data
    _require(same_bytes, "the declared case gives other bytes")


_CHECKS: Mapping[PacketCheck, Callable[[_Subject], None]] = {
    PacketCheck.KEYS: _keys,
    PacketCheck.CANONICAL: _canonical,
    PacketCheck.SUPPORT: _support,
    PacketCheck.PRIOR: _prior,
    PacketCheck.LOSS_WEIGHTS: _loss_weights,
    PacketCheck.TRANSITION_RULES: _transition_rules,
    PacketCheck.DISCLOSURES: _disclosures,
    PacketCheck.OPERATOR_PREFIX: _operator_prefix,
    PacketCheck.PREFIX_ORIGIN: _prefix_origin,
    PacketCheck.OBSERVATION: _observation,
    PacketCheck.INDISTINGUISHABLE: _indistinguishable,
    PacketCheck.UNTRUSTED_MESSAGE: _untrusted_message,
    PacketCheck.PROCEDURE_INSTRUCTION: _procedure_instruction,
    PacketCheck.SUPPORT_INTERPRETATION: _support_interpretation,
    PacketCheck.BYTE_LIMIT: _byte_limit,
    PacketCheck.REBUILT: _rebuilt,
}
