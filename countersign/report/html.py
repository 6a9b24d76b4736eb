"""The report as one HTML file: no script, no request, light and dark, readable by keyboard and screen reader."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from countersign.kit.printable import printable_lines
from countersign.kit.wording import load_wording
from countersign.report.charts import coverage_chart, loss_chart, stratum_name
from countersign.report.timeline import draw
from countersign.report.views import Episode
from countersign.study.analysing import ShownPacket

MAX_TIMELINES = 2_000
"""More episodes than that are listed without their timelines; the exported files have them all."""


def render(
    manifest: Mapping[str, Any],
    analysis: Mapping[str, Any],
    episodes: Sequence[Episode],
    journal: str,
    packets: Sequence[ShownPacket] = (),
    *,
    texts: bool = False,
    left_out: int = 0,
) -> str:
    """The whole page. `journal` says in words whether the ledger's journal was verified.

    `packets` are what the model was told first, in each case; `texts` says that what the model wrote was asked for;
    `left_out` is how many more episodes there are than `episodes`.
    """
    environment = Environment(
        loader=PackageLoader("countersign.report", "pages"),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": _number,
        "percent": _percent,
        "bounds": _bounds,
        "counts": _counts,
        "words": _words,
        "pretty": _pretty,
    }
    return environment.get_template("report.html.j2").render(
        manifest=manifest,
        analysis=analysis,
        total=analysis["total"],
        style=Markup(environment.get_template("report.css").render()),  # noqa: S704 - our own style sheet
        coverage=Markup(coverage_chart(analysis["strata"])),  # noqa: S704 - drawn here, its texts escaped by the renderer
        losses=Markup(loss_chart(analysis["strata"])),  # noqa: S704 - as above
        groups=_grouped(episodes),
        left_out=left_out,
        timeline=lambda episode: Markup(draw(episode)),  # noqa: S704 - our own drawing, its texts escaped
        stratum_name=stratum_name,
        journal=journal,
        texts=texts,
        packets=packets,
        system_message=load_wording().document["system_message"],
    )


def _grouped(episodes: Sequence[Episode]) -> list[tuple[str, list[Episode]]]:
    groups: dict[str, list[Episode]] = {}
    for episode in episodes:
        groups.setdefault(stratum_name(episode.names), []).append(episode)
    return list(groups.items())


def _words(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_words(member)}" for name, member in value.items())
    return "never" if value is None else str(value).replace("_", " ")


def _pretty(packet: Mapping[str, Any]) -> str:
    """A packet as indented JSON; what would steer a page or a terminal is escaped."""
    return printable_lines(json.dumps(packet, indent=2, ensure_ascii=False))


def _number(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


def _bounds(rate: Mapping[str, Any]) -> str:
    return f"{_percent(rate['lower_bound'])} to {_percent(rate['upper_bound'])}"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items()) or "0"
