"""What `prose cli ...` found, as a table for a person."""

import io
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from countersign.prose.text import printable

PLAIN_WIDTH = 200
"""The width where standard output is no terminal."""


def table_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """`rows`, which have the same members, as lines: a column for each member that says anything."""
    names = [name for name in rows[0] if any(row[name] is not None for row in rows)]
    table = Table(box=SIMPLE_HEAD)
    for name in names:
        table.add_column(name.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*("\n".join(map(printable, _value_lines(row[name]))) for name in names))
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else PLAIN_WIDTH
    text = io.StringIO()
    Console(file=text, width=width, highlight=False, emoji=False, markup=False).print(table)
    return "".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines() if line.strip())


def harness_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What `cli harness list` found, in as few columns as a window has room for; JSON says all of it."""
    return [
        {
            "harness": row["harness"],
            "versions": row["versions"],
            "here": row["version"] or row["trouble"].partition(": ")[2],
            "auth_profiles": row["auth_profiles"],
            "permission_modes": row["permission_modes"],
        }
        for row in rows
    ]


def _value_lines(value: Any) -> Sequence[str]:
    match value:
        case None:
            return ()
        case bool():
            return ("yes" if value else "no",)
        case dict():
            return [name if there else f"{name} (not set)" for name, there in value.items()]
        case list():
            return value
        case _:
            return (str(value),)
