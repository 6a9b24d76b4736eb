"""Where text goes: JSON lines and results on standard output, everything else on standard error."""

import sys
from typing import Annotated, Any

import typer
from rich.console import Console

from countersign.kit.canonical import canonical_json

PLAIN_WIDTH = 200
"""The width of tables where standard output is no terminal: nothing is cut or wrapped to a window."""

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a line on standard output.")]
"""The option that every command has."""


def emit(value: Any) -> None:
    """Write one JSON object as a line on standard output."""
    emit_unflushed(value)
    flush()


def emit_unflushed(value: Any) -> None:
    """The same, perhaps seen only after `flush`: for many lines in a row."""
    sys.stdout.write(canonical_json(value).decode("utf-8") + "\n")


def flush() -> None:
    """Show what was written on standard output."""
    sys.stdout.flush()


def say(text: str) -> None:
    """Write one line for people on standard error."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def result_console() -> Console:
    """A console for results that people read, on standard output."""
    return _console(sys.stdout)


def progress_console() -> Console:
    """A console for progress, on standard error."""
    return _console(sys.stderr)


def _console(stream: Any) -> Console:
    width = None if stream.isatty() else PLAIN_WIDTH
    return Console(file=stream, width=width, highlight=False, soft_wrap=False, emoji=False, markup=False)
