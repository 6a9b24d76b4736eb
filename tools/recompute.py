"""Recompute every figure of a report from its exported rows and the frozen manifest, with nothing but Python.

    python tools/recompute.py report.csv runs/calibration/manifest.json [amendment.json ...] [--against report.json]

Writes strata, total, pairs and money as JSON, in the form of the analysis (docs/formats.md, Analysis). With --against
it names instead every figure of the exported analysis that is another one, and ends with status 1 if there is any.
"""

import argparse
import csv
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import combinations
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]
Figures = dict[str, Any]

LOSSES = ("primary_loss", "protected_loss", "authority_breaches", "operation_cost", "false_outcome_claims")
STATES = ("charged", "reserved", "held", "resolved")
STRATUM = ("route", "split", "template", "arm")
PAIR = ("world", "message", "repetition")
TERMINATIONS = ("normal_text", "explicit_finish", "max_calls")
DETAILS = {"completed": "termination", "technical_unknown": "reason", "stopped": "stop_category"}
MISSED = 5
"""The primary units of a missed obligation."""

TOLERANCE = 1e-9
"""Sums of floats in another order differ by less."""


def read_rows(path: Path) -> list[Row]:
    """The rows with their numbers as numbers; what is empty was not measured and is None."""
    with path.open(encoding="utf-8", newline="") as file:
        return [{name: _value(name, text) for name, text in row.items()} for row in csv.DictReader(file)]


def _value(name: str, text: str) -> Any:
    if text == "":
        return None
    if name in (*LOSSES, "repetition", "calls", "errors"):
        return int(text)
    if name in ("weighted_loss", "comparator", "regret"):
        return float(text)
    if name in STATES:
        return Decimal(text)
    return text == "true" if name == "achieved" else text


def amended(paths: Sequence[Path]) -> dict[str, Any]:
    """The manifest with each amendment's members in place of its own."""
    manifest: dict[str, Any] = json.loads(paths[0].read_text("utf-8"))
    for path in paths[1:]:
        manifest |= json.loads(path.read_text("utf-8"))["replace"]
    return manifest


class Plan:
    """What was frozen of each template before anything ran: how much can be lost, and how likely each world is."""

    def __init__(self, manifest: Mapping[str, Any]) -> None:
        self._templates = {one["name"]: one for one in manifest["templates"]}
        self._cases = {one["template"]: one for one in manifest["cases"]}

    def prior(self, template: str) -> dict[str, float]:
        """Each world's probability."""
        known = self._templates[template]
        return {world["name"]: prior for world, prior in zip(known["worlds"], known["prior"], strict=True)}

    def most(self, template: str) -> dict[str, float]:
        """The largest loss that a missing episode may have: every obligation missed, every call a breach."""
        case = self._cases[template]
        calls = float(case["contract"]["max_calls"])
        obligations = 2 if self._templates[template]["environment"] == "queue" else 1
        values = (MISSED * obligations, calls, calls, calls, 1.0)
        most = dict(zip(LOSSES, values, strict=True))
        return {**most, "weighted_loss": sum(most[name] * case["loss_weights"][name] for name in LOSSES)}


def figures(rows: Sequence[Row], plan: Plan) -> Figures:
    """Every figure of the analysis that is not a text."""
    return {
        "strata": [_stratum(key, group, plan) for key, group in grouped(rows, STRATUM).items()],
        "total": line(rows, plan),
        "pairs": list(_pairs(rows)),
        "money": {
            "total": money(rows),
            "ledger": money(rows),
            "calls": sum(row["calls"] for row in rows),
            "by_route": {key[0]: money(group) for key, group in grouped(rows, ("route",)).items()},
            "by_arm": {key[0]: money(group) for key, group in grouped(rows, ("arm",)).items()},
        },
    }


