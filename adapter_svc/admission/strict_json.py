"""The one strict JSON reader (design/admission.md, Reading bytes).

Decisions that the design leaves open:

- Order: the limits that guard the reader itself, size and then (once the encoding is known to be good) depth; then
  syntax, duplicate keys, numbers. Broken syntax outranks a duplicate key wherever the two stand.
- A number is held when it lies within a double's range (that of int64 is inside it); an integer keeps its digits. Real
  servers send seeds beyond int64. Anything else (1e400) is well-formed JSON beyond a limit: `LIMIT_EXCEEDED`.
- Depth counts open brackets outside strings, in broken text too: `[[1]]` is 2.
"""

import math
import re

import jiter

from adapter_svc.admission.limits import Limits
from adapter_svc.admission.verdict import Inadmissible, Reason

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]

_BOM = b"\xef\xbb\xbf"
_DUPLICATE = "Detected duplicate key"
_NUMBER_BEYOND_PARSER = "number out of range"
"""What jiter says, before it has seen the rest, of an integer of more than 4,300 digits."""
_DIGITS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[0-9]+', re.DOTALL)
"""Strings, ended or not, and runs of digits outside them: each is taken whole, so that the search stays linear."""
_DIGITS_KEPT = 400
"""Enough to be beyond a double still."""
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def read_strict(data: bytes, limits: Limits, where: str = "") -> JsonValue:
    """Read `data` as one strict JSON text.

    Raises Inadmissible with `MALFORMED_JSON`, `DUPLICATE_KEY` or `LIMIT_EXCEEDED`, at `where`.
    """
    if len(data) > limits.body_bytes:
        raise Inadmissible(Reason.LIMIT_EXCEEDED, where)
    _require_plain_utf8(data, where)
    if _is_nested_beyond(data, limits.depth):
        raise Inadmissible(Reason.LIMIT_EXCEEDED, where)
    value = _parse(data, where)
    if not _all_held(value):
        raise Inadmissible(Reason.LIMIT_EXCEEDED, where)
    return value


def _require_plain_utf8(data: bytes, where: str) -> None:
    if data.startswith(_BOM):
        raise Inadmissible(Reason.MALFORMED_JSON, where)
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        raise Inadmissible(Reason.MALFORMED_JSON, where) from None


def _is_nested_beyond(data: bytes, max_depth: int) -> bool:
    """Whether more than `max_depth` brackets are ever open outside strings; needs no well-formed text."""
    if data.count(b"[") + data.count(b"{") <= max_depth:
        return False
    depth, in_string = 0, False
    for part in data.split(b'"'):
        if in_string:
            # A quote after an odd number of backslashes is a character of the string.
            in_string = (len(part) - len(part.rstrip(b"\\"))) % 2 == 1
            continue
        for bracket in part.translate(None, _NOT_BRACKETS):
            depth += 1 if bracket in b"[{" else -1
            if depth > max_depth:
                return True
        in_string = True
    return False


def _parse(data: bytes, where: str) -> JsonValue:
    try:
        return _jiter(data, catch_duplicate_keys=True)
    except ValueError as failure:
        message = str(failure)
    if message.startswith(_NUMBER_BEYOND_PARSER):
        return _parse(_DIGITS.sub(_shortened, data), where)
    if message.startswith(_DUPLICATE) and not _is_malformed(data):
        raise Inadmissible(Reason.DUPLICATE_KEY, where)
    raise Inadmissible(Reason.MALFORMED_JSON, where)


def _shortened(match: re.Match[bytes]) -> bytes:
    found = match[0]
    return found if found.startswith(b'"') else found[:_DIGITS_KEPT]


def _is_malformed(data: bytes) -> bool:
    """Whether the syntax is broken: the parser stops at the first of two faults, a key given twice included."""
    try:
        _jiter(data, catch_duplicate_keys=False)
    except ValueError as failure:
        beyond = str(failure).startswith(_NUMBER_BEYOND_PARSER)
        return _is_malformed(_DIGITS.sub(_shortened, data)) if beyond else True
    return False


def _jiter(data: bytes, *, catch_duplicate_keys: bool) -> JsonValue:
    value: JsonValue = jiter.from_json(
        data, allow_inf_nan=False, cache_mode="none", catch_duplicate_keys=catch_duplicate_keys
    )
    return value


def _all_held(value: JsonValue) -> bool:
    """Whether every number is one that a double holds."""
    if isinstance(value, dict):
        return all(_all_held(child) for child in value.values())
    if isinstance(value, list):
        return all(_all_held(child) for child in value)
    return not isinstance(value, int | float) or _holds(value)


def _holds(number: int | float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:
        return False
