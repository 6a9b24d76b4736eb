"""Exports: one row for each planned episode, null where nothing was measured (docs/formats.md, Exports)."""

import csv
import io
import json

import pyarrow.parquet as pq

from countersign.report import exports
from tests.countersign.report.studies import analysis, lines


def test_the_three_forms_hold_the_same_rows() -> None:
    rows = exports.rows(analysis(), lines())
    table = pq.read_table(io.BytesIO(exports.to_parquet(analysis(), lines())))
    assert table.to_pylist() == rows
    assert table.schema.metadata[b"schema"] == b"countersign.episodes/1"
    assert json.loads(exports.to_json(analysis(), lines()))["episodes"] == rows
    read = list(csv.DictReader(io.StringIO(exports.to_csv(analysis(), lines()).decode())))
    assert [row["episode_id"] for row in read] == [row["episode_id"] for row in rows]
    assert (read[0]["achieved"], read[0]["weighted_loss"], read[0]["charged"]) == ("true", "2.1", "0.01")
    assert (read[1]["achieved"], read[1]["weighted_loss"], read[1]["reason"]) == ("", "", "TRUNCATED")


def test_every_planned_episode_has_a_row_and_nothing_is_imputed() -> None:
    rows = exports.rows(analysis(), lines())
    assert [row["status"] for row in rows] == ["completed", "technical_unknown", "not_attempted"]
    assert [row["weighted_loss"] for row in rows] == [2.1, None, None]
    assert [row["primary_loss"] for row in rows] == [0, None, None]
    assert list(rows[0]) == list(exports.COLUMNS)