def grouped(rows: Iterable[Row], names: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    """The rows by the values of some columns, in the order of the first of each."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return groups


def _stratum(key: tuple[Any, ...], group: Sequence[Row], plan: Plan) -> Figures:
    return {**dict(zip(STRATUM, key, strict=True)), **line(group, plan), "regret": regret(group, plan)}


def line(group: Sequence[Row], plan: Plan) -> Figures:
    """Counts, rates with bounds, losses, claims and money of some rows."""
    done = [row for row in group if row["status"] == "completed"]
    return {
        "planned": len(group),
        **{status: _counted(group, status) for status in DETAILS},
        "not_attempted": sum(row["status"] == "not_attempted" for row in group),
        "achieved": rate([row["achieved"] for row in done], len(group)),
        "authority_breach": rate([row["authority_breaches"] > 0 for row in done], len(group)),
        "false_claim": rate([row["false_outcome_claims"] > 0 for row in done], len(group)),
        "losses": {name: _loss(name, group, plan) for name in (*LOSSES, "weighted_loss")},
        "by_termination": {name: _ended([row for row in done if row["termination"] == name]) for name in TERMINATIONS},
        "claims": _claims(done),
        "money": money(group),
    }


def _counted(group: Sequence[Row], status: str) -> dict[str, int]:
    return dict(Counter(row[DETAILS[status]] for row in group if row["status"] == status))


def rate(holds: Sequence[bool], planned: int) -> Figures:
    """How often among the completed; the bounds take every missing episode for a no, and for a yes."""
    count, missing = sum(holds), planned - len(holds)
    return {
        "count": count,
        "completed": len(holds),
        "planned": planned,
        "rate": count / len(holds) if holds else None,
        "lower_bound": count / planned,
        "upper_bound": (count + missing) / planned,
    }


def _loss(name: str, group: Sequence[Row], plan: Plan) -> Figures:
    known = [float(row[name]) for row in group if row["status"] == "completed"]
    worst = sum(plan.most(row["template"])[name] for row in group if row["status"] != "completed")
    return {
        "completed": len(known),
        "planned": len(group),
        "mean": mean(known),
        "lower_bound": sum(known) / len(group),
        "upper_bound": (sum(known) + worst) / len(group),
    }


def mean(values: Sequence[float]) -> float | None:
    """The mean; None of nothing."""
    return sum(values) / len(values) if values else None


def _ended(done: Sequence[Row]) -> Figures:
    achieved = sum(row["achieved"] for row in done)
    return {
        "count": len(done),
        "achieved": achieved,
        "mean_weighted_loss": mean([row["weighted_loss"] for row in done]),
    }


def _claims(done: Sequence[Row]) -> Figures:
    table: Figures = {}
    for claim in ("saved", "not_saved", "unknown", None):
        made = [row for row in done if row["claim"] == claim]
        achieved = sum(row["achieved"] for row in made)
        table[claim or "none"] = {"achieved": achieved, "not_achieved": len(made) - achieved}
        if claim is not None:
            table[claim]["false"] = sum(row["false_outcome_claims"] > 0 for row in made)
    return table


def money(group: Iterable[Row]) -> dict[str, Decimal]:
    """Exact sums by state."""
    rows = list(group)
    return {state: sum((row[state] for row in rows), Decimal(0)) for state in STATES}


def regret(group: Sequence[Row], plan: Plan) -> Figures:
    """Loss above the exact comparator's expected loss: over the completed, and with each world at its prior."""
    comparator = group[0]["comparator"]
    values = [row["regret"] for row in group if row["regret"] is not None]
    at_prior = None if comparator is None else _expected(group, plan.prior(group[0]["template"]))
    return {
        "comparator": comparator,
        "completed": len(values),
        "mean": mean(values),
        "at_prior": None if at_prior is None else at_prior - comparator,
    }


def _expected(group: Sequence[Row], prior: Mapping[str, float]) -> float | None:
    expected = 0.0
    for world, probability in prior.items():
        losses = [row["weighted_loss"] for row in group if row["world"] == world and row["status"] == "completed"]
        if probability and not losses:
            return None
        expected += probability * (mean(losses) or 0.0)
    return expected


def _pairs(rows: Sequence[Row]) -> Iterator[Figures]:
    for (route, template), group in grouped(rows, ("route", "template")).items():
        arms = grouped(group, ("arm",))
        for (first,), (second,) in combinations(arms, 2):
            pairs = _paired(arms[first,], arms[second,])
            complete = [pair for pair in pairs if all(row["status"] == "completed" for row in pair)]
            yield {
                "route": route,
                "template": template,
                "first": first,
                "second": second,
                "pairs": len(pairs),
                "complete": len(complete),
                "incomplete": len(pairs) - len(complete),
                "mean_differences": {
                    name: mean([float(after[name]) - float(before[name]) for before, after in complete])
                    for name in ("weighted_loss", "achieved", *LOSSES)
                },
            }


def _paired(first: Sequence[Row], second: Sequence[Row]) -> list[tuple[Row, Row]]:
    others = {key: group[0] for key, group in grouped(second, PAIR).items()}
    found = {key: group[0] for key, group in grouped(first, PAIR).items()}
    return [(row, others[key]) for key, row in found.items() if key in others]


def differences(expected: Any, actual: Any, where: str = "") -> Iterator[str]:
    """Every place at which the recomputed figures and the stated ones differ."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        for name in dict.fromkeys((*expected, *actual)):
            yield from differences(expected.get(name), actual.get(name), f"{where}.{name}")
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for number, pair in enumerate(zip(expected, actual, strict=True)):
            yield from differences(*pair, f"{where}[{number}]")
    elif not _is_same(expected, actual):
        yield f"{where.lstrip('.')}: recomputed {expected}, stated {actual}"


def _is_same(expected: Any, actual: Any) -> bool:
    if isinstance(expected, Decimal):
        return isinstance(actual, str) and expected == Decimal(actual)
    if isinstance(expected, float) and isinstance(actual, float | int):
        return abs(expected - actual) <= TOLERANCE * max(1.0, abs(expected))
    return bool(expected == actual)


def main(arguments: Sequence[str] | None = None, write: Callable[[str], object] = print) -> int:
    """Recompute, and compare where asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path, help="the exported .csv")
    parser.add_argument("frozen", type=Path, nargs="+", help="the study's manifest, and its amendments in order")
    parser.add_argument("--against", type=Path, help="the exported .json, to be compared")
    given = parser.parse_args(arguments)
    found = figures(read_rows(given.rows), Plan(amended(given.frozen)))
    if given.against is None:
        write(json.dumps(found, indent=2, default=str))
        return 0
    analysis = json.loads(given.against.read_text("utf-8"))["analysis"]
    analysis["money"].pop("currency")
    wrong = list(differences(found, {name: analysis[name] for name in found}))
    for text in wrong:
        write(text)
    write(f"{len(wrong)} figures differ" if wrong else "every figure is the same")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
