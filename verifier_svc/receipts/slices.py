"""The bytes of one value inside a JSON text, exactly as they stand there (design/admission.md,
Continuation)."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from countersign.kit.canonical import canonical_json

_TOKEN = re.compile(rb'[ \t\n\r]*("[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},:]|[^\s\[\]{},:"]+)', re.DOTALL)

Span = tuple[int, int]


def raw_slice(text: bytes, path: Sequence[str | int]) -> bytes | None:
    """The bytes of the value at `path` in `text`, which must be strict JSON already; None where there is no
    such value."""
    span: Span | None = (0, len(text))
    for step in path:
        if span is None:
            return None
        span = _member(text, span, step)
    return None if span is None else text[span[0] : span[1]].strip(b" \t\n\r")


def raw_elements(array: bytes) -> list[bytes]:
    """The bytes of each element of `array`, which must be a strict JSON array."""
    return [array[start:end] for _key, (start, end) in _children(array, 0)]


def raw_members(text: bytes) -> dict[str, bytes]:
    """The bytes of each member of `text`, which must be a strict JSON object."""
    found = _children(text, 0)
    return {key: text[start:end] for key, (start, end) in found if key is not None}


def written_array(elements: Sequence[bytes]) -> bytes:
    """The array of elements that are JSON texts already."""
    return b"[" + b",".join(elements) + b"]"


def written_object(members: Mapping[str, bytes]) -> bytes:
    """The object of members that are JSON texts already, keys sorted."""
    parts = (canonical_json(name) + b":" + members[name] for name in sorted(members))
    return b"{" + b",".join(parts) + b"}"


def _member(text: bytes, span: Span, step: str | int) -> Span | None:
    opening = _TOKEN.match(text, span[0])
    wanted = b"{" if isinstance(step, str) else b"["
    if opening is None or opening.group(1) != wanted:
        return None
    for index, (key, found) in enumerate(_children(text, span[0])):
        if (key if isinstance(step, str) else index) == step:
            return found
    return None


def _children(text: bytes, position: int) -> Iterator[tuple[str | None, Span]]:
    """Key (None in an array) and span of each value directly inside the container that starts at
    `position`."""
    depth, start, end, key = 0, -1, -1, None
    is_object = expects_key = False
    for token in _TOKEN.finditer(text, position):
        mark = token.group(1)
        if depth == 0:
            depth, is_object, expects_key = 1, mark == b"{", mark == b"{"
            continue
        if depth == 1 and mark in (b",", b"]", b"}"):
            if start >= 0:
                yield key, (start, end)
            if mark != b",":
                return
            start, key, expects_key = -1, None, is_object
            continue
        if depth == 1 and expects_key:
            key, expects_key = json.loads(mark), False
            continue
        if depth == 1 and mark == b":":
            continue
        start, end = (start if start >= 0 else token.start(1)), token.end(1)
        depth += (mark in (b"[", b"{")) - (mark in (b"]", b"}"))
