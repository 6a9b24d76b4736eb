"""How a run is said: JSON lines as it goes, a JSON object, or text for people (design/native-harness.md, section 2)."""

import json
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final

from countersign.kit.canonical import canonical_json
from countersign.kit.printable import printable, printable_lines
from countersign.prose.redaction import Redactor
from countersign.prose.result import Outcome, error_object, result_object
from countersign.prose.settings import Rendering
from countersign.prose.writer import Writer

EVENT_SCHEMA: Final = "countersign.run-event/1"
_RED: Final = "\x1b[31m"
_PLAIN: Final = "\x1b[0m"


class Reporter:
    """Says a run on standard output as `rendering` has it; JSON lines are numbered from 0 without gaps."""

    def __init__(self, writer: Writer, rendering: Rendering = Rendering.HUMAN) -> None:
        self._writer = writer
        self._sequence = 0
        self._finished = False
        self.rendering = rendering
        self.redactor = Redactor(())
        self.verbose = False
        self.no_color = False

    def event(self, kind: str, body: Mapping[str, Any]) -> None:
        """One event; seen in JSON lines alone."""
        if self.rendering is not Rendering.JSONL or self._finished:
            return
        line = {"schema": EVENT_SCHEMA, "sequence": self._sequence, "type": kind, "body": self.redactor.value(body)}
        self._sequence += 1
        self._writer.put(canonical_json(line) + b"\n")

    def show(self, value: Any) -> None:
        """One object that is not a run's: indented for a person, else as one line."""
        value = self.redactor.value(value)
        if self.rendering is Rendering.HUMAN:
            self._writer.put(json.dumps(value, indent=2, sort_keys=True).encode() + b"\n")
        elif self.rendering is Rendering.JSON:
            self._writer.put(canonical_json(value) + b"\n")
        else:
            self.event("run.planned", value)

    def show_rows(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Objects that are not a run's, one a line."""
        for row in rows:
            self._writer.put(canonical_json(row) + b"\n")

    def finish(self, outcome: Outcome) -> None:
        """The result, once, last."""
        result = self.redactor.value(result_object(outcome))
        if self.rendering is Rendering.JSONL:
            self.event("runner.completed" if outcome.error is None else "runner.failed", result)
            self._finished = True
        elif self.rendering is Rendering.JSON:
            self._writer.put(canonical_json(result) + b"\n")
        elif outcome.text:
            self._writer.put(self._text(outcome.text).encode("utf-8", "replace") + b"\n")
        self._say(outcome)

    def _text(self, text: str) -> str:
        """All of it, as it is; at a terminal without what would steer it."""
        text = self.redactor.text(text)
        return printable_lines(text) if sys.stdout.isatty() else text

    def _say(self, outcome: Outcome) -> None:
        error = error_object(outcome)
        lines = [f"prose: {printable(self.redactor.text(note))}" for note in outcome.notes]
        if error is not None:
            lines += self._error_lines(error)
        if self.verbose and outcome.ended is not None and outcome.ended.stderr.text:
            said = self.redactor.text(outcome.ended.stderr.text)
            lines += ["The last that the harness said on standard error:", printable_lines(said.rstrip("\n"))]
        if lines and self.rendering is Rendering.HUMAN:
            sys.stderr.write("\n".join(lines) + "\n")
            sys.stderr.flush()

    def _error_lines(self, error: Mapping[str, Any]) -> list[str]:
        first = f"prose: {error['code']}: {error['message']}"
        if not self.no_color and "NO_COLOR" not in os.environ and sys.stderr.isatty():
            first = f"{_RED}{first}{_PLAIN}"
        where = f", record {error['record']}" if error["record"] else ""
        again = " It may work when run again." if error["retryable"] else ""
        return [
            first,
            f"  Source: {error['boundary']}{where}",
            f"  Detail: {printable(self.redactor.text(error['detail']))}",
            f"  Action: {error['action']}{again}",
        ]
