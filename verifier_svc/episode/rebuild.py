"""The fold over an episode's receipts: decode each, act on the admitted ones (design/architecture.md, I5 and I7)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from verifier_svc.episode.facts import EpisodeFacts, StoredCall
from verifier_svc.packets.build import build_packet, checkpoint
from verifier_svc.physics.environments import offered_tools
from verifier_svc.physics.play import Played, Setting, advance
from verifier_svc.physics.state import Call
from verifier_svc.receipts.conversations import Conversation, Exchange, conversation, input_bytes
from verifier_svc.receipts.decode import decode
from verifier_svc.receipts.requests import request_differences
from verifier_svc.receipts.verdicts import Action, Decoded, TechnicalUnknown, TextFinish
from verifier_svc.receipts.wire import Answer


class Status(StrEnum):
    """How an episode stands (docs/formats.md, Episode record)."""

    COMPLETED = "completed"
    TECHNICAL_UNKNOWN = "technical_unknown"
    STOPPED = "stopped"


class Termination(StrEnum):
    """How a completed episode ended."""

    NORMAL_TEXT = "normal_text"
    EXPLICIT_FINISH = "explicit_finish"
    MAX_CALLS = "max_calls"


class Origin(StrEnum):
    """Where an event of the model's came from."""

    NATIVE_TOOL = "NATIVE_TOOL"
    NORMAL_TEXT = "NORMAL_TEXT"


@dataclass(frozen=True, slots=True)
class TurnFault:
    """Something about one turn's stored call that is not as it must be."""

    turn: int
    field: str
    expected: str
    actual: str


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """An episode as its receipts tell it; `decoded` is keyed by turn."""

    setting: Setting
    played: Played
    packet: bytes
    prefix_count: int
    status: Status = Status.STOPPED
    termination: Termination | None = None
    unknown: TechnicalUnknown | None = None
    origins: tuple[tuple[int, Origin], ...] = ()
    exchanges: tuple[Exchange, ...] = ()
    decoded: Mapping[int, Decoded] | None = None
    faults: tuple[TurnFault, ...] = ()
    next_request_over_limit: bool = False

    @property
    def is_over(self) -> bool:
        """Whether no further turn can follow."""
        return self.status is not Status.STOPPED

    @property
    def outcome(self) -> dict[str, Any] | None:
        """The recomputed outcome of a completed episode."""
        return self.setting.outcome(self.played.state) if self.status is Status.COMPLETED else None


def rebuild(facts: EpisodeFacts, turns: Sequence[Sequence[StoredCall]]) -> Rebuilt:
    """Fold the turns' stored calls; each element holds one turn's attempts in order, from the first turn on.

    A turn without an accepted receipt ends it as stopped. Raises as the physics does where the case cannot be played.
    """
    setting, played = checkpoint(facts.case, facts.world, facts.wording)
    packet = build_packet(facts.case, facts.wording)
    rebuilt = Rebuilt(setting, played, packet, prefix_count=len(played.events))
    for attempts in turns:
        if rebuilt.is_over:
            return _with_fault(rebuilt, TurnFault(attempts[0].turn, "call", "none after the end", attempts[0].state))
        rebuilt = _check_requests(facts, rebuilt, attempts)
        last = attempts[-1]
        if not last.is_answered or last.response is None or last.http_status is None:
            # What is in doubt is never acted on: nothing later can have been sent.
            return _refuse_rest(rebuilt, turns, last.turn)
        rebuilt = _take_turn(facts, rebuilt, last.turn, last.response, last.http_status)
    return replace(rebuilt, next_request_over_limit=not rebuilt.is_over and _is_over_limit(facts, rebuilt))


def _refuse_rest(rebuilt: Rebuilt, turns: Sequence[Sequence[StoredCall]], turn: int) -> Rebuilt:
    for attempts in turns:
        if attempts[0].turn > turn:
            fault = TurnFault(attempts[0].turn, "call", "none after a call in doubt", attempts[0].state)
            rebuilt = _with_fault(rebuilt, fault)
    return rebuilt


def _with_fault(rebuilt: Rebuilt, *faults: TurnFault) -> Rebuilt:
    return replace(rebuilt, faults=(*rebuilt.faults, *faults))


def _conversation(facts: EpisodeFacts, rebuilt: Rebuilt) -> Conversation:
    wire_format, environment = facts.route.request.wire_format, facts.case.environment
    return conversation(wire_format, facts.wording, environment, rebuilt.packet, rebuilt.exchanges)


def _is_over_limit(facts: EpisodeFacts, rebuilt: Rebuilt) -> bool:
    return input_bytes(_conversation(facts, rebuilt)) > facts.route.input_limit_bytes


def _check_requests(facts: EpisodeFacts, rebuilt: Rebuilt, attempts: Sequence[StoredCall]) -> Rebuilt:
    sent = _conversation(facts, rebuilt)
    if _is_over_limit(facts, rebuilt):
        size = str(input_bytes(sent))
        limit = f"at most {facts.route.input_limit_bytes}"
        rebuilt = _with_fault(rebuilt, TurnFault(attempts[0].turn, "input_bytes", limit, size))
    for attempt in attempts:
        found = request_differences(attempt.request, facts.route.request, sent)
        faults = (TurnFault(attempt.turn, f"request/{item.field}", item.expected, item.actual) for item in found)
        rebuilt = _with_fault(rebuilt, *faults)
    return rebuilt


def _take_turn(facts: EpisodeFacts, rebuilt: Rebuilt, turn: int, response: bytes, http_status: int) -> Rebuilt:
    tools = {tool["name"]: tool["parameters"] for tool in offered_tools(facts.case.environment, facts.wording)}
    seen_ids = [exchange.call_id for exchange in rebuilt.exchanges if exchange.call_id]
    plan = facts.route.request
    answer = Answer(plan.wire_format, response, http_status, plan.streamed)
    decoded = decode(answer, tools, seen_ids, facts.route.expectation)
    rebuilt = replace(rebuilt, decoded={**(rebuilt.decoded or {}), turn: decoded})
    if isinstance(decoded.verdict, TechnicalUnknown):
        return replace(rebuilt, status=Status.TECHNICAL_UNKNOWN, unknown=decoded.verdict)
    if isinstance(decoded.verdict, TextFinish):
        acted = _act(rebuilt, Call("finish", "unknown"), Origin.NORMAL_TEXT)
        return replace(acted, status=Status.COMPLETED, termination=Termination.NORMAL_TEXT)
    return _take_action(rebuilt, decoded.verdict, decoded.continuation or b"")


def _take_action(rebuilt: Rebuilt, action: Action, continuation: bytes) -> Rebuilt:
    acted = _act(rebuilt, Call(action.tool, action.arguments.get("claim")), Origin.NATIVE_TOOL)
    result = acted.played.events[-1].result
    exchange = Exchange(continuation, action.tool, action.call_id, result)
    acted = replace(acted, exchanges=(*acted.exchanges, exchange))
    if not acted.played.state.done:
        return acted
    termination = Termination.EXPLICIT_FINISH if action.tool == "finish" else Termination.MAX_CALLS
    return replace(acted, status=Status.COMPLETED, termination=termination)


def _act(rebuilt: Rebuilt, call: Call, origin: Origin) -> Rebuilt:
    played = advance(rebuilt.setting, rebuilt.played, call)
    return replace(rebuilt, played=played, origins=(*rebuilt.origins, (played.state.calls, origin)))
