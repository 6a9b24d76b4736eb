"""Many rows in one statement.

Each statement that SQLite carries out gives up the interpreter's lock and has to win it back; a statement for each row
would spend more time on that than on the row. Rows go in powers of two, so that few distinct statements are prepared,
and those once.
"""

# ruff: noqa: S608 - statements are put together from constants and question marks only.

import sqlite3
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, TypeVar

T = TypeVar("T")

_MOST_ROWS = 64


def chunks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """The items in order, in runs whose lengths are powers of two, at most 64."""
    start = 0
    size = _MOST_ROWS
    while start < len(items):
        while size > len(items) - start:
            size //= 2
        yield items[start : start + size]
        start += size


def insert(db: sqlite3.Connection, table: str, columns: str, rows: Sequence[tuple[Any, ...]], then: str = "") -> None:
    """Insert rows with these columns; `then` ends the statement, such as with what a conflict does."""
    for chunk in chunks(rows):
        db.execute(_insertion(table, columns, len(chunk), then), [value for row in chunk for value in row])


@lru_cache(maxsize=256)
def _insertion(table: str, columns: str, rows_count: int, then: str) -> str:
    row = f"({marks(columns.count(',') + 1)})"
    return f"INSERT INTO {table} ({columns}) VALUES {', '.join([row] * rows_count)} {then}"


def marks(count: int) -> str:
    """Question marks for so many values."""
    return ", ".join("?" * count)
