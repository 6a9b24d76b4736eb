"""One streamed message put together from the pieces of its members (docs/formats.md, Opaque items of a streamed
answer): joined texts are written canonically, everything else came whole and keeps its bytes.

`null` and the empty text say nothing beside another value, and null nothing beside the empty text; of two values that
say something, unequal ones are `STREAM_CONTRADICTION` at the event of the second. Decided here, each pinned by a test:

- A call, its function and a detail that has an index and a type are put together, their keys sorted, from however few
  events they came.
- A tool call without an `index` stands alone, byte for byte and after those that have one: it is never merged with
  another. An index that is no whole number is a contradiction.
- Texts that follow one another between content parts are one part.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from adapter_svc.admission.raw_json import compose_array, compose_object, items, members
from adapter_svc.admission.repeats import same_json
from adapter_svc.admission.strict_json import JsonValue
from adapter_svc.admission.verdict import Inadmissible, Reason
from countersign.kit.canonical import canonical_json

_LEFT_OUT = frozenset({"channel"})
"""Members of a delta that say how it was cut, not what was said."""
_TEXTS = frozenset({"content", "reasoning", "reasoning_content", "refusal"})
_DETAIL_TEXTS = frozenset({"text", "summary", "data", "signature"})
_ARGUMENTS = frozenset({"arguments"})


@dataclass(frozen=True, slots=True)
class Piece:
    """A member's value as one event gave it: read, its bytes, and the event's number."""

    value: JsonValue
    raw: bytes
    number: int

    @property
    def says(self) -> bool:
        """Whether it is more than null or the empty text."""
        return self.value is not None and self.value != ""

    @property
    def adds(self) -> bool:
        """Whether it says something and is no empty array."""
        return self.says and self.value != []


class _Contradiction(Inadmissible):
    """This piece's event says otherwise than another one."""

    def __init__(self, piece: Piece) -> None:
        super().__init__(Reason.STREAM_CONTRADICTION, f"event {piece.number}")
        self.number = piece.number


def merge_message(pieces: Mapping[str, Sequence[Piece]], finished_at: int | None) -> bytes:
    """The message, its members sorted; raises Inadmissible `STREAM_CONTRADICTION`.

    `finished_at` is the number of the event with the finish reason, after which nothing may be added.
    """
    kept = {name: of_member for name, of_member in sorted(pieces.items()) if name not in _LEFT_OUT}
    merged = {name: partial(_merge_member, name, of_member) for name, of_member in kept.items()}
    ended = {f"{name} at the end": partial(_nothing_after, finished_at, name, kept[name]) for name in kept}
    made = earliest({**merged, **ended})
    return compose_object({name: made[name] for name in kept})


def earliest(jobs: Mapping[str, Callable[[], bytes]]) -> dict[str, bytes]:
    """What each job makes; where some contradict themselves, raises the contradiction of the earliest event."""
    made, found = {}, list[_Contradiction]()
    for name, job in jobs.items():
        try:
            made[name] = job()
        except _Contradiction as contradiction:
            found.append(contradiction)
    if found:
        raise min(found, key=lambda contradiction: contradiction.number)
    return made


def _nothing_after(finished_at: int | None, name: str, pieces: Sequence[Piece]) -> bytes:
    """Nothing: raises where a piece adds something after the end."""
    if finished_at is None:
        return b""
    grows = name in _TEXTS or any(isinstance(piece.value, list) for piece in pieces)
    held = any(piece.says and piece.number <= finished_at for piece in pieces)
    for piece in pieces:
        if piece.number > finished_at and piece.adds and (grows or not held):
            raise _Contradiction(piece)
    return b""


def _merge_member(name: str, pieces: Sequence[Piece]) -> bytes:
    if any(isinstance(piece.value, list) for piece in pieces):
        return _MERGED_ARRAYS.get(name, _merge_array)(pieces)
    return merge_text(pieces) if name in _TEXTS else merge_whole(pieces)


def merge_whole(pieces: Sequence[Piece]) -> bytes:
    """The value that every piece which says something gives, in the bytes of the first of them."""
    held = pieces[0]
    for piece in pieces[1:]:
        if (held.value is None and piece.value is not None) or (not held.says and piece.says):
            held = piece
        elif piece.says and not same_json(piece.value, held.value):
            raise _Contradiction(piece)
    return held.raw


def merge_text(pieces: Sequence[Piece]) -> bytes:
    """The texts joined; null where no piece is a text. A text beside another kind of value contradicts it."""
    odd = [piece for piece in pieces if not isinstance(piece.value, str | None)]
    if odd:
        said = next((piece for piece in pieces if piece.says and isinstance(piece.value, str)), odd[0])
        if said is not odd[0]:
            raise _Contradiction(max(said, odd[0], key=lambda piece: piece.number))
        return merge_whole(pieces)
    texts = [piece.value for piece in pieces if isinstance(piece.value, str)]
    return canonical_json("".join(texts)) if texts else pieces[0].raw


