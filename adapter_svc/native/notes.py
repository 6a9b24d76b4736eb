"""What a protocol writes down while it reads: events, texts, counts, tokens."""

import hashlib
from collections import Counter
from collections.abc import Mapping
from decimal import Context, Decimal, InvalidOperation
from typing import Any, Final

from adapter_svc.native.verdict import Malformed, NativeEvent, Observation, Usage
from countersign.kit.canonical import canonical_json

MAX_COST_CHARACTERS: Final = 64
MAX_COST_DIGITS: Final = 18
_EXACT: Final = Context(prec=256)
"""Sums of such amounts are exact."""


class Notes:
    """Collects. Events count once their record is accepted: `commit` numbers them, `discard` drops them."""

    def __init__(self) -> None:
        self._pending: list[tuple[str, Mapping[str, Any]]] = []
        self._new: list[NativeEvent] = []
        self._digest = hashlib.sha256()
        self._pieces: list[str] = []
        self.events = 0
        self.counts: Counter[Observation] = Counter()
        self.usage = Usage()
        self.cost_text: str | None = None
        self.version = ""
        self.model = ""
        self.session_id = ""

    @property
    def events_digest(self) -> bytes:
        """SHA-256 over all events so far, each as canonical JSON and a line feed."""
        return self._digest.digest()

    @property
    def assistant_text(self) -> str:
        """All assistant texts, joined by newlines."""
        return "".join(self._pieces)

    def take_events(self) -> list[NativeEvent]:
        """The events that were committed since the last time."""
        taken, self._new = self._new, []
        return taken

    def emit(self, kind: str, body: Mapping[str, Any]) -> None:
        """Add one event of the record at hand."""
        self._pending.append((kind, body))

    def commit(self) -> None:
        """The record at hand is accepted, and its events with it."""
        for kind, body in self._pending:
            line = canonical_json({"body": body, "kind": kind, "sequence": self.events})
            self._digest.update(line + b"\n")
            self._new.append(NativeEvent(self.events, kind, canonical_json(body)))
            self.events += 1
        self._pending.clear()

    def discard(self) -> None:
        """The record at hand is refused: nothing that it said happened."""
        self._pending.clear()

    def started(self, harness: str, *, version: str = "", model: str = "", session_id: str = "") -> None:
        """The program started; what it says of itself."""
        self.version, self.model, self.session_id = version or self.version, model, session_id
        self.emit("harness.started", {"harness": harness, "model": model, "session_id": session_id, "version": version})

    def say(self, text: str, *, continues: bool = False) -> None:
        """The assistant said `text`, where it is not empty; `continues`: it goes on in the same line."""
        if not text:
            return
        self.emit("assistant.message", {"continues": continues, "text": text})
        if self._pieces and not continues:
            self._pieces.append("\n")
        self._pieces.append(text)

    def tool_started(self, call_id: str, tool: str, arguments: Any) -> None:
        """A tool was called."""
        self.emit("tool.started", {"arguments": arguments, "id": call_id, "tool": tool})

    def tool_ended(self, call_id: str, tool: str, *, failed: bool, output_digest: bytes) -> None:
        """A tool's result came; `output_digest` is that of the result's canonical JSON."""
        if failed:
            self.counts[Observation.TOOL_FAILED] += 1
        body = {"failed": failed, "id": call_id, "output_digest": output_digest.hex(), "tool": tool}
        self.emit("tool.ended", body)

    def add_usage(self, more: Usage) -> None:
        """Add one message's tokens to the sum."""
        old = self.usage
        self.usage = Usage(
            _sum(old.input_tokens, more.input_tokens),
            _sum(old.output_tokens, more.output_tokens),
            _sum(old.cached_input_tokens, more.cached_input_tokens),
            _sum(old.cache_write_tokens, more.cache_write_tokens),
            _sum(old.reasoning_tokens, more.reasoning_tokens),
        )

    def add_cost(self, spelled: str) -> None:
        """Add one message's cost to the sum, in decimal."""
        self.cost_text = format(_EXACT.add(Decimal(self.cost_text or "0"), decimal(spelled)), "f")


def decimal(spelled: str) -> Decimal:
    """An amount from 0 as it was spelled; Malformed where it is none, or none that money can be."""
    try:
        value = Decimal(spelled) if len(spelled) <= MAX_COST_CHARACTERS else Decimal("NaN")
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite() or value < 0 or (value and not -MAX_COST_CHARACTERS < value.adjusted() < MAX_COST_DIGITS):
        raise Malformed("a cost is not an amount from 0")
    return value


def _sum(first: int | None, second: int | None) -> int | None:
    return second if first is None else first if second is None else first + second
