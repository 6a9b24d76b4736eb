"""A whole study from receipts and records: every figure recomputed, every contradiction named (design/study.md)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from countersign.kit.money import nanos_to_text
from verifier_svc.analysis.episodes import STATES, AnalysedEpisode, Error, Fault
from verifier_svc.analysis.frozen import FrozenStudy
from verifier_svc.analysis.strata import money, pairs, strata, summary
from verifier_svc.episode import InvalidRecord
from verifier_svc.episode.record import read_record

SCHEMA = "countersign.analysis/1"
LIMITS = (
    "Descriptive figures of a finite suite; no inference beyond the planned episodes.",
    "Provider identities are self-reported.",
    "No intent is inferred from any answer; the truth of prose was not measured.",
    "Means and rates are over completed episodes only; nothing is imputed.",
    "Bounds count every missing episode as the worst, and as the best, that it can be.",
    "A mean regret compares with an expected loss; only the figure at the prior compares like with like.",
)
"""What the figures do not say."""


@dataclass(frozen=True, slots=True)
class SortedRecords:
    """The records' numbers, from 0, by planned episode, and what is wrong with the rest."""

    by_episode: Mapping[str, Sequence[int]]
    errors: tuple[Error, ...]


def sort_records(study: FrozenStudy, records: Iterable[bytes]) -> SortedRecords:
    """Every record to its planned episode; one that cannot be read, or was not planned, is an error."""
    planned = {episode.episode_id for episode in study.episodes}
    by_episode: dict[str, list[int]] = {}
    errors = []
    for number, record in enumerate(records):
        try:
            episode_id = str(read_record(record).members["episode_id"])
        except InvalidRecord as fault:
            errors.append(Error(Fault.INVALID_RECORD, "", f"record {number}: {fault.message}"))
            continue
        if episode_id in planned:
            by_episode.setdefault(episode_id, []).append(number)
        else:
            errors.append(Error(Fault.EXTRA_RECORD, episode_id, "it was not planned"))
    return SortedRecords(by_episode, tuple(errors))


def stray_calls(known: Mapping[str, int], episodes: Sequence[AnalysedEpisode]) -> list[Error]:
    """An error for each episode of which the ledger knows more calls than were analysed.

    It was not planned, or it has calls after a turn that has none: whoever reads turn by turn never comes to them.
    """
    analysed = {episode.planned.episode_id: episode.calls for episode in episodes}
    found = []
    for episode_id, calls in known.items():
        if episode_id not in analysed:
            detail = f"the ledger has {calls} calls of it, and it was not planned"
        elif calls > analysed[episode_id]:
            detail = f"the ledger has {calls} calls of it, and {analysed[episode_id]} in turns without a gap"
        else:
            continue
        found.append(Error(Fault.STRAY_CALL, episode_id, detail))
    return found


def analyse(
    study: FrozenStudy,
    episodes: Sequence[AnalysedEpisode],
    balances: Mapping[str, int],
    errors: Sequence[Error],
) -> dict[str, Any]:
    """The analysis. `balances` is the ledger's own sum of the study in nano-units, by state; `errors` those that are
    no planned episode's.
    """
    found = [*errors, *(error for episode in episodes for error in episode.errors)]
    found += _money_errors(episodes, balances)
    return {
        "schema": SCHEMA,
        "study_id": study.study_id,
        "manifest_digest": study.digest,
        "amendments": list(study.amendments),
        "agrees": not found,
        "errors": [error.to_json() for error in found],
        "strata": strata(study, episodes),
        "total": summary(study, episodes),
        "pairs": pairs(study, episodes),
        "money": {
            "currency": study.currency,
            "total": money(episodes),
            "ledger": {state.lower(): nanos_to_text(balances[state]) for state in STATES},
            "calls": sum(episode.calls for episode in episodes),
            "by_route": _money_by(episodes, "route"),
            "by_arm": _money_by(episodes, "arm"),
        },
        "limits": list(LIMITS),
    }


def _money_errors(episodes: Sequence[AnalysedEpisode], balances: Mapping[str, int]) -> list[Error]:
    found = []
    for state in STATES:
        summed = sum(episode.money.get(state, 0) for episode in episodes)
        if summed != balances[state]:
            detail = f"{state}: the episodes' calls sum to {nanos_to_text(summed)}, the ledger says"
            found.append(Error(Fault.MONEY_DIFFERS, "", f"{detail} {nanos_to_text(balances[state])}"))
    return found


def _money_by(episodes: Sequence[AnalysedEpisode], key: str) -> dict[str, Any]:
    names = dict.fromkeys(episode.planned.identity[key] for episode in episodes)
    return {name: money([one for one in episodes if one.planned.identity[key] == name]) for name in names}
