"""Strict JSON by way of the standard library's parser (design/admission.md, Reading bytes; RFC 8259).

First come the limits that guard the reader itself, size and depth; then the encoding and the syntax, lone surrogates
with it; then keys given twice; then numbers that neither an int64 nor a double holds. The parser hands over objects as
lists of pairs and numbers as spelled; a walk that knows where it is then notes what is wrong.
"""

import json
import math
import re
from dataclasses import dataclass, field
from typing import Any

from verifier_svc.receipts.verdicts import Inadmissible, Reason

_BOM = "\ufeff"
_SURROGATE = re.compile("[\ud800-\udfff]")
_DOUBLE_DIGITS = 309
"""Digits of the largest finite double; a longer whole number cannot be held."""
_STRUCTURE = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[{]|[\]}]', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a reader takes on: bytes of the whole text, and containers inside one another."""

    max_bytes: int = 8 * 1024 * 1024
    max_depth: int = 64


@dataclass(frozen=True, slots=True)
class _Pairs:
    """An object as it was written, repeated keys and all."""

    pairs: list[tuple[str, Any]]


class _TooLarge:
    """A number that no int64 and no double holds."""


class _ConstantFound(ValueError):
    """NaN or Infinity, which JSON does not have."""


def read(data: bytes, limits: Limits) -> Any:
    """The value that `data` spells; raises Inadmissible: MALFORMED_JSON, DUPLICATE_KEY or LIMIT_EXCEEDED."""
    if len(data) > limits.max_bytes:
        raise Inadmissible(Reason.LIMIT_EXCEEDED)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise Inadmissible(Reason.MALFORMED_JSON) from None
    if text.startswith(_BOM):
        raise Inadmissible(Reason.MALFORMED_JSON)
    if text.count("[") + text.count("{") > limits.max_depth:
        _check_depth(text, limits.max_depth)
    try:
        raw = _DECODER.decode(text)
    except ValueError:
        raise Inadmissible(Reason.MALFORMED_JSON) from None
    walk = _Walk()
    value = walk.settle(raw)
    if walk.faults:
        walk.raise_first()
    return value


def _check_depth(text: str, max_depth: int) -> None:
    depth = 0
    for match in _STRUCTURE.finditer(text):
        mark = match.group()
        if mark in "[{":
            depth += 1
            if depth > max_depth:
                raise Inadmissible(Reason.LIMIT_EXCEEDED)
        elif mark in "]}":
            depth -= 1


def _whole_number(spelling: str) -> int | _TooLarge:
    if len(spelling.lstrip("-")) > _DOUBLE_DIGITS or not math.isfinite(float(spelling)):
        return _TooLarge()
    return int(spelling)


def _fraction(spelling: str) -> float | _TooLarge:
    value = float(spelling)
    return value if math.isfinite(value) else _TooLarge()


def _refuse_constant(name: str) -> Any:
    raise _ConstantFound(name)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_Pairs, parse_int=_whole_number, parse_float=_fraction, parse_constant=_refuse_constant
)


@dataclass(slots=True)
class _Walk:
    """Turns what the parser handed over into plain values; keeps the place of the first fault of each kind.

    `path` holds the steps to where the walk is: a place is written for a fault alone, because keys can be long.
    """

    path: list[str | int] = field(default_factory=list)
    faults: dict[Reason, str] = field(default_factory=dict)

    def settle(self, raw: Any) -> Any:
        if isinstance(raw, _Pairs):
            return self._object(raw.pairs)
        if isinstance(raw, list):
            return self._array(raw)
        if isinstance(raw, str):
            self._check_unicode(raw)
        elif isinstance(raw, _TooLarge):
            self._note(Reason.LIMIT_EXCEEDED)
        return raw

    def raise_first(self) -> None:
        """Of several faults the first kind in this order counts, wherever they stand."""
        for reason in (Reason.MALFORMED_JSON, Reason.DUPLICATE_KEY, Reason.LIMIT_EXCEEDED):
            if reason in self.faults:
                raise Inadmissible(reason, self.faults[reason])

    def _array(self, raw: list[Any]) -> list[Any]:
        settled = []
        for index, item in enumerate(raw):
            self.path.append(index)
            settled.append(self.settle(item))
            self.path.pop()
        return settled

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        settled: dict[str, Any] = {}
        for key, value in pairs:
            self._check_unicode(key)
            self.path.append(key)
            if key in settled:
                self._note(Reason.DUPLICATE_KEY)
            settled[key] = self.settle(value)
            self.path.pop()
        return settled

    def _check_unicode(self, text: str) -> None:
        if not text.isascii() and _SURROGATE.search(text):
            self._note(Reason.MALFORMED_JSON)

    def _note(self, reason: Reason) -> None:
        if reason not in self.faults:
            self.faults[reason] = "".join(child("", step) for step in self.path)


def child(where: str, key: str | int) -> str:
    """The JSON pointer of `key` under `where` (RFC 6901)."""
    return f"{where}/{str(key).replace('~', '~0').replace('/', '~1')}"
