"""The record beside the rebuilt episode: every difference named (design/study.md, Analysis)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from countersign.kit.canonical import canonical_json, sha256
from verifier_svc.episode.charges import call_differences
from verifier_svc.episode.facts import FIRST_TURN, EpisodeFacts, StoredCall
from verifier_svc.episode.rebuild import Rebuilt, Status, Termination, rebuild
from verifier_svc.episode.record import EpisodeRecord, read_record
from verifier_svc.physics.environments import complete_contract, complete_world
from verifier_svc.physics.errors import InvalidCase
from verifier_svc.physics.trace import NO_EVENT, WHOLE_TRACE, Difference, compare_event, compare_objects, same
from verifier_svc.receipts.verdicts import Decoded, Reason

CHECKED = (
    *("canonical_record", "identity", "case", "packet", "wording", "requests", "continuations", "call_ids"),
    *(
        "status",
        "termination",
        "reason",
        "stop_category",
        "events",
        "origins",
        "outcome",
        "calls",
        "reservations",
        "costs",
    ),
)
"""What `verify_episode` compares, by name; the place of a technical unknown is not among it."""

STOP_CATEGORIES = (
    *("input_limit", "budget_stop", "billing_unresolved", "billing_above_reservation", "transport_unknown"),
    *("unresolved_prior_request", "study_blocked", "service_unavailable", "interrupted"),
)
"""Why an episode can stop without an outcome (design/study.md, Running)."""


@dataclass(frozen=True, slots=True)
class EpisodeVerdict:
    """What the receipts say, and where the record says otherwise.

    `first_event` is the first differing event's sequence, None where all events agree; `accounted_nanos` the sum over
    all stored calls. `decoded` is keyed by turn.
    """

    agrees: bool
    differences: tuple[Difference, ...]
    checked: tuple[str, ...]
    status: Status
    termination: Termination | None
    reason: Reason | None
    outcome: Mapping[str, Any] | None
    first_event: int | None
    accounted_nanos: int
    decoded: Mapping[int, Decoded]


def verify_episode(record: bytes, facts: EpisodeFacts, receipts: Sequence[StoredCall]) -> EpisodeVerdict:
    """Rebuild the episode from `receipts` (all attempts of all its turns) and compare it with `record`.

    Raises InvalidRecord where the record is not of the documented form, and as the physics does where the case cannot
    be played. Every other disagreement is a difference.
    """
    stated = read_record(record)
    rebuilt, gaps = _rebuild(facts, receipts)
    differences = [
        *_compare_identity(stated, facts),
        *_compare_case(stated, facts, rebuilt),
        *gaps,
        *_turn_faults(rebuilt),
        *_compare_end(stated, rebuilt),
        *_compare_events(stated, rebuilt),
        *call_differences(stated.calls, facts, receipts, rebuilt.decoded or {}),
    ]
    ordered = sorted(differences, key=lambda difference: difference.sequence)
    return EpisodeVerdict(
        agrees=not differences,
        differences=tuple(ordered),
        checked=CHECKED,
        status=rebuilt.status,
        termination=rebuilt.termination,
        reason=rebuilt.unknown.reason if rebuilt.unknown else None,
        outcome=rebuilt.outcome,
        first_event=min((item.sequence for item in differences if item.sequence), default=None),
        accounted_nanos=sum(call.accounted_nanos for call in receipts),
        decoded=rebuilt.decoded or {},
    )


def _rebuild(facts: EpisodeFacts, receipts: Sequence[StoredCall]) -> tuple[Rebuilt, list[Difference]]:
    """Only an unbroken run of turns from the first can be folded; what stands after a gap is a difference."""
    turns: dict[int, list[StoredCall]] = {}
    for call in sorted(receipts, key=lambda call: (call.turn, call.attempt)):
        turns.setdefault(call.turn, []).append(call)
    unbroken: list[list[StoredCall]] = []
    while FIRST_TURN + len(unbroken) in turns:
        unbroken.append(turns.pop(FIRST_TURN + len(unbroken)))
    gaps = [_whole(f"turn_{turn}", "no call after a missing turn", turns[turn][0].state) for turn in sorted(turns)]
    return rebuild(facts, unbroken), gaps


def _turn_faults(rebuilt: Rebuilt) -> list[Difference]:
    return [_whole(f"turn_{fault.turn}/{fault.field}", fault.expected, fault.actual) for fault in rebuilt.faults]


def _compare_identity(stated: EpisodeRecord, facts: EpisodeFacts) -> list[Difference]:
    members = stated.members
    pairs = [
        ("canonical_record", True, stated.is_canonical),
        ("study_id", facts.study_id, members["study_id"]),
        ("episode_id", facts.episode_id, members["episode_id"]),
        ("identity", facts.episode_id, sha256(canonical_json(members["identity"])).hex()),
        ("wording_digest", facts.wording_digest, members["wording_digest"]),
    ]
    if facts.manifest_digest is not None:
        pairs.append(("manifest_digest", facts.manifest_digest, members["manifest_digest"]))
    return _differing(pairs)


def _compare_case(stated: EpisodeRecord, facts: EpisodeFacts, rebuilt: Rebuilt) -> list[Difference]:
    members, case = stated.members, facts.case
    return _differing(
        [
            ("environment", case.environment, members["environment"]),
            ("world", complete_world(case.environment, facts.world), _world(case.environment, members["world"])),
            (
                "contract",
                complete_contract(case.environment, case.contract),
                _contract(case.environment, members["contract"]),
            ),
            ("operator_prefix", list(case.operator_prefix), members["operator_prefix"]),
            ("packet_digest", sha256(rebuilt.packet).hex(), members["packet_digest"]),
            ("prefix_count", rebuilt.prefix_count, members["prefix_count"]),
        ]
    )


def _world(environment: str, stated: Mapping[str, Any]) -> Any:
    try:
        return complete_world(environment, stated)
    except InvalidCase:
        return stated


def _contract(environment: str, stated: Mapping[str, Any]) -> Any:
    try:
        return complete_contract(environment, stated)
    except InvalidCase:
        return stated


def _compare_end(stated: EpisodeRecord, rebuilt: Rebuilt) -> list[Difference]:
    members = stated.members
    ended_by_text = rebuilt.termination is Termination.NORMAL_TEXT
    found = _differing(
        [
            ("status", str(rebuilt.status), members["status"]),
            ("termination", _text_or_none(rebuilt.termination), members["termination"]),
            ("reason", _text_or_none(rebuilt.unknown and rebuilt.unknown.reason), members["reason"]),
            ("prose_truth", "not_measured" if ended_by_text else None, members["prose_truth"]),
        ]
    )
    found.extend(_compare_outcome(rebuilt.outcome, members["outcome"]))
    if rebuilt.status is not Status.TECHNICAL_UNKNOWN and members["where"] is not None:
        found.append(_whole("where", "None", members["where"]))
    return [*found, *_compare_stop(members["stop_category"], rebuilt)]


def _compare_outcome(expected: Mapping[str, Any] | None, stated: Mapping[str, Any] | None) -> list[Difference]:
    if expected is None or stated is None:
        return _differing([("outcome", expected, stated)])
    return compare_objects(WHOLE_TRACE, "outcome", expected, stated)


def _compare_stop(stated: str | None, rebuilt: Rebuilt) -> list[Difference]:
    """Receipts do not tell why an episode stopped, but for the input limit, which can be counted."""
    if rebuilt.status is not Status.STOPPED:
        return _differing([("stop_category", None, stated)])
    if stated not in STOP_CATEGORIES:
        return [_whole("stop_category", "one of the closed list", repr(stated))]
    if (stated == "input_limit") != rebuilt.next_request_over_limit:
        expected = "input_limit" if rebuilt.next_request_over_limit else "not input_limit"
        return [_whole("stop_category", expected, stated)]
    return []


def _compare_events(stated: EpisodeRecord, rebuilt: Rebuilt) -> list[Difference]:
    found: list[Difference] = []
    pairs: Iterable[tuple[Any, Any]] = zip_longest(rebuilt.played.events, stated.events)
    for sequence, (expected, actual) in enumerate(pairs, start=1):
        if expected is None or actual is None:
            want = expected.tool if expected else NO_EVENT
            found.append(Difference(sequence, "event", want, actual.tool if actual else NO_EVENT))
        else:
            found.extend(compare_event(expected, actual))
    origins = [{"sequence": sequence, "origin": str(origin)} for sequence, origin in rebuilt.origins]
    return [*found, *_compare_origins(origins, stated.members["origins"])]


def _compare_origins(expected: list[Any], stated: list[Any]) -> list[Difference]:
    found = []
    for want, got in zip_longest(expected, stated):
        if not same(want, got):
            found.append(Difference(want["sequence"] if want else WHOLE_TRACE, "origin", repr(want), repr(got)))
    return found


def _differing(pairs: Iterable[tuple[str, Any, Any]]) -> list[Difference]:
    return [_whole(name, str(want), str(got)) for name, want, got in pairs if not same(want, got)]


def _whole(field: str, expected: str, actual: str) -> Difference:
    return Difference(WHOLE_TRACE, field, expected, actual)


def _text_or_none(value: object) -> str | None:
    return None if value is None else str(value)
