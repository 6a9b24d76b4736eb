"""What the events of a streamed response said of its items before the last one (design/admission.md, Streams).

Everything here that is not so is a contradiction:
- An item is added once, at an index of its own, and done once, with the same id and type. All that is said of an item
  lies between, and names its id or none.
- A text is done with all of its pieces, and said to be the same each time; no piece comes after that.
- The last event's output has exactly the items that were added, each of its type. If any was done all were, and texts,
  ids, roles, names, call ids and arguments are the same; a reasoning item's id and encrypted content may be others.
- A text or arguments stand in the output where they were said. If any of the messages' texts came in pieces, all
  that are not empty did; likewise arguments.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from verifier_svc.receipts.rules import member_of
from verifier_svc.receipts.streams.events import Event, contradiction

Place = tuple[int, str, int, str]
"""Item, list of parts ("" for the item's own member), number of the part, member."""

_TEXTS = {
    "response.output_text": ("content", "content_index", "text"),
    "response.refusal": ("content", "content_index", "refusal"),
    "response.reasoning_text": ("content", "content_index", "text"),
    "response.reasoning_summary_text": ("summary", "summary_index", "text"),
    "response.function_call_arguments": ("", "", "arguments"),
}
_STEADY: dict[Any, tuple[str, ...]] = {
    "message": ("id", "role"),
    "function_call": ("id", "call_id", "name", "arguments"),
}


@dataclass(slots=True)
class SaidBefore:
    """Items and texts as the events gave them."""

    added: dict[int, dict[str, Any]] = field(default_factory=dict)
    done: dict[int, dict[str, Any]] = field(default_factory=dict)
    pieces: dict[Place, list[str]] = field(default_factory=dict)
    texts: dict[Place, str] = field(default_factory=dict)

    def add(self, kind: str, said: dict[str, Any], event: Event) -> None:
        """Take one event in; raises Inadmissible where it contradicts an earlier one."""
        if kind in ("response.output_item.added", "response.output_item.done"):
            self._add_item(kind, said, event)
            return
        if "output_index" in said:
            self._check_open(said, event)
        if kind == "response.content_part.done":
            self._add_part(said, event)
        name, _dot, ending = kind.rpartition(".")
        if name in _TEXTS and ending in ("delta", "done"):
            self._add_text(*_TEXTS[name], ending, said, event)

    def _add_item(self, kind: str, said: dict[str, Any], event: Event) -> None:
        index, item = _number(said, "output_index", event), said.get("item")
        if not isinstance(item, dict) or index in self.done:
            raise contradiction(event)
        if kind.endswith(".added"):
            if self.added.setdefault(index, item) is not item:
                raise contradiction(event)
            return
        added = self.added.get(index)
        if not added or (added.get("id"), added.get("type")) != (item.get("id"), item.get("type")):
            raise contradiction(event)
        self.done[index] = item

    def _check_open(self, said: dict[str, Any], event: Event) -> None:
        index = _number(said, "output_index", event)
        if index not in self.added or index in self.done:
            raise contradiction(event)
        if said.get("item_id") not in (None, self.added[index].get("id")):
            raise contradiction(event)

    def _add_part(self, said: dict[str, Any], event: Event) -> None:
        part = said.get("part")
        member = "refusal" if member_of(part, "type") == "refusal" else "text"
        text = member_of(part, member)
        if isinstance(text, str):
            item, number = _number(said, "output_index", event), _number(said, "content_index", event)
            self._finish((item, "content", number, member), text, event)

    def _add_text(
        self, group: str, numbered_by: str, member: str, ending: str, said: dict[str, Any], event: Event
    ) -> None:
        number = _number(said, numbered_by, event) if numbered_by else 0
        place = (_number(said, "output_index", event), group, number, member)
        text = said.get("delta" if ending == "delta" else member)
        if not isinstance(text, str) or (ending == "delta" and place in self.texts):
            raise contradiction(event)
        if ending == "delta":
            self.pieces.setdefault(place, []).append(text)
        else:
            self._finish(place, text, event)

    def _finish(self, place: Place, text: str, event: Event) -> None:
        if self.texts.setdefault(place, text) != text or text != "".join(self.pieces.get(place, [text])):
            raise contradiction(event)
        if place in self.pieces:
            self.pieces[place] = [text]

    def check(self, response: dict[str, Any], event: Event) -> None:
        """Compare with the response that the last event holds; raises Inadmissible."""
        output = response.get("output")
        items = [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
        said = [*((place, "".join(pieces)) for place, pieces in self.pieces.items()), *self.texts.items()]
        if not (
            self._has_same_items(items)
            and all(_found(items, place) == text for place, text in said)
            and self._is_all_in_pieces(set(_message_texts(items)))
            and self._is_all_in_pieces(set(_arguments(items)))
        ):
            raise contradiction(event)

    def _has_same_items(self, items: list[dict[str, Any]]) -> bool:
        if self.added and sorted(self.added) != list(range(len(items))):
            return False
        if self.done and self.done.keys() != self.added.keys():
            return False
        same_types = all(item.get("type") == items[index].get("type") for index, item in self.added.items())
        return same_types and all(_is_same(item, items[index]) for index, item in self.done.items())

    def _is_all_in_pieces(self, places: set[Place]) -> bool:
        return places.isdisjoint(self.pieces) or places <= self.pieces.keys()


def _number(said: dict[str, Any], name: str, event: Event) -> int:
    number = said.get(name)
    if type(number) is not int or number < 0:
        raise contradiction(event)
    return number


def _is_same(item: dict[str, Any], final: dict[str, Any]) -> bool:
    kind = item.get("type")
    names = _STEADY.get(kind, ()) if isinstance(kind, str) else ()
    return all(item.get(name) == final.get(name) for name in names) and _parts(item) == _parts(final)


def _parts(item: dict[str, Any]) -> list[list[Any]]:
    lists = [item.get(group) for group in ("content", "summary")]
    parts = [part for listed in lists if isinstance(listed, list) for part in listed]
    return [[part.get(name) for name in ("type", "text", "refusal")] for part in parts if isinstance(part, dict)]


def _found(items: list[dict[str, Any]], place: Place) -> Any:
    item, group, number, member = place
    if not group:
        return items[item].get(member)
    parts = items[item].get(group)
    return member_of(parts[number], member) if isinstance(parts, list) and number < len(parts) else None


def _message_texts(items: list[dict[str, Any]]) -> Iterator[Place]:
    for index, item in enumerate(items):
        content = item.get("content") if item.get("type") == "message" else None
        for number, part in enumerate(content if isinstance(content, list) else ()):
            if member_of(part, "type") == "output_text" and part.get("text") != "":
                yield index, "content", number, "text"


def _arguments(items: list[dict[str, Any]]) -> Iterator[Place]:
    for index, item in enumerate(items):
        if item.get("type") == "function_call" and item.get("arguments") != "":
            yield index, "", 0, "arguments"
