"""One planned episode as its receipts tell it, beside what its record says (design/study.md, Analysis)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from countersign.kit.money import nanos_to_text
from verifier_svc.analysis.frozen import FrozenStudy, PlannedEpisode
from verifier_svc.episode import EpisodeFacts, EpisodeVerdict, InvalidRecord, StoredCall, verify_episode
from verifier_svc.episode.record import read_record
from verifier_svc.packets.build import DEFAULT_LOSS_WEIGHTS
from verifier_svc.receipts.said import said

NOT_ATTEMPTED = "not_attempted"
COMPLETED = "completed"
STATES = ("CHARGED", "RESERVED", "HELD", "RESOLVED")
LOSSES = tuple(DEFAULT_LOSS_WEIGHTS)
MAX_SHOWN_DIFFERENCES = 20
_SHOWN_CHARACTERS = 400


class Fault(StrEnum):
    """Why an analysis is not what the records say: each is an error that names its episode."""

    DIFFERS = "DIFFERS"
    """The record is not what its receipts give."""
    INVALID_RECORD = "INVALID_RECORD"
    """The record is not of the documented form."""
    MISSING_RECORD = "MISSING_RECORD"
    """The ledger has calls of a planned episode that no record tells of."""
    DUPLICATE_RECORD = "DUPLICATE_RECORD"
    """Two records are of the same episode."""
    EXTRA_RECORD = "EXTRA_RECORD"
    """A record is of an episode that was not planned."""
    STRAY_CALL = "STRAY_CALL"
    """The ledger has a call of an episode that was not planned, or after a turn that has none."""
    MONEY_DIFFERS = "MONEY_DIFFERS"
    """The ledger's balance of the study is not the sum of its calls."""


@dataclass(frozen=True, slots=True)
class Error:
    """One error; `episode_id` is empty where it is no episode's, `sequence` 0 where it is no event's."""

    fault: Fault
    episode_id: str
    detail: str
    sequence: int = 0

    def to_json(self) -> dict[str, Any]:
        """The error as the analysis holds it."""
        return {
            "fault": self.fault.value,
            "episode_id": self.episode_id,
            "sequence": self.sequence,
            "detail": self.detail,
        }


@dataclass(frozen=True, slots=True)
class AnalysedEpisode:
    """One planned episode; all of it but `stop_category` is recomputed. `money` is in nano-units by state.

    `said` is no part of the episode's line: what the model wrote is told only to those who ask for it.
    """

    planned: PlannedEpisode
    split: str
    status: str
    termination: str | None = None
    reason: str | None = None
    stop_category: str | None = None
    outcome: Mapping[str, Any] | None = None
    weighted_loss: float | None = None
    achieved: bool | None = None
    claim: str | None = None
    comparator: float | None = None
    calls: int = 0
    money: Mapping[str, int] = field(default_factory=dict)
    errors: tuple[Error, ...] = ()
    said: tuple[tuple[int, str], ...] = ()

    @property
    def regret(self) -> float | None:
        """The loss above the exact comparator's expected loss; never against hindsight."""
        if self.weighted_loss is None or self.comparator is None:
            return None
        return self.weighted_loss - self.comparator

    def to_json(self) -> dict[str, Any]:
        """The episode's line (docs/formats.md, Analysis)."""
        return {
            "episode_id": self.planned.episode_id,
            "identity": dict(self.planned.identity),
            "split": self.split,
            "status": self.status,
            "termination": self.termination,
            "reason": self.reason,
            "stop_category": self.stop_category,
            "outcome": None if self.outcome is None else dict(self.outcome),
            "weighted_loss": self.weighted_loss,
            "achieved": self.achieved,
            "claim": self.claim,
            "comparator": self.comparator,
            "regret": self.regret,
            "calls": self.calls,
            "money": {state.lower(): nanos_to_text(self.money.get(state, 0)) for state in STATES},
            "errors": [error.to_json() for error in self.errors],
        }


