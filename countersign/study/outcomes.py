"""What completed episodes came to: mean losses and the saved rate, with their coverage (design/study.md, Analysis)."""

from collections.abc import Mapping, Sequence
from typing import Any

from countersign.study.fields import LOSSES

Weights = Mapping[str, float]


def is_saved(record: Mapping[str, Any]) -> bool:
    """What a claim `saved` is judged against: the event world's `saved`; for the queue, every needed job saved."""
    saved = record["outcome"]["saved"]
    if not isinstance(saved, Mapping):
        return bool(saved)
    return all(saved[job] for job in saved if record["world"][f"need_{job}"])


def weighted_loss(outcome: Mapping[str, Any], weights: Weights) -> float:
    """The dot product of the five counts and their weights."""
    return sum(float(outcome[name]) * float(weights[name]) for name in LOSSES)


def summarise(completed: Sequence[tuple[Mapping[str, Any], Weights]], planned: int) -> dict[str, Any]:
    """Means over the completed records and nothing else; `coverage` says of how many planned.

    The saved rate comes with its worst-case bounds: every planned episode without an outcome counted as not saved, and
    as saved. Without any outcome there is no mean and no rate.
    """
    count = len(completed)
    saved = sum(is_saved(record) for record, _ in completed)
    missing = planned - count
    return {
        "coverage": {"completed": count, "planned": planned},
        "mean_losses": _means(completed) if count else None,
        "saved": {
            "count": saved,
            "rate": saved / count if count else None,
            "lower_bound": saved / planned if planned else None,
            "upper_bound": (saved + missing) / planned if planned else None,
        },
    }


def _means(completed: Sequence[tuple[Mapping[str, Any], Weights]]) -> dict[str, float]:
    outcomes = [record["outcome"] for record, _ in completed]
    means = {name: sum(outcome[name] for outcome in outcomes) / len(outcomes) for name in LOSSES}
    weighted = sum(weighted_loss(record["outcome"], weights) for record, weights in completed)
    return {**means, "weighted_loss": weighted / len(completed)}
