"""The one strict JSON reader (design/admission.md, Reading bytes).

Decisions that the design leaves open:

- Order: size, encoding, syntax, duplicate keys, then depth and numbers. Broken syntax outranks a duplicate key wherever
  the two stand.
- A number is held when it lies within a double's range (that of int64 is inside it); an integer keeps its digits. Real
  servers send seeds beyond int64. Anything else (1e400) is well-formed JSON beyond a limit: `LIMIT_EXCEEDED`.
- Depth counts open containers: `[[1]]` is 2.
"""

import math
from collections.abc import Iterable

import jiter

from adapter_svc.admission.limits import Limits
from adapter_svc.admission.verdict import Inadmissible, Reason

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]

_BOM = b"\xef\xbb\xbf"
_DUPLICATE = "Detected duplicate key"
_BEYOND_PARSER = ("recursion limit exceeded", "number out of range")
"""What jiter says of well-formed input that is far beyond the limits: 200 levels, 4,300 digits."""


def read_strict(data: bytes, limits: Limits, where: str = "") -> JsonValue:
    """Read `data` as one strict JSON text.

    Raises Inadmissible with `MALFORMED_JSON`, `DUPLICATE_KEY` or `LIMIT_EXCEEDED`, at `where`.
    """
    if len(data) > limits.body_bytes:
        raise Inadmissible(Reason.LIMIT_EXCEEDED, where)
    _require_plain_utf8(data, where)
    value = _parse(data, where)
    if not _within(value, limits.depth):
        raise Inadmissible(Reason.LIMIT_EXCEEDED, where)
    return value


def _require_plain_utf8(data: bytes, where: str) -> None:
    if data.startswith(_BOM):
        raise Inadmissible(Reason.MALFORMED_JSON, where)
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        raise Inadmissible(Reason.MALFORMED_JSON, where) from None


def _parse(data: bytes, where: str) -> JsonValue:
    try:
        return _jiter(data, catch_duplicate_keys=True)
    except ValueError as failure:
        message = str(failure)
    if message.startswith(_DUPLICATE):
        # The parser stops at the first of two faults: read on, so that syntax is judged before keys.
        try:
            _jiter(data, catch_duplicate_keys=False)
        except ValueError as failure:
            message = str(failure)
    raise Inadmissible(_reason(message), where)


def _jiter(data: bytes, *, catch_duplicate_keys: bool) -> JsonValue:
    value: JsonValue = jiter.from_json(
        data, allow_inf_nan=False, cache_mode="none", catch_duplicate_keys=catch_duplicate_keys
    )
    return value


def _reason(parser_message: str) -> Reason:
    if parser_message.startswith(_DUPLICATE):
        return Reason.DUPLICATE_KEY
    return Reason.LIMIT_EXCEEDED if parser_message.startswith(_BEYOND_PARSER) else Reason.MALFORMED_JSON


def _within(value: JsonValue, max_depth: int) -> bool:
    """Whether every number is held and no container is nested deeper than `max_depth`."""
    level: list[JsonValue] = [value]
    for depth in range(max_depth + 1):
        if not all(_holds(item) for item in level if isinstance(item, int | float)):
            return False
        containers = [item for item in level if isinstance(item, dict | list)]
        if not containers or depth == max_depth:
            return not containers
        level = [child for item in containers for child in _children(item)]
    return False


def _children(container: dict[str, JsonValue] | list[JsonValue]) -> Iterable[JsonValue]:
    return container.values() if isinstance(container, dict) else container


def _holds(number: int | float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:
        return False
