"""An episode's timeline as a static drawing: ticks, deadlines, evidence, actions, settlement.

The drawing repeats what the table beside it says in words, so it is hidden from screen readers. Colours are classes of
the page's style sheet, so that it is legible on light and dark.
"""

from html import escape

from countersign.report.views import Episode, Report, Step

WIDTH = 720
_LEFT, _RIGHT, _TOP = 84, 24, 26
_LANE = 24
_DOT = 7


def draw(episode: Episode) -> str:
    """The timeline as one SVG element; empty where the episode has no event."""
    if not episode.steps:
        return ""
    outcome = episode.line["outcome"] or {}
    reports = episode.reports
    last = max(
        [step.end for step in episode.steps]
        + [report.due for report in reports]
        + [deadline + 1 for deadline in episode.deadlines.values()]
        + [outcome.get("settlement_tick", 0)]
    )
    scale = _Scale(last)
    floor = _TOP + _LANE * (len(reports) + 2)
    parts = [
        *_ticks(scale, last, floor),
        *(part for name, tick in episode.deadlines.items() for part in _deadline(scale, name, tick, floor)),
        *(part for lane, report in enumerate(reports) for part in _report(scale, lane, report)),
        *(part for step in episode.steps for part in _action(scale, step, floor - _LANE)),
        *_settlement(scale, outcome.get("settlement_tick"), floor),
    ]
    return (
        f'<svg class="timeline" viewBox="0 0 {WIDTH} {floor + 22}" role="presentation" aria-hidden="true"'
        f' preserveAspectRatio="xMinYMin meet">{"".join(parts)}</svg>'
    )


class _Scale:
    """Where a tick stands, in the drawing's own units."""

    def __init__(self, last: int) -> None:
        self._step = (WIDTH - _LEFT - _RIGHT) / max(last, 1)

    def x(self, tick: int) -> float:
        return round(_LEFT + tick * self._step, 1)


def _ticks(scale: _Scale, last: int, floor: int) -> list[str]:
    stride = max(1, last // 20)
    lines = [_line("axis", _LEFT, floor, WIDTH - _RIGHT, floor)]
    for tick in range(0, last + 1, stride):
        lines.append(_line("tick", scale.x(tick), _TOP - 8, scale.x(tick), floor + 4))
        lines.append(_text("number", scale.x(tick), floor + 17, str(tick), "middle"))
    lines.append(_text("number", 4, floor + 17, "tick", "start"))
    return lines


def _deadline(scale: _Scale, name: str, tick: int, floor: int) -> list[str]:
    x = scale.x(tick)
    return [_line("deadline", x, _TOP - 10, x, floor), _text("deadline-name", x, _TOP - 13, name, "middle")]


def _report(scale: _Scale, lane: int, report: Report) -> list[str]:
    y = _TOP + _LANE * lane + 10
    start, end = scale.x(report.requested), scale.x(report.due)
    kind = "evidence" if report.delivered is not None else "pending"
    label = f"{report.id} {report.says}"
    return [
        _text("lane", 4, y + 4, report.source, "start"),
        _line(kind, start, y, end, y),
        f'<circle class="{kind}-end" cx="{end}" cy="{y}" r="4"/>',
        _text("says", start, y - 6, label, "start"),
    ]


def _action(scale: _Scale, step: Step, y: int) -> list[str]:
    x = scale.x(step.end)
    kind = "breach" if step.is_breach else "authorized" if step.is_authorized else step.by
    return [
        f'<circle class="action {kind}" cx="{x}" cy="{y}" r="{_DOT}"><title>{escape(step.name)}</title></circle>',
        _text("action-number", x, y + 3.5, str(step.sequence), "middle"),
    ]


def _settlement(scale: _Scale, tick: int | None, floor: int) -> list[str]:
    lane = _text("lane", 4, floor - _LANE + 4, "actions", "start")
    if tick is None:
        return [lane]
    x = scale.x(tick)
    return [lane, f'<rect class="settled" x="{x - 4}" y="{floor - 4}" width="8" height="8"/>']


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>'


def _text(kind: str, x: float, y: float, words: str, anchor: str) -> str:
    return f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">{escape(words)}</text>'
