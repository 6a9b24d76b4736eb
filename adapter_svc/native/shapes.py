"""Reading members of a record: each promises its type, or the record is malformed."""

import math
from typing import Final

from adapter_svc.admission.strict_json import JsonValue
from adapter_svc.native.framing import Record
from adapter_svc.native.verdict import Malformed

MAX_ID_CHARACTERS: Final = 512
"""Longer than any id that a harness was seen to write; a bound on what is kept of each."""
MAX_COUNT: Final = 10**12
"""More tokens than any message has; the sum over a stream's records still fits into 64 bits."""


def need(holds: bool, detail: str) -> None:
    """Raises Malformed with `detail` unless it `holds`."""
    if not holds:
        raise Malformed(detail)


def text(record: Record, key: str) -> str:
    """A text, which may be empty."""
    value = record.get(key)
    if not isinstance(value, str):
        raise Malformed(f"{key} is not a text")
    return value


def name(record: Record, key: str) -> str:
    """A text of 1 to 512 characters: an id or a name."""
    value = text(record, key)
    need(1 <= len(value) <= MAX_ID_CHARACTERS, f"{key} must have 1 to {MAX_ID_CHARACTERS} characters")
    return value


def flag(record: Record, key: str) -> bool:
    """true or false."""
    value = record.get(key)
    if not isinstance(value, bool):
        raise Malformed(f"{key} is neither true nor false")
    return value


def child(record: Record, key: str) -> Record:
    """An object."""
    value = record.get(key)
    if not isinstance(value, dict):
        raise Malformed(f"{key} is not an object")
    return value


def items(record: Record, key: str) -> list[JsonValue]:
    """An array."""
    value = record.get(key)
    if not isinstance(value, list):
        raise Malformed(f"{key} is not an array")
    return value


def objects(record: Record, key: str) -> list[Record]:
    """An array of objects."""
    found = []
    for value in items(record, key):
        if not isinstance(value, dict):
            raise Malformed(f"{key} holds something that is not an object")
        found.append(value)
    return found


def count(record: Record, key: str) -> int:
    """A whole number from 0 to 10^12."""
    value = record.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_COUNT:
        raise Malformed(f"{key} is not a whole number from 0 to {MAX_COUNT}")
    return value


def optional_count(record: Record, key: str) -> int | None:
    """A whole number as `count` reads it, or None where there is no such member."""
    return count(record, key) if key in record else None


def is_number(value: JsonValue) -> bool:
    """Whether `value` is a finite number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def number(record: Record, key: str) -> int | float:
    """A finite number from 0."""
    value = record.get(key)
    if not isinstance(value, int | float) or not is_number(value) or value < 0:
        raise Malformed(f"{key} is not a number from 0")
    return value


def is_one_of(value: JsonValue, texts: frozenset[str]) -> bool:
    """Whether `value` is one of these texts; it may be anything."""
    return isinstance(value, str) and value in texts


def optional_text(record: Record, key: str) -> str:
    """A text; empty where there is no such member, or null."""
    return "" if record.get(key) is None else text(record, key)
