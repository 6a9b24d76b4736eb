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
from collections.abc import Iterable

import jiter

from adapter_svc.admission.limits import Limits
from adapter_svc.admission.verdict import Inadmissible, Reason

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]

_BOM = b"\xef\xbb\xbf"
_DUPLICATE = "Detected duplicate key"
_NUMBER_BEYOND_PARSER = "number out of range"
"""What jiter says, having seen no more, of more than 4,300 digits before a point, an exponent or a number's end."""
_NUMBER = re.compile(
    rb'"[^"\\]*(?:\\.[^"\\]*)*"?|-?(?:0(?![0-9])|[1-9][0-9]*)((?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)|[0-9]+', re.DOTALL
)
"""Strings, ended or not, and numbers outside them: each is taken whole, so that the search stays linear.

The group is a number's fraction and exponent. Digits after a zero that begins them are no number, and stay none.
"""
_DIGITS_KEPT = 400
"""Enough to be beyond a double still."""
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def read_strict(data: bytes, limits: Limits, where: str = "") -> JsonValue:
    """Read `data` as one strict JSON text.

    Raises Inadmissible with `MALFORMED_JSON`, `DUPLICATE_KEY` or `LIMIT_EXCEEDED`, at `where`.
    """
    if len(data) > limits.body_bytes:
        raise Inadmissible(Reason.LIMIT_EXCEEDED, where)
    if not data.isascii():
        _require_plain_utf8(data, where)
    try:
        value = _jiter(data, catch_duplicate_keys=True)
    except ValueError as failure:
        # What cannot be read is scanned for its depth, which outranks the syntax; what was read is walked.
        if _is_nested_beyond(data, limits.depth):
            raise Inadmissible(Reason.LIMIT_EXCEEDED, where) from None
        value = _read_despite(str(failure), data, where)
    if not _are_held((value,), limits.depth):
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


def _read_despite(message: str, data: bytes, where: str) -> JsonValue:
    """What the parser refuses with `message` and is JSON all the same; raises Inadmissible for what is not."""
    if message.startswith(_NUMBER_BEYOND_PARSER):
        shortened = _NUMBER.sub(_shortened, data)
        try:
            return _jiter(shortened, catch_duplicate_keys=True)
        except ValueError as failure:
            return _read_despite(str(failure), shortened, where)
    if message.startswith(_DUPLICATE) and not _is_malformed(data):
        raise Inadmissible(Reason.DUPLICATE_KEY, where)
    raise Inadmissible(Reason.MALFORMED_JSON, where)


def _shortened(match: re.Match[bytes]) -> bytes:
    """A long number as the same double, or as another integer that is beyond a double too."""
    found = match[0]
    if len(found) <= _DIGITS_KEPT or found.startswith(b'"'):
        return found
    if not match[1]:
        return found[:_DIGITS_KEPT]
    value = float(found)
    if math.isfinite(value):
        return repr(value).encode()
    return b"-1e999" if value < 0 else b"1e999"


def _is_malformed(data: bytes) -> bool:
    """Whether the syntax is broken: the parser stops at the first of two faults, a key given twice included."""
    try:
        _jiter(data, catch_duplicate_keys=False)
    except ValueError as failure:
        beyond = str(failure).startswith(_NUMBER_BEYOND_PARSER)
        return _is_malformed(_NUMBER.sub(_shortened, data)) if beyond else True
    return False


def _jiter(data: bytes, *, catch_duplicate_keys: bool) -> JsonValue:
    value: JsonValue = jiter.from_json(
        data, allow_inf_nan=False, cache_mode="keys", catch_duplicate_keys=catch_duplicate_keys
    )
    return value


def _are_held(values: Iterable[JsonValue], max_depth: int) -> bool:
    """Whether containers are nested at most `max_depth` deep and every number is one that a double holds."""
    for value in values:
        # By exact type, the commonest first: the parser makes no others, and much of an answer's time goes here.
        kind = type(value)
        if kind is str or value is None:
            continue
        if kind is dict or kind is list:
            inner: Iterable[JsonValue] = value.values() if isinstance(value, dict) else value  # type: ignore[assignment]
            if max_depth == 0 or not _are_held(inner, max_depth - 1):
                return False
        elif (kind is float or not _INT64_MIN <= value <= _INT64_MAX) and not _holds(value):  # type: ignore[operator, arg-type]
            return False
    return True


def _holds(number: int | float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:
        return False
