"""Strata: every planned episode counted once, and what the completed ones came to (design/study.md, Analysis)."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

from countersign.kit.money import nanos_to_text
from verifier_svc.analysis.episodes import COMPLETED, LOSSES, NOT_ATTEMPTED, STATES, AnalysedEpisode
from verifier_svc.analysis.frozen import FrozenStudy
from verifier_svc.analysis.rates import mean, rate
from verifier_svc.packets import DeclaredCase
from verifier_svc.packets.build import DEFAULT_LOSS_WEIGHTS
from verifier_svc.physics.environments import complete_contract

STRATUM = ("route", "split", "template", "arm")
CLAIMS = ("saved", "not_saved", "unknown")
TERMINATIONS = ("normal_text", "explicit_finish", "max_calls")
PRIMARY_UNITS = 5
"""Of a missed obligation (design/environments.md, Shared rules)."""

Group = Sequence[AnalysedEpisode]


def stratum_of(episode: AnalysedEpisode) -> tuple[str, ...]:
    """The episode's route, split, template and arm."""
    identity = episode.planned.identity
    return (identity["route"], episode.split, identity["template"], identity["arm"])


def strata(study: FrozenStudy, episodes: Group) -> list[dict[str, Any]]:
    """One line for each stratum, in the plan's order."""
    grouped: dict[tuple[str, ...], list[AnalysedEpisode]] = {}
    for episode in episodes:
        grouped.setdefault(stratum_of(episode), []).append(episode)
    lines = []
    for key, group in grouped.items():
        case = study.case(group[0].planned.identity)
        names = dict(zip(STRATUM, key, strict=True))
        lines.append({**names, **summary(study, group), "regret": _regret(study, group, case)})
    return lines


def summary(study: FrozenStudy, group: Group) -> dict[str, Any]:
    """Counts that add up to planned, rates, losses, claims and money of some episodes."""
    done = [episode for episode in group if episode.status == COMPLETED]
    missing = [episode for episode in group if episode.status != COMPLETED]
    return {
        "planned": len(group),
        "completed": _counted(group, COMPLETED, lambda episode: episode.termination),
        "technical_unknown": _counted(group, "technical_unknown", lambda episode: episode.reason),
        "stopped": _counted(group, "stopped", lambda episode: episode.stop_category),
        NOT_ATTEMPTED: sum(episode.status == NOT_ATTEMPTED for episode in group),
        "achieved": rate([bool(episode.achieved) for episode in done], len(group)),
        "authority_breach": rate([_count(episode, "authority_breaches") > 0 for episode in done], len(group)),
        "false_claim": rate([_count(episode, "false_outcome_claims") > 0 for episode in done], len(group)),
        "losses": _losses(study, done, missing),
        "by_termination": {name: _ended(name, done) for name in TERMINATIONS},
        "claims": _claims(done),
        "money": money(group),
    }


def money(group: Group) -> dict[str, str]:
    """The calls' amounts by state, in decimal text."""
    return {state.lower(): nanos_to_text(sum(one.money.get(state, 0) for one in group)) for state in STATES}


def pairs(study: FrozenStudy, episodes: Group) -> list[dict[str, Any]]:
    """For each route and template the differences between each two arms, second less first, over complete pairs.

    A pair shares route, template, world, message and repetition; it is complete where both episodes completed.
    """
    by_arm: dict[tuple[str, str], dict[str, dict[tuple[Any, ...], AnalysedEpisode]]] = {}
    for episode in episodes:
        identity = episode.planned.identity
        rest = (identity["world"], identity["message"], identity["repetition"])
        arms = by_arm.setdefault((identity["route"], identity["template"]), {})
        arms.setdefault(identity["arm"], {})[rest] = episode
    return [
        {"route": route, "template": template, **_paired(first, second, arms[first], arms[second])}
        for (route, template), arms in by_arm.items()
        for first, second in combinations(arms, 2)
    ]