def analyse_episode(
    study: FrozenStudy,
    planned: PlannedEpisode,
    records: Sequence[bytes],
    stored: Sequence[StoredCall],
    facts: EpisodeFacts,
    comparator: float | None,
    *,
    with_texts: bool = False,
) -> AnalysedEpisode:
    """Rebuild one episode from its stored calls and compare it with its record; `with_texts` gives what was said.

    Without a record it was not attempted; calls without a record are an error, and so are two records.
    """
    split = study.split(planned)
    money = {state: sum(call.accounted_nanos for call in stored if call.state == state) for state in STATES}
    known = AnalysedEpisode(planned, split, NOT_ATTEMPTED, calls=len(stored), money=money, comparator=comparator)
    if not records:
        return replace(known, errors=_unrecorded(planned, stored))
    try:
        stated = read_record(records[0]).members
        verdict = verify_episode(records[0], facts, stored)
    except InvalidRecord as fault:
        error = Error(Fault.INVALID_RECORD, planned.episode_id, fault.message)
        return replace(known, errors=(error,))
    duplicates = tuple(Error(Fault.DUPLICATE_RECORD, planned.episode_id, "recorded twice") for _ in records[1:])
    return replace(
        known,
        status=verdict.status.value,
        termination=None if verdict.termination is None else verdict.termination.value,
        reason=None if verdict.reason is None else verdict.reason.value,
        stop_category=stated["stop_category"] if verdict.status == "stopped" else None,
        outcome=verdict.outcome,
        weighted_loss=_weighted_loss(verdict.outcome, facts),
        achieved=_achieved(verdict.outcome, facts),
        claim=_claim(stated, verdict),
        said=_said(verdict, facts) if with_texts else (),
        errors=(*duplicates, *_differences(planned, verdict)),
    )


def _said(verdict: EpisodeVerdict, facts: EpisodeFacts) -> tuple[tuple[int, str], ...]:
    texts = ((turn, said(facts.route.request.wire_format, one)) for turn, one in verdict.decoded.items())
    return tuple((turn, text) for turn, text in texts if text)


def _unrecorded(planned: PlannedEpisode, stored: Sequence[StoredCall]) -> tuple[Error, ...]:
    if not stored:
        return ()
    return (Error(Fault.MISSING_RECORD, planned.episode_id, f"the ledger has {len(stored)} calls of it"),)


def _differences(planned: PlannedEpisode, verdict: EpisodeVerdict) -> tuple[Error, ...]:
    shown = verdict.differences[:MAX_SHOWN_DIFFERENCES]
    found = [
        Error(
            Fault.DIFFERS,
            planned.episode_id,
            f"{one.field}: {one.expected[:_SHOWN_CHARACTERS]} recomputed, {one.actual[:_SHOWN_CHARACTERS]} recorded",
            one.sequence,
        )
        for one in shown
    ]
    left = len(verdict.differences) - len(shown)
    if left:
        found.append(Error(Fault.DIFFERS, planned.episode_id, f"and {left} further differences"))
    return tuple(found)


def _weighted_loss(outcome: Mapping[str, Any] | None, facts: EpisodeFacts) -> float | None:
    if outcome is None:
        return None
    weights = facts.case.loss_weights or DEFAULT_LOSS_WEIGHTS
    return sum(float(outcome[name]) * float(weights[name]) for name in LOSSES)


def _achieved(outcome: Mapping[str, Any] | None, facts: EpisodeFacts) -> bool | None:
    """What a claim `saved` is judged against: `saved`; for the queue, every needed job saved."""
    if outcome is None:
        return None
    saved = outcome["saved"]
    if not isinstance(saved, Mapping):
        return bool(saved)
    return all(saved[job] for job in saved if facts.world[f"need_{job}"])


def _claim(stated: Mapping[str, Any], verdict: EpisodeVerdict) -> str | None:
    """The claim of an explicit finish; the events agree with the receipts, or the episode has an error anyway."""
    if verdict.termination != "explicit_finish" or not stated["events"]:
        return None
    claim = stated["events"][-1]["claim"]
    return None if claim is None else str(claim)
