"""Showing a collection while it runs: a bar on a terminal, plain lines elsewhere, JSON lines when asked for."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from countersign.cli.output import emit, progress_console, say
from countersign.kit.money import nanos_to_text, text_to_nanos_exact
from countersign.study.records import COMPLETED, STOPPED, TECHNICAL_UNKNOWN
from countersign.study.runner import EpisodeOrder

Record = Mapping[str, Any]
_AMOUNTS = {"CHARGED": "charged", "RESOLVED": "charged", "HELD": "held", "RESERVED": "reserved"}


SUMMARY_SECONDS = 10.0
"""How often a view without a bar says where the collection stands."""


@dataclass(slots=True)
class Tally:
    """What the records so far come to; amounts in nano-units of the account's currency, `cap_nanos` the study's.

    `started` is when this run began, in seconds of any clock; `kept` is how many records it found.
    """

    planned: int = 0
    done: int = 0
    kept: int = 0
    cap_nanos: int = 0
    started: float = 0.0
    unknown: Counter[str] = field(default_factory=Counter)
    statuses: dict[str, int] = field(default_factory=lambda: dict.fromkeys((COMPLETED, TECHNICAL_UNKNOWN, STOPPED), 0))
    nanos: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("charged", "held", "reserved"), 0))

    def add(self, record: Record) -> None:
        """Count one record."""
        self.done += 1
        self.statuses[record["status"]] += 1
        if record["status"] == TECHNICAL_UNKNOWN:
            self.unknown[record["reason"]] += 1
        for call in record["calls"]:
            if call["state"] in _AMOUNTS:
                self.nanos[_AMOUNTS[call["state"]]] += text_to_nanos_exact(call["accounted"])

    def line(self, now: float) -> str:
        """Where the collection stands at `now`, in one line: counts, amounts, this run's rate and the time left."""
        counts = [f"{name.replace('_', ' ')} {count}{self._reasons(name)}" for name, count in self.statuses.items()]
        amounts = [f"{name} {nanos_to_text(nanos)}" for name, nanos in self.nanos.items()]
        remaining = f"remaining {nanos_to_text(self.cap_nanos - sum(self.nanos.values()))} of the cap"
        return ", ".join([*counts, *amounts, remaining, *self._pace(now)])

    def _reasons(self, status: str) -> str:
        if status != TECHNICAL_UNKNOWN or not self.unknown:
            return ""
        return f" ({', '.join(f'{count} {reason}' for reason, count in self.unknown.most_common())})"

    def _pace(self, now: float) -> list[str]:
        fresh, elapsed = self.done - self.kept, now - self.started
        if fresh <= 0 or elapsed <= 0:
            return []
        left = round((self.planned - self.done) * elapsed / fresh)
        return [f"{fresh / elapsed:.2g} episodes/s", f"about {timedelta(seconds=left)} left"]


class PlainView:
    """Lines on standard error."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.tally = Tally()
        self._clock = clock
        self._summed_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def begin(self, planned: int, kept: Sequence[Record], cap_nanos: int = 0) -> None:
        """Say how much is left."""
        self.tally.planned, self.tally.kept, self.tally.cap_nanos = planned, len(kept), cap_nanos
        self.tally.started = self._summed_at = self._clock()
        for record in kept:
            self.tally.add(record)
        self.note(f"{planned} episodes planned, {len(kept)} recorded and verified, {planned - len(kept)} left")

    def note(self, text: str) -> None:
        """Say one line."""
        say(f"countersign: {text}")

    def finished(self, order: EpisodeOrder, record: Record) -> None:
        """Say what came of an episode."""
        self.tally.add(record)
        say(f"[{self.tally.done}/{self.tally.planned}] {order.identity}: {describe(record)}")
        now = self._clock()
        if now - self._summed_at >= SUMMARY_SECONDS:
            self._summed_at = now
            self.note(self.tally.line(now))


class JsonView(PlainView):
    """As PlainView, and one JSON object an episode on standard output."""

    def begin(self, planned: int, kept: Sequence[Record], cap_nanos: int = 0) -> None:
        """Say how much is left."""
        super().begin(planned, kept, cap_nanos)
        emit({"event": "begin", "planned": planned, "recorded": len(kept)})

    def finished(self, order: EpisodeOrder, record: Record) -> None:
        """Say what came of an episode."""
        super().finished(order, record)
        names = ("episode_id", "identity", "status", "termination", "reason", "stop_category")
        verification = record["verification"]
        verified = None if verification is None else verification["agrees"]
        emit({"event": "episode", **{name: record[name] for name in names}, "verified": verified})


class BarView(PlainView):
    """A live bar on the terminal of standard error, with a line for each episode above it."""

    def __init__(self) -> None:
        super().__init__()
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=progress_console(),
        )
        self._task = self._progress.add_task("collecting", total=None)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def begin(self, planned: int, kept: Sequence[Record], cap_nanos: int = 0) -> None:
        """Set the bar's length."""
        super().begin(planned, kept, cap_nanos)
        self._progress.update(self._task, total=planned, completed=len(kept))

    def note(self, text: str) -> None:
        """Print a line above the bar."""
        self._progress.console.print(f"countersign: {text}")

    def finished(self, order: EpisodeOrder, record: Record) -> None:
        """Move the bar."""
        self.tally.add(record)
        self._progress.console.print(f"{order.identity}: {describe(record)}")
        self._progress.update(self._task, completed=self.tally.done, description=self.tally.line(self._clock()))


def make_view(*, as_json: bool) -> "AbstractContextManager[PlainView]":
    """The view that fits: JSON when asked for, a bar on a terminal, plain lines elsewhere."""
    if as_json:
        return JsonView()
    return BarView() if progress_console().is_terminal else PlainView()


def describe(record: Record) -> str:
    """What came of an episode, in a few words."""
    detail = record["termination"] or record["reason"] or record["stop_category"]
    verification = record["verification"]
    checked = "not verified" if verification is None else "verified" if verification["agrees"] else "DIFFERS"
    text = f"{record['status'].replace('_', ' ')} ({detail})"
    return text if record["status"] == STOPPED else f"{text}, {checked}"
