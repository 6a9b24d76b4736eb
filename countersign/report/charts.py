"""The report's charts: altair specifications drawn to static SVG, without a script or a request.

A mark's colour is fixed; every text and line takes the page's own colour, so that one drawing serves light and dark.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import vl_convert

_INK = "#010203"
"""Stands for the page's colour of text until the drawing is done."""
_RULE = "#040506"
"""Stands for the page's colour of lines."""

OUTCOME_COLOURS = {
    "explicit finish": "#2f9e73",
    "normal text": "#4c8bd6",
    "max calls": "#8a7fd1",
    "technical unknown": "#e0912f",
    "stopped": "#d3564f",
    "not attempted": "#9aa3ad",
}
"""How an episode can stand, in the order of the bars."""

_HEIGHT_OF_BAR = 22
MAX_BARS = 30
"""With more strata than that, a chart shows routes: the tables have every stratum."""


def coverage_chart(strata: Sequence[Mapping[str, Any]]) -> str:
    """Every planned episode by how it stands, a bar for each stratum or, where they are many, for each route."""
    bars = _bars(strata)
    rows = [
        {"stratum": name, "standing": standing, "episodes": count, "order": order}
        for name, counts in bars.items()
        for order, (standing, count) in enumerate(counts.items())
        if count
    ]
    names = list(OUTCOME_COLOURS)
    most = max((sum(counts.values()) for counts in bars.values()), default=1)
    axis = alt.Axis(tickCount=min(most, 10), format="d")
    chart = (
        alt.Chart({"values": rows})
        .mark_bar()
        .encode(
            y=alt.Y("stratum:N", sort=None, title=None),
            x=alt.X("episodes:Q", title="planned episodes", stack="zero", axis=axis),
            color=alt.Color(
                "standing:N",
                sort=names,
                scale=alt.Scale(domain=names, range=list(OUTCOME_COLOURS.values())),
                legend=alt.Legend(title=None, orient="top", columns=3),
            ),
            order=alt.Order("order:Q"),
        )
    )
    return _drawn(chart, len(bars))


def loss_chart(strata: Sequence[Mapping[str, Any]]) -> str:
    """The mean weighted loss of the completed, and the exact comparator's expected loss where it was solved."""
    rows = []
    for line in strata:
        loss = line["losses"]["weighted_loss"]
        if loss["mean"] is not None:
            rows.append({"stratum": stratum_name(line), "loss": loss["mean"], "of": "mean of completed"})
        if line["regret"]["comparator"] is not None:
            rows.append({"stratum": stratum_name(line), "loss": line["regret"]["comparator"], "of": "best possible"})
    order = [stratum_name(line) for line in strata]
    chart = (
        alt.Chart({"values": rows})
        .mark_point(filled=True, size=70, opacity=1)
        .encode(
            y=alt.Y("stratum:N", sort=order, title=None, scale=alt.Scale(domain=order)),
            x=alt.X("loss:Q", title="weighted loss", scale=alt.Scale(zero=True)),
            color=alt.Color(
                "of:N",
                scale=alt.Scale(domain=["mean of completed", "best possible"], range=["#4c8bd6", "#2f9e73"]),
                legend=alt.Legend(title=None, orient="top"),
            ),
            shape=alt.Shape(
                "of:N",
                scale=alt.Scale(domain=["mean of completed", "best possible"], range=["circle", "diamond"]),
                legend=None,
            ),
        )
    )
    return _drawn(chart, len(strata))


def stratum_name(line: Mapping[str, Any]) -> str:
    """A stratum in one line."""
    return " / ".join(str(line[name]) for name in ("route", "template", "arm"))


def _bars(strata: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    by_route = len(strata) > MAX_BARS
    bars: dict[str, dict[str, int]] = {}
    for line in strata:
        bar = bars.setdefault(str(line["route"]) if by_route else stratum_name(line), dict.fromkeys(OUTCOME_COLOURS, 0))
        for standing, count in _standing(line).items():
            bar[standing] += count
    return bars


def _standing(line: Mapping[str, Any]) -> dict[str, int]:
    completed = line["completed"]
    return {
        "explicit finish": completed.get("explicit_finish", 0),
        "normal text": completed.get("normal_text", 0),
        "max calls": completed.get("max_calls", 0),
        "technical unknown": sum(line["technical_unknown"].values()),
        "stopped": sum(line["stopped"].values()),
        "not attempted": line["not_attempted"],
    }


def _drawn(chart: alt.Chart, bars: int) -> str:
    sized = chart.properties(width=420, height=max(60, bars * _HEIGHT_OF_BAR), background="transparent")
    styled = (
        sized.configure_axis(
            labelColor=_INK, titleColor=_INK, gridColor=_RULE, tickColor=_RULE, domainColor=_RULE, labelLimit=320,
            labelFontSize=12, titleFontSize=12, labelFont="sans-serif", titleFont="sans-serif",
        )
        .configure_legend(labelColor=_INK, labelFontSize=12, labelFont="sans-serif")
        .configure_view(stroke=None)
    )  # fmt: skip
    svg: str = vl_convert.vegalite_to_svg(styled.to_json())
    return svg.replace(_INK, "currentColor").replace(_RULE, "var(--rule)")