def _merge_array(pieces: Sequence[Piece]) -> bytes:
    """Every element in order."""
    return compose_array(element.raw for element in _elements(pieces))


def _merge_content(pieces: Sequence[Piece]) -> bytes:
    """Every part in order, texts between them as parts of their own."""
    return compose_array(_content_parts(pieces))


def _content_parts(pieces: Sequence[Piece]) -> Iterator[bytes]:
    said = [piece for piece in pieces if piece.adds]
    for are_texts, run in groupby(said, lambda piece: isinstance(piece.value, str)):
        if are_texts:
            yield compose_object({"text": merge_text(list(run)), "type": b'"text"'})
        else:
            yield from (element.raw for element in _elements(list(run)))


def _merge_details(pieces: Sequence[Piece]) -> bytes:
    """Elements of the same index and type as one, in the order of first appearance."""
    merged: dict[object, list[Piece]] = {}
    for position, element in enumerate(_elements(pieces)):
        merged.setdefault(_detail_key(element) or position, []).append(element)
    groups = {
        str(key): partial(_whole, group) if isinstance(key, int) else partial(_merge_object, group, _DETAIL_TEXTS)
        for key, group in merged.items()
    }
    return compose_array(earliest(groups).values())


def _whole(group: Sequence[Piece]) -> bytes:
    return group[0].raw


def _merge_calls(pieces: Sequence[Piece]) -> bytes:
    """The calls by their index, which is left out."""
    indexed: dict[int, list[Piece]] = {}
    alone: list[bytes] = []
    for call in _elements(pieces):
        index = _call_index(call)
        if index is None:
            alone.append(call.raw)
        else:
            indexed.setdefault(index, []).append(call)
    made = earliest({str(index): partial(_merge_call, indexed[index]) for index in sorted(indexed)})
    return compose_array([*made.values(), *alone])


def _call_index(call: Piece) -> int | None:
    index = _member(call, "index")
    if index is None:
        return None
    if type(index) is not int or index < 0:
        raise _Contradiction(call)
    return index


def _merge_call(fragments: Sequence[Piece]) -> bytes:
    gathered = _gather(fragments)
    gathered.pop("index")
    made = {
        name: partial(_merge_function if name == "function" else merge_whole, pieces)
        for name, pieces in sorted(gathered.items())
    }
    return compose_object(earliest(made))


def _merge_function(pieces: Sequence[Piece]) -> bytes:
    said = [piece for piece in pieces if piece.says]
    odd = [piece for piece in said if not isinstance(piece.value, dict)]
    if odd == said:
        return merge_whole(pieces)
    if odd:
        first = next(piece for piece in said if isinstance(piece.value, dict))
        raise _Contradiction(max(odd[0], first, key=lambda piece: piece.number))
    return _merge_object(said, _ARGUMENTS)


def _merge_object(fragments: Sequence[Piece], texts: frozenset[str]) -> bytes:
    """One object of which fragments came; `texts` names the members that are joined."""
    made = {
        name: partial(merge_text if name in texts else merge_whole, pieces)
        for name, pieces in sorted(_gather(fragments).items())
    }
    return compose_object(earliest(made))


def _gather(fragments: Sequence[Piece]) -> dict[str, list[Piece]]:
    gathered: dict[str, list[Piece]] = {}
    for fragment in fragments:
        values = fragment.value if isinstance(fragment.value, dict) else {}
        for name, raw in members(fragment.raw).items():
            gathered.setdefault(name, []).append(Piece(values[name], raw, fragment.number))
    return gathered


def _detail_key(element: Piece) -> tuple[int, str] | None:
    index, kind = _member(element, "index"), _member(element, "type")
    return (index, kind) if type(index) is int and isinstance(kind, str) else None


def _member(element: Piece, name: str) -> JsonValue:
    return element.value.get(name) if isinstance(element.value, dict) else None


def _elements(pieces: Sequence[Piece]) -> list[Piece]:
    """The elements of every array; raises Inadmissible at a value of another type."""
    elements: list[Piece] = []
    for piece in pieces:
        if isinstance(piece.value, list):
            raws = items(piece.raw)
            elements += [Piece(value, raw, piece.number) for value, raw in zip(piece.value, raws, strict=True)]
        elif piece.says:
            listed = next((one for one in pieces if isinstance(one.value, list)), piece)
            raise _Contradiction(max(piece, listed, key=lambda one: one.number))
    return elements


_MERGED_ARRAYS: Mapping[str, Callable[[Sequence[Piece]], bytes]] = {
    "content": _merge_content,
    "reasoning_details": _merge_details,
    "tool_calls": _merge_calls,
}
"""Arrays whose elements are more than strung together, by their names in a message."""
