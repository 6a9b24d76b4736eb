"""Whether a trace is what the rules give: every event played again and compared (design/architecture.md,
I7)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from verifier_svc.physics.errors import InvalidAction
from verifier_svc.physics.play import Played, PlayedEvent, Setting, advance, play_prefix, setting_for
from verifier_svc.physics.state import Call

NO_EVENT = "no event"
WHOLE_TRACE = 0
"""The sequence of a difference that belongs to no single event."""


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """One event as it was handed in; `result` is the result's bytes, None where they are not to be
    compared."""

    sequence: int
    tool: str
    claim: str | None
    start_tick: int
    end_tick: int
    result: bytes | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as recomputed. `sequence` is the event's, 0 where the whole trace is meant."""

    sequence: int
    field: str
    expected: str
    actual: str


@dataclass(frozen=True, slots=True)
class TraceVerdict:
    """The answer of `verify_trace`; `outcome` is the recomputed one, None where the episode did not end."""

    agrees: bool
    differences: tuple[Difference, ...]
    outcome: Mapping[str, Any] | None


def verify_trace(
    environment: str,
    world: Mapping[str, Any],
    contract: Mapping[str, Any],
    prefix: Sequence[str],
    events: Sequence[TraceEvent],
    outcome: Mapping[str, Any] | None,
    untrusted_message: str,
    wording: Mapping[str, Any],
    must_end: bool = True,
) -> TraceVerdict:
    """Play `events` (the operator's prefix among them) again and compare.

    Compared: sequences, the prefix's tools, claims, ticks, result bytes where given, that the episode ended (unless
    `must_end` is false), and `outcome` where given. Raises UnsupportedEnvironment or InvalidCase.
    """
    setting = setting_for(environment, world, contract, untrusted_message, wording)
    play_prefix(setting, prefix)
    played, differences = _replay(setting, events)
    found = [*_compare_prefix(prefix, events), *differences]
    ended = played.state.done
    if must_end and not ended and not differences:
        found.append(Difference(WHOLE_TRACE, "ended", "true", "false"))
    recomputed = setting.outcome(played.state) if ended else None
    if outcome is not None:
        found.extend(compare_objects(WHOLE_TRACE, "outcome", recomputed or {}, outcome))
    return TraceVerdict(not found, tuple(found), recomputed)


def _replay(setting: Setting, events: Sequence[TraceEvent]) -> tuple[Played, list[Difference]]:
    played = Played(setting.rules.initial())
    differences: list[Difference] = []
    for event in events:
        try:
            played = advance(setting, played, Call(event.tool, event.claim))
        except InvalidAction as refusal:
            asked = f"{event.tool}({event.claim})" if event.claim else event.tool
            differences.append(Difference(played.state.calls + 1, "call", refusal.message, asked))
            break
        differences.extend(compare_event(played.events[-1], event))
    return played, differences


def compare_event(expected: PlayedEvent, actual: TraceEvent) -> list[Difference]:
    """What in `actual` is not as recomputed, result bytes included where they are given."""
    pairs = [
        ("sequence", expected.sequence, actual.sequence),
        ("tool", expected.tool, actual.tool),
        ("claim", expected.claim, actual.claim),
        ("start_tick", expected.start_tick, actual.start_tick),
        ("end_tick", expected.end_tick, actual.end_tick),
    ]
    found = [
        Difference(expected.sequence, name, _text(want), _text(got)) for name, want, got in pairs if not same(want, got)
    ]
    if actual.result is not None and actual.result != expected.result:
        got_text = actual.result.decode("utf-8", "backslashreplace")
        found.append(Difference(expected.sequence, "result", expected.result.decode("utf-8"), got_text))
    return found


def _compare_prefix(prefix: Sequence[str], events: Sequence[TraceEvent]) -> list[Difference]:
    found = []
    for index, tool in enumerate(prefix):
        got = events[index].tool if index < len(events) else NO_EVENT
        if got != tool:
            found.append(Difference(index + 1, "prefix_tool", tool, got))
    return found


def compare_objects(
    sequence: int, name: str, expected: Mapping[str, Any], actual: Mapping[str, Any]
) -> list[Difference]:
    """One difference for each key whose value is not the same, a bool never equal to a number."""
    return [
        Difference(sequence, f"{name}.{key}", _shown(expected, key), _shown(actual, key))
        for key in sorted({*expected, *actual})
        if key not in expected or key not in actual or not same(expected[key], actual[key])
    ]


def same(left: Any, right: Any) -> bool:
    """Equality of JSON values that tells true from 1 and 1 from 1.0."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(value, right[key]) for key, value in left.items())
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def _shown(source: Mapping[str, Any], key: str) -> str:
    return _text(source[key]) if key in source else "absent"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)
