"""Rates and means with their coverage and worst-case bounds; nothing is imputed (design/study.md, Analysis)."""

from collections.abc import Sequence
from typing import Any


def rate(holds: Sequence[bool], planned: int) -> dict[str, Any]:
    """How often something holds among the completed; the bounds count every planned episode without an outcome as one
    where it does not, and where it does. Without any outcome there is no rate.
    """
    count, completed = sum(holds), len(holds)
    return {
        "count": count,
        "completed": completed,
        "planned": planned,
        "rate": count / completed if completed else None,
        "lower_bound": count / planned if planned else None,
        "upper_bound": (count + planned - completed) / planned if planned else None,
    }


def mean(values: Sequence[float], most_when_missing: Sequence[float]) -> dict[str, Any]:
    """The mean over the completed; `most_when_missing` has the largest possible value of each planned episode without
    an outcome, whose smallest is 0.
    """
    completed, planned = len(values), len(values) + len(most_when_missing)
    total = sum(values)
    return {
        "completed": completed,
        "planned": planned,
        "mean": total / completed if completed else None,
        "lower_bound": total / planned if planned else None,
        "upper_bound": (total + sum(most_when_missing)) / planned if planned else None,
    }
