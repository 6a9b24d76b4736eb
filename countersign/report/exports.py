"""The analysed episodes as tables for programs: JSON, CSV, Parquet, one versioned schema (docs/formats.md, Exports)."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from countersign.kit.canonical import canonical_json
from countersign.study.fields import LOSSES

SCHEMA = "countersign.episodes/1"
MONEY = ("charged", "held", "reserved", "resolved")

COLUMNS: Mapping[str, pa.DataType] = {
    "study_id": pa.string(),
    "episode_id": pa.string(),
    "route": pa.string(),
    "split": pa.string(),
    "template": pa.string(),
    "world": pa.string(),
    "arm": pa.string(),
    "message": pa.string(),
    "repetition": pa.int64(),
    "status": pa.string(),
    "termination": pa.string(),
    "reason": pa.string(),
    "stop_category": pa.string(),
    "achieved": pa.bool_(),
    "claim": pa.string(),
    **dict.fromkeys(LOSSES, pa.int64()),
    "weighted_loss": pa.float64(),
    "comparator": pa.float64(),
    "regret": pa.float64(),
    "decision_tick": pa.int64(),
    "settlement_tick": pa.int64(),
    "calls": pa.int64(),
    "currency": pa.string(),
    **dict.fromkeys(MONEY, pa.string()),
    "errors": pa.int64(),
}
"""Each column with its type. What was not measured is null, never zero; amounts are exact decimal text."""


def rows(analysis: Mapping[str, Any], episodes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row for each planned episode, in frozen order."""
    return [_row(analysis, line) for line in episodes]


def _row(analysis: Mapping[str, Any], line: Mapping[str, Any]) -> dict[str, Any]:
    outcome = line["outcome"] or {}
    known = {
        "study_id": analysis["study_id"],
        "currency": analysis["money"]["currency"],
        **line["identity"],
        **{name: outcome.get(name) for name in (*LOSSES, "decision_tick", "settlement_tick")},
        **{state: line["money"][state] for state in MONEY},
        "errors": len(line["errors"]),
    }
    return {name: known[name] if name in known else line[name] for name in COLUMNS}


def to_json(analysis: Mapping[str, Any], episodes: Sequence[Mapping[str, Any]]) -> bytes:
    """Analysis and rows as one canonical JSON object."""
    return canonical_json({"schema": SCHEMA, "analysis": analysis, "episodes": rows(analysis, episodes)})


def to_csv(analysis: Mapping[str, Any], episodes: Sequence[Mapping[str, Any]]) -> bytes:
    """The rows as CSV with a header; null is empty, true and false are words."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(COLUMNS), lineterminator="\n")
    writer.writeheader()
    words = {True: "true", False: "false"}
    for row in rows(analysis, episodes):
        writer.writerow({name: words[value] if isinstance(value, bool) else value for name, value in row.items()})
    return text.getvalue().encode("utf-8")


def to_parquet(analysis: Mapping[str, Any], episodes: Sequence[Mapping[str, Any]]) -> bytes:
    """The rows as Parquet; the file's metadata names the schema."""
    columns = rows(analysis, episodes)
    schema = pa.schema(list(COLUMNS.items()), metadata={"schema": SCHEMA, "study_id": analysis["study_id"]})
    table = pa.table({name: [row[name] for row in columns] for name in COLUMNS}, schema=schema)
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()