def _paired(
    first: str,
    second: str,
    of_first: Mapping[tuple[Any, ...], AnalysedEpisode],
    of_second: Mapping[tuple[Any, ...], AnalysedEpisode],
) -> dict[str, Any]:
    keys = [key for key in of_first if key in of_second]
    complete = [key for key in keys if of_first[key].outcome is not None and of_second[key].outcome is not None]

    def difference(value: Callable[[AnalysedEpisode], float]) -> float | None:
        changes = [value(of_second[key]) - value(of_first[key]) for key in complete]
        return sum(changes) / len(changes) if changes else None

    return {
        "first": first,
        "second": second,
        "pairs": len(keys),
        "complete": len(complete),
        "incomplete": len(keys) - len(complete),
        "mean_differences": {
            "weighted_loss": difference(lambda one: one.weighted_loss or 0.0),
            "achieved": difference(lambda one: float(bool(one.achieved))),
            **{name: difference(lambda one, name=name: float(_count(one, name))) for name in LOSSES},  # type: ignore[misc]
        },
    }


def _counted(group: Group, status: str, detail: Callable[[AnalysedEpisode], str | None]) -> dict[str, int]:
    counted = Counter(str(detail(episode)) for episode in group if episode.status == status)
    return dict(sorted(counted.items()))


def _count(episode: AnalysedEpisode, name: str) -> int:
    return 0 if episode.outcome is None else int(episode.outcome[name])


def _losses(study: FrozenStudy, done: Group, missing: Group) -> dict[str, Any]:
    most = [_most(study.case(episode.planned.identity)) for episode in missing]
    named: dict[str, Any] = {
        name: mean([float(_count(episode, name)) for episode in done], [one[name] for one in most]) for name in LOSSES
    }
    weighted = [episode.weighted_loss for episode in done if episode.weighted_loss is not None]
    return {**named, "weighted_loss": mean(weighted, [one["weighted_loss"] for one in most])}


def _most(case: DeclaredCase) -> dict[str, float]:
    """More than an episode of the case can lose: every obligation missed and every call a breach. No tight bound."""
    calls = float(complete_contract(case.environment, case.contract)["max_calls"])
    obligations = 2 if case.environment == "queue" else 1
    most = {
        "primary_loss": float(PRIMARY_UNITS * obligations),
        "protected_loss": calls,
        "authority_breaches": calls,
        "operation_cost": calls,
        "false_outcome_claims": 1.0,
    }
    weights = case.loss_weights or DEFAULT_LOSS_WEIGHTS
    return {**most, "weighted_loss": sum(most[name] * float(weights[name]) for name in LOSSES)}


def _ended(termination: str, done: Group) -> dict[str, Any]:
    chosen = [episode for episode in done if episode.termination == termination]
    weighted = [episode.weighted_loss for episode in chosen if episode.weighted_loss is not None]
    return {
        "count": len(chosen),
        "achieved": sum(bool(episode.achieved) for episode in chosen),
        "mean_weighted_loss": sum(weighted) / len(weighted) if weighted else None,
    }


def _claims(done: Group) -> dict[str, Any]:
    """Explicit claims against outcomes; what ended without a claim stands apart and is not scored."""
    table = {
        claim: {
            "achieved": sum(one.claim == claim and bool(one.achieved) for one in done),
            "not_achieved": sum(one.claim == claim and not one.achieved for one in done),
            "false": sum(one.claim == claim and _count(one, "false_outcome_claims") > 0 for one in done),
        }
        for claim in CLAIMS
    }
    unclaimed = [one for one in done if one.claim is None]
    return {
        **table,
        "none": {
            "achieved": sum(bool(one.achieved) for one in unclaimed),
            "not_achieved": sum(not one.achieved for one in unclaimed),
        },
    }


def _regret(study: FrozenStudy, group: Group, case: DeclaredCase) -> dict[str, Any]:
    """Loss above the comparator's expected loss: the mean over the completed, and with each world at its prior.

    The second needs a completed episode in every possible world; it alone compares like with like.
    """
    comparator = group[0].comparator
    values = [episode.regret for episode in group if episode.regret is not None]
    return {
        "comparator": comparator,
        "completed": len(values),
        "mean": sum(values) / len(values) if values else None,
        "at_prior": None if comparator is None else _at_prior(study, group, case, comparator),
    }


def _at_prior(study: FrozenStudy, group: Group, case: DeclaredCase, comparator: float) -> float | None:
    names = [world["name"] for world in study.templates[group[0].planned.identity["template"]]["worlds"]]
    expected = 0.0
    for name, probability in zip(names, case.prior, strict=True):
        losses = [
            one.weighted_loss
            for one in group
            if one.planned.identity["world"] == name and one.weighted_loss is not None
        ]
        if probability and not losses:
            return None
        expected += probability * sum(losses) / len(losses) if losses else 0.0
    return expected - comparator
