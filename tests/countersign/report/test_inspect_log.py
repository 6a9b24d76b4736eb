"""Inspect logs: read with inspect-ai's own reader, the numbers are the analysis's and nothing is imputed."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from countersign.report.views import episodes_of
from countersign.report.written import SUFFIXES, write_report
from countersign.study.analysing import Analysis
from countersign.study.errors import BadInput
from countersign.study.money_report import LedgerMoney
from tests.countersign.report.studies import HOSTILE, LOSSES, analysis, lines, manifest, record

CREATED = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
MONEY: Any = None
"""What the ledger says, which a log does not show."""


def read(tmp_path: Path, document: dict[str, Any], episodes: list[dict[str, Any]] | None = None) -> Any:
    log = pytest.importorskip("inspect_ai.log", reason="the extra 'inspect' is not installed: inspect-ai writes logs")
    from countersign.report.inspect_log import to_eval

    shown = episodes_of(episodes or lines(), {f"{1:064x}": record(), f"{2:064x}": {**record(), "origins": []}}, {})
    path = tmp_path / "small.eval"
    path.write_bytes(to_eval(manifest(), document, shown, CREATED))
    return log.read_eval_log(str(path))


def test_every_planned_episode_is_a_sample_and_only_completed_ones_have_scores(tmp_path: Path) -> None:
    samples = read(tmp_path, analysis()).samples
    assert [sample.id for sample in samples] == [line["episode_id"] for line in lines()]
    done, unknown, missing = samples
    assert {name: score.value for name, score in done.scores.items()} == {
        "achieved": True,
        "authority_breach": True,
        "false_claim": False,
        **dict.fromkeys(LOSSES, 0),
        "protected_loss": 1,
        "authority_breaches": 1,
        "weighted_loss": 2.1,
        "regret": 1.1875,
    }
    assert done.scores["achieved"].answer == "saved"
    assert done.error is None
    assert not unknown.scores
    assert not missing.scores
    assert (unknown.error.message, missing.error.message) == ("technical unknown: TRUNCATED", "not attempted")
    assert [sample.metadata["status"] for sample in samples] == ["completed", "technical_unknown", "not_attempted"]
    assert [sample.metadata["regret"] for sample in samples] == [1.1875, None, None]


def test_the_metrics_are_the_analysis_and_say_how_many_are_unscored(tmp_path: Path) -> None:
    log = read(tmp_path, analysis())
    total = analysis()["total"]
    assert (log.results.total_samples, log.results.completed_samples) == (3, 1)
    found = {score.name: score for score in log.results.scores}
    assert set(found) == {"achieved", "authority_breach", "false_claim", "weighted_loss", *LOSSES}
    for name, score in found.items():
        figure = total.get(name) or total["losses"][name]
        main = "rate" if name in total else "mean"
        expected = {key: figure[key] for key in (main, "lower_bound", "upper_bound")}
        assert {key: metric.value for key, metric in score.metrics.items()} == expected
        assert (score.scored_samples, score.unscored_samples) == (1, 2)
    assert log.results.metadata["technical_unknown"] == {"TRUNCATED": 1}
    assert log.eval.metadata["strata"] == analysis()["strata"]
    assert log.eval.metadata["limits"] == ["Descriptive figures."]
    assert (log.eval.task, log.eval.model, log.eval.created) == ("small", "m", "2026-03-04T05:06:07+00:00")


def test_without_an_outcome_there_is_no_rate_and_no_mean(tmp_path: Path) -> None:
    document = analysis()
    empty = {"completed": 0, "planned": 3, "lower_bound": 0.0, "upper_bound": 1.0}
    document["total"] |= {
        "completed": {},
        "achieved": {**empty, "count": 0, "rate": None},
        "losses": {name: {**empty, "mean": None} for name in document["total"]["losses"]},
    }
    found = {score.name: score.metrics for score in read(tmp_path, document).results.scores}
    assert set(found["achieved"]) == set(found["weighted_loss"]) == {"lower_bound", "upper_bound"}


def test_messages_are_calls_and_answers_and_an_operators_are_not_the_models(tmp_path: Path) -> None:
    sample = read(tmp_path, analysis()).samples[0]
    assert [message.role for message in sample.messages] == ["user", "user", *["assistant", "tool"] * 2]
    operator, first, answer, last = sample.messages[1:5]
    assert operator.metadata == {"by": "operator", "tool": "request_verification"}
    assert (first.tool_calls[0].function, first.tool_calls[0].arguments) == ("transfer", {})
    assert (last.tool_calls[0].function, last.tool_calls[0].arguments) == ("finish", {"claim": "saved"})
    assert '"authorized":false' in answer.content
    assert answer.tool_call_id == first.tool_calls[0].id
    assert HOSTILE in sample.messages[0].content


def test_a_final_text_is_not_shown(tmp_path: Path) -> None:
    told = {**record(), "origins": [{"sequence": 2, "origin": "NATIVE_TOOL"}, {"sequence": 3, "origin": "NORMAL_TEXT"}]}
    pytest.importorskip("inspect_ai.log", reason="the extra 'inspect' is not installed: inspect-ai writes logs")
    from countersign.report.inspect_log import TEXT_SHOWN, eval_log

    log = eval_log(manifest(), analysis(), episodes_of(lines()[:1], {f"{1:064x}": told}, {}), CREATED)
    assert log.samples is not None
    assert (log.samples[0].messages[-1].role, log.samples[0].messages[-1].content) == ("assistant", TEXT_SHOWN)


@pytest.mark.parametrize(
    ("agrees", "not_attempted", "status"), [(True, 0, "success"), (True, 1, "cancelled"), (False, 0, "error")]
)
def test_the_status_says_whether_all_was_attempted_and_agrees(
    agrees: bool, not_attempted: int, status: str, tmp_path: Path
) -> None:
    document = analysis(agrees=agrees)
    document["total"]["not_attempted"] = not_attempted
    log = read(tmp_path, document)
    assert log.status == status
    assert (log.error is not None) == (not agrees)
    if not agrees:
        assert '"fault":"DIFFERS"' in log.error.traceback


def test_the_suffix_chooses_the_form(tmp_path: Path) -> None:
    log = pytest.importorskip("inspect_ai.log", reason="the extra 'inspect' is not installed: inspect-ai writes logs")
    path = tmp_path / "study.eval"
    write_report(path, manifest(), Analysis(analysis(), lines(), b"", b""), {}, MONEY)
    assert ".eval" in SUFFIXES
    assert len(log.read_eval_log(str(path)).samples) == 3


def test_without_the_extra_the_command_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "inspect_ai.log", None)
    monkeypatch.delitem(__import__("sys").modules, "countersign.report.inspect_log", raising=False)
    money: LedgerMoney = MONEY
    with pytest.raises(BadInput, match=r"install the extra 'inspect': pip install 'countersign\[inspect\]'"):
        write_report(tmp_path / "s.eval", manifest(), Analysis(analysis(), lines(), b"", b""), {}, money)
