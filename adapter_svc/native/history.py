"""The messages of a run as recorded, and the copy of them in its terminal event (design/native-harness.md, section 5,
Terminal history). Only fingerprints are kept.
"""

from dataclasses import dataclass
from typing import Final

from adapter_svc.native.framing import Record
from adapter_svc.native.matching import fingerprint, without
from adapter_svc.native.shapes import is_number, need

IGNORED: Final = ("completedAt",)
"""Known only after the message was recorded; ignored on both sides."""
PRUNED_MARKERS: Final = frozenset({"[Superseded by a newer read of this file]", "[Uneventful result elided]"})
RESULT_ROLE: Final = "toolResult"


@dataclass(frozen=True, slots=True)
class _Entry:
    whole: bytes
    without_content: bytes | None
    """Of tool results alone: nothing else may be pruned."""


def message_print(message: Record) -> bytes:
    """What two copies of a message share."""
    return fingerprint(without(message, *IGNORED))


class History:
    """The messages since the agent last started, in order."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []

    def clear(self) -> None:
        """Another start: what the terminal event repeats begins here."""
        self._entries.clear()

    def add(self, message: Record) -> None:
        """Record one finished message."""
        is_result = message.get("role") == RESULT_ROLE
        rest = fingerprint(without(message, "content", *IGNORED)) if is_result else None
        self._entries.append(_Entry(message_print(message), rest))

    def require_equal(self, copies: list[Record]) -> None:
        """Raises Malformed unless `copies` are the recorded messages, pruned results aside."""
        need(len(copies) == len(self._entries), "the terminal history has another length than the run")
        for entry, copy in zip(self._entries, copies, strict=True):
            need(_is_copy(entry, copy), "the terminal history differs from the run")


def _is_copy(entry: _Entry, copy: Record) -> bool:
    if "prunedAt" not in copy:
        return message_print(copy) == entry.whole
    pruned = _is_pruned(copy) and entry.without_content is not None
    return pruned and fingerprint(without(copy, "content", "prunedAt", *IGNORED)) == entry.without_content


def _is_pruned(copy: Record) -> bool:
    when, content = copy["prunedAt"], copy.get("content")
    if not isinstance(when, int | float) or not is_number(when) or when < 0 or not isinstance(content, list):
        return False
    return len(content) == 1 and content[0] in [{"text": marker, "type": "text"} for marker in PRUNED_MARKERS]
