"""An analysis written to a file, in the form that the file's name asks for."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from countersign.study.analysing import Analysis
from countersign.study.errors import BadInput
from countersign.study.files import write_atomically
from countersign.study.money_report import LedgerMoney

EXTRAS = {".html": "report", ".json": "report", ".csv": "report", ".parquet": "report", ".eval": "inspect"}
"""Each form with the extra whose packages write it."""

SUFFIXES = tuple(EXTRAS)


def write_report(
    path: Path,
    manifest: Mapping[str, Any],
    analysis: Analysis,
    records: Mapping[str, Mapping[str, Any]],
    money: LedgerMoney,
    *,
    texts: bool = False,
) -> None:
    """Write `path`, whose suffix is one of SUFFIXES; `texts` says that what the model wrote was asked for.

    Raises BadInput, also where the extra's packages are absent.
    """
    try:
        content = _content(path.suffix, manifest, analysis, records, money, texts=texts)
    except ModuleNotFoundError as error:
        extra = EXTRAS[path.suffix]
        needs = f"install the extra '{extra}': pip install 'countersign[{extra}]'"
        raise BadInput(f"{path}: {error.name} is not installed: {needs}") from None
    write_atomically(path, content)


def _content(
    suffix: str,
    manifest: Mapping[str, Any],
    analysis: Analysis,
    records: Mapping[str, Mapping[str, Any]],
    money: LedgerMoney,
    *,
    texts: bool,
) -> bytes:
    """The file's bytes. What draws and packs is imported here: the tables of a terminal need none of it."""
    from countersign.report.views import episodes_of

    if suffix == ".eval":
        from countersign.report.inspect_log import to_eval

        shown = episodes_of(analysis.episodes, records, analysis.texts)
        return to_eval(manifest, analysis.document, shown, datetime.now(UTC))
    if suffix == ".html":
        from countersign.report.html import MAX_TIMELINES, render

        shown = episodes_of(analysis.episodes[:MAX_TIMELINES], records, analysis.texts)
        left_out = len(analysis.episodes) - len(shown)
        journal = journal_words(money)
        page = render(manifest, analysis.document, shown, journal, analysis.packets, texts=texts, left_out=left_out)
        return page.encode("utf-8")
    from countersign.report import exports

    write = {".json": exports.to_json, ".csv": exports.to_csv, ".parquet": exports.to_parquet}[suffix]
    return write(analysis.document, analysis.episodes)


def journal_words(money: LedgerMoney) -> str:
    """Whether the ledger's journal was verified, in a sentence."""
    if money.journal is None:
        return "The ledger's journal was not verified: that takes the auditor's role."
    if not money.journal.intact:
        return "The ledger's journal is NOT intact."
    return f"The ledger's journal was verified: its {money.journal.entries_count} entries give every balance."
