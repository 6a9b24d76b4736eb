"""Strict JSON by way of the standard library's parser (design/admission.md, Reading bytes; RFC 8259).

First come the limits that guard the reader itself, size and depth; then the encoding and the syntax, lone surrogates
with it; then keys given twice; then numbers that neither an int64 nor a double holds. The parser hands over objects as
lists of pairs and numbers as spelled; a walk that knows where it is then notes what is wrong.
"""

import json
import math
import re
from dataclasses import dataclass
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


_ORDER = (Reason.MALFORMED_JSON, Reason.DUPLICATE_KEY, Reason.LIMIT_EXCEEDED)
"""Of several faults, the first kind counts, wherever they stand."""


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
    _check_depth(text, limits.max_depth)
    try:
        raw = json.loads(
            text,
            object_pairs_hook=_Pairs,
            parse_int=_whole_number,
            parse_float=_fraction,
            parse_constant=_refuse_constant,
        )
    except ValueError:
        raise Inadmissible(Reason.MALFORMED_JSON) from None
    walk = _Walk([])
    value = walk.settle(raw, "")
    if walk.faults:
        raise min(walk.faults, key=lambda fault: _ORDER.index(fault.unknown.reason))
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


@dataclass(frozen=True, slots=True)
class _Walk:
    """Turns what the parser handed over into plain values, and notes every fault in the order of the text."""

    faults: list[Inadmissible]

    def settle(self, raw: Any, where: str) -> Any:
        if isinstance(raw, _Pairs):
            return self._object(raw.pairs, where)
        if isinstance(raw, list):
            return [self.settle(item, f"{where}/{index}") for index, item in enumerate(raw)]
        if isinstance(raw, str):
            self._check_unicode(raw, where)
        if isinstance(raw, _TooLarge):
            self.faults.append(Inadmissible(Reason.LIMIT_EXCEEDED, where))
        return raw

    def _object(self, pairs: list[tuple[str, Any]], where: str) -> dict[str, Any]:
        settled: dict[str, Any] = {}
        for key, value in pairs:
            self._check_unicode(key, where)
            place = child(where, key)
            if key in settled:
                self.faults.append(Inadmissible(Reason.DUPLICATE_KEY, place))
            settled[key] = self.settle(value, place)
        return settled

    def _check_unicode(self, text: str, where: str) -> None:
        if _SURROGATE.search(text):
            self.faults.append(Inadmissible(Reason.MALFORMED_JSON, where))


def child(where: str, key: str | int) -> str:
    """The JSON pointer of `key` under `where` (RFC 6901)."""
    return f"{where}/{str(key).replace('~', '~0').replace('/', '~1')}"
