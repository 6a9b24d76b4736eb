"""The page: complete, self-contained, safe with hostile names (design/study.md, Report)."""

from html.parser import HTMLParser
from typing import Any

import pytest

from countersign.report import html
from countersign.report.charts import MAX_BARS, coverage_chart
from countersign.report.timeline import draw
from countersign.report.views import episodes_of
from countersign.study.analysing import ShownPacket, VisibleText
from tests.countersign.report.studies import HOSTILE, analysis, line, lines, manifest, record

VOID = {"meta", "link", "br", "hr", "img", "input"}


class Page(HTMLParser):
    """Checks nesting and collects what a page refers to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.tags: set[str] = set()
        self.references: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("src", "href", "xlink:href", "data", "action"):
                self.references.append(value or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, tag


def rendered(*, agrees: bool = True, texts: dict[str, dict[int, VisibleText]] | None = None) -> str:
    episodes = episodes_of(lines(), {f"{1:064x}": record()}, texts or {})
    return html.render(manifest(), analysis(agrees=agrees), episodes, "Verified.", texts=texts is not None)


def test_what_the_model_was_shown_first_is_readable_and_escaped() -> None:
    packet = ShownPacket("window", "neutral", HOSTILE, {"observation": {"tick": 0, "body": HOSTILE + "\u2066"}})
    page = html.render(manifest(), analysis(agrees=True), episodes_of(lines(), {}, {}), "Verified.", [packet])
    assert "script" not in Page(page).tags
    assert "&#34;body&#34;: &#34;&lt;script&gt;alert(1)&lt;/script&gt;\\u2066&#34;" in page
    assert "You act in a small simulated environment" in page
    assert "What the model was shown" not in rendered()


def test_what_the_model_wrote_is_shown_where_it_is_asked_for_and_steers_nothing() -> None:
    wrote = "<b>Trust me</b>\u202e\x1b[2J\nAll is saved."
    told = rendered(texts={f"{1:064x}": {1: VisibleText(wrote, 0), 2: VisibleText("x" * 10, 990)}})
    page = Page(told)
    assert "b" not in page.tags
    assert "&lt;b&gt;Trust me&lt;/b&gt;\\u202e\\x1b[2J\nAll is saved.</blockquote>" in told
    assert "(990 further characters)" in told
    # The operator's own step has no turn: the first text is the transfer's.
    assert told.index("transfer</th>") < told.index("Trust me") < told.index("finish(saved)</th>")
    assert "was asked for by name" in told
    silent = rendered()
    assert "<blockquote" not in silent
    assert "is shown with --texts" in silent


def test_the_page_is_one_file_without_scripts_or_requests() -> None:
    page = Page(rendered())
    assert "script" not in page.tags
    assert all(reference.startswith("#") for reference in page.references)
    assert {reference[1:] for reference in page.references} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))


def test_names_are_text_whatever_they_hold() -> None:
    text = rendered()
    assert HOSTILE not in text
    assert "&lt;script&gt;" in text


@pytest.mark.parametrize(
    "words",
    [
        "planned episodes",
        "technical unknown",
        "TRUNCATED",
        "0.01",
        "Equal to the ledger",
        "Descriptive figures.",
        "0.912",
    ],
)
def test_the_page_says(words: str) -> None:
    assert words in rendered()


def test_errors_are_named_first() -> None:
    text = rendered(agrees=False)
    assert "1 errors" in text
    assert text.index("outcome.saved: True recomputed") < text.index('id="summary"')


def test_an_episode_without_a_record_has_no_timeline_and_is_listed() -> None:
    episodes = episodes_of(lines(), {}, {})
    assert [draw(episode) for episode in episodes] == ["", "", ""]
    assert [episode.ended for episode in episodes] == [
        "completed: explicit finish",
        "technical unknown: TRUNCATED",
        "not attempted",
    ]


def test_the_timeline_has_evidence_deadline_actions_and_settlement() -> None:
    (episode,) = episodes_of([line(1)], {f"{1:064x}": record()}, {})
    assert [(one.id, one.requested, one.delivered, one.says) for one in episode.reports] == [
        ("report-1", 0, 2, "epoch 0, need yes")
    ]
    assert [step.by for step in episode.steps] == ["operator", "model", "model"]
    drawing = draw(episode)
    for kind in ("deadline", "evidence", "action breach", "action operator", "settled"):
        assert f'class="{kind}"' in drawing
    assert drawing.count("<circle") == 4


def test_many_strata_are_drawn_by_route() -> None:

    strata: list[dict[str, Any]] = [
        {**analysis()["strata"][0], "arm": f"arm-{n}", "route": "r"} for n in range(MAX_BARS)
    ]
    assert "arm-3" in coverage_chart(strata)
    assert "arm-3" not in coverage_chart([*strata, strata[0]])
