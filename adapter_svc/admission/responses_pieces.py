"""What the events of one responses stream said of its items, and whether the last event's output agrees.

Every disagreement is `STREAM_CONTRADICTION`: an item at another place or of another id or type, a text or arguments
whose pieces do not join to what the `done` events and the output say, a piece of an item that never began or of a
text that was done (design/admission.md, Streams). Where any item was done all are; where any text of a message came in
pieces all texts did, and likewise any arguments: what the output adds was not said.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from adapter_svc.admission.responses_items import TEXT_PARTS
from adapter_svc.admission.rules import JsonObject
from adapter_svc.admission.strict_json import JsonValue
from adapter_svc.admission.verdict import Inadmissible, Reason

_ADDED = "response.output_item.added"
_ITEM_DONE = "response.output_item.done"
_PART_DONE = "response.content_part.done"


@dataclass(frozen=True, slots=True)
class _Text:
    """Where a text of which pieces are streamed stands in its item; `group` and `position` are None for the item's own
    member.
    """

    group: str | None
    position: str | None
    member: str


_TEXTS: Mapping[str, _Text] = {
    "response.output_text": _Text("content", "content_index", "text"),
    "response.refusal": _Text("content", "content_index", "refusal"),
    "response.reasoning_text": _Text("content", "content_index", "text"),
    "response.reasoning_summary_text": _Text("summary", "summary_index", "text"),
    "response.function_call_arguments": _Text(None, None, "arguments"),
}
"""By the event's type without its ending `.delta` or `.done`."""

_REPEATED: Mapping[str, tuple[str, ...]] = {
    "message": ("id", "role"),
    "function_call": ("id", "call_id", "name", "arguments"),
}
"""By an item's type: what its `done` event and the output give alike, beside its type and the texts of its parts."""
_PARTS = ("content", "summary")
_PART_MEMBERS = ("type", "text", "refusal")

_Place = tuple[int, str | None, int, str]
"""Of a text: the item's index, the group, the position in it and the member."""


