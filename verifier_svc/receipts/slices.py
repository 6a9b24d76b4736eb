"""The bytes of one value inside a JSON text, exactly as they stand there, and texts made of such bytes
(design/admission.md, Continuation)."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from countersign.kit.canonical import canonical_json

_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()

Span = tuple[int, int]


def raw_slice(data: bytes, path: Sequence[str | int]) -> bytes | None:
    """The bytes of the value at `path` in `data`, which must be strict JSON already; None where there is no
    such value."""
    text = data.decode("utf-8")
    span: Span | None = (0, len(text))
    for step in path:
        if span is None:
            return None
        span = _member(text, span, step)
    return None if span is None else text[span[0] : span[1]].strip(" \t\n\r").encode("utf-8")


def raw_elements(array: bytes) -> list[bytes]:
    """The bytes of each element of `array`, which must be a strict JSON array."""
    text = array.decode("utf-8")
    return [text[start:end].encode("utf-8") for _key, (start, end) in _children(text, 0)]


def raw_members(data: bytes) -> dict[str, bytes]:
    """The bytes of each member of `data`, which must be a strict JSON object."""
    text = data.decode("utf-8")
    return {key: text[start:end].encode("utf-8") for key, (start, end) in _children(text, 0) if key is not None}


def written_array(elements: Sequence[bytes]) -> bytes:
    """The array of elements that are JSON texts already."""
    return b"[" + b",".join(elements) + b"]"


def written_object(members: Mapping[str, bytes]) -> bytes:
    """The object of members that are JSON texts already, keys sorted."""
    parts = (canonical_json(name) + b":" + members[name] for name in sorted(members))
    return b"{" + b",".join(parts) + b"}"


def _member(text: str, span: Span, step: str | int) -> Span | None:
    if text[_after_space(text, span[0])] != ("{" if isinstance(step, str) else "["):
        return None
    for index, (key, found) in enumerate(_children(text, span[0])):
        if (key if isinstance(step, str) else index) == step:
            return found
    return None


def _children(text: str, position: int) -> Iterator[tuple[str | None, Span]]:
    """Key (None in an array) and span of each value directly inside the container that starts at
    `position`."""
    position = _after_space(text, position)
    is_object = text[position] == "{"
    position = _after_space(text, position + 1)
    while text[position] not in "]}":
        key = None
        if is_object:
            key, position = _DECODER.raw_decode(text, position)
            colon = _after_space(text, position)
            position = _after_space(text, colon + 1)
        _value, end = _DECODER.raw_decode(text, position)
        yield key, (position, end)
        position = _after_space(text, end)
        if text[position] == ",":
            position = _after_space(text, position + 1)


def _after_space(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return found.end() if found else position