@dataclass(slots=True)
class StreamedItems:
    """The items and texts of a stream as its events gave them."""

    _begun: dict[int, JsonObject] = field(default_factory=dict)
    _done: dict[int, JsonObject] = field(default_factory=dict)
    _pieces: dict[_Place, list[str]] = field(default_factory=dict)
    _texts: dict[_Place, str] = field(default_factory=dict)

    def take(self, kind: str, data: JsonObject, where: str) -> None:
        """Take one event of type `kind`; raises Inadmissible where it contradicts an earlier one."""
        if kind in (_ADDED, _ITEM_DONE):
            self._take_item(kind, _index(data, "output_index", where), data.get("item"), where)
            return
        if "output_index" in data:
            self._require_known_item(_index(data, "output_index", where), data, where)
        if kind == _PART_DONE:
            self._take_part(data, where)
        name, _, ending = kind.rpartition(".")
        text = _TEXTS.get(name)
        if text is not None and ending in ("delta", "done"):
            self._take_text(text, ending, data, where)

    def require_agreement(self, output: JsonValue, where: str) -> None:
        """Compare all that was taken with the output of the last event; raises Inadmissible at `where`."""
        items = [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
        if self._begun and sorted(self._begun) != list(range(len(items))):
            _contradict(where)
        for index, item in self._begun.items():
            if item.get("type") != items[index].get("type"):
                _contradict(where)
        if self._done and self._done.keys() != self._begun.keys():
            _contradict(where)
        for index, item in self._done.items():
            _require_alike(item, items[index], where)
        for place, pieces in self._pieces.items():
            self._require_said(items, place, "".join(pieces), where)
        for place, text in self._texts.items():
            self._require_said(items, place, text, where)
        self._require_all_streamed(_text_places(items), where)
        self._require_all_streamed(_argument_places(items), where)

    def _require_all_streamed(self, places: set[_Place], where: str) -> None:
        if not places.isdisjoint(self._pieces) and not places <= self._pieces.keys():
            _contradict(where)

    def _take_item(self, kind: str, index: int, item: JsonValue, where: str) -> None:
        if not isinstance(item, dict) or (kind == _ADDED and index in self._begun) or index in self._done:
            _contradict(where)
        if kind == _ADDED:
            self._begun[index] = item
            return
        begun = self._begun.get(index, {})
        if not begun or any(begun.get(name) != item.get(name) for name in ("id", "type")):
            _contradict(where)
        self._done[index] = item

    def _require_known_item(self, index: int, data: JsonObject, where: str) -> None:
        begun = self._begun.get(index)
        if begun is None or index in self._done or data.get("item_id") not in (None, begun.get("id")):
            _contradict(where)

    def _take_part(self, data: JsonObject, where: str) -> None:
        part = data.get("part")
        kind = part.get("type") if isinstance(part, dict) else None
        member = TEXT_PARTS.get(kind, "text") if isinstance(kind, str) else "text"
        text = part.get(member) if isinstance(part, dict) else None
        if isinstance(text, str):
            place = (_index(data, "output_index", where), "content", _index(data, "content_index", where), member)
            self._take_whole(place, text, where)

    def _take_text(self, text: _Text, ending: str, data: JsonObject, where: str) -> None:
        position = 0 if text.position is None else _index(data, text.position, where)
        place = (_index(data, "output_index", where), text.group, position, text.member)
        value = data.get("delta" if ending == "delta" else text.member)
        if not isinstance(value, str):
            _contradict(where)
        if ending == "done":
            self._take_whole(place, value, where)
        elif place in self._texts:
            _contradict(where)
        else:
            self._pieces.setdefault(place, []).append(value)

    def _take_whole(self, place: _Place, text: str, where: str) -> None:
        joined = "".join(self._pieces.get(place, [text]))
        if not text == joined == self._texts.setdefault(place, text):
            _contradict(where)
        if place in self._pieces:
            self._pieces[place] = [text]

    @staticmethod
    def _require_said(items: list[JsonObject], place: _Place, text: str, where: str) -> None:
        index, group, position, member = place
        holder: JsonValue = items[index]
        if group is not None:
            parts = items[index].get(group)
            holder = parts[position] if isinstance(parts, list) and position < len(parts) else None
        if not isinstance(holder, dict) or holder.get(member) != text:
            _contradict(where)


def _require_alike(item: JsonObject, final: JsonObject, where: str) -> None:
    kind = item.get("type")
    names = _REPEATED.get(kind, ()) if isinstance(kind, str) else ()
    if any(item.get(name) != final.get(name) for name in names) or _part_texts(item) != _part_texts(final):
        _contradict(where)


def _text_places(items: list[JsonObject]) -> set[_Place]:
    """Where the messages' texts stand that are not empty."""
    return {
        (index, "content", position, "text")
        for index, item in enumerate(items)
        for position, part in enumerate(_list(item.get("content")) if item.get("type") == "message" else [])
        if isinstance(part, dict) and part.get("type") == "output_text" and part.get("text") != ""
    }


def _argument_places(items: list[JsonObject]) -> set[_Place]:
    """Where the calls' arguments stand that are not empty."""
    return {
        (index, None, 0, "arguments")
        for index, item in enumerate(items)
        if item.get("type") == "function_call" and item.get("arguments") != ""
    }


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def _part_texts(item: JsonObject) -> list[list[JsonValue]]:
    """The texts of every part of the item, each with the part's type."""
    groups = [item.get(name) for name in _PARTS]
    parts = [part for group in groups if isinstance(group, list) for part in group]
    return [[part.get(name) for name in _PART_MEMBERS] for part in parts if isinstance(part, dict)]


def _index(data: JsonObject, name: str, where: str) -> int:
    value = data.get(name)
    if type(value) is not int or value < 0:
        _contradict(where)
    return value


def _contradict(where: str) -> NoReturn:
    raise Inadmissible(Reason.STREAM_CONTRADICTION, where)
