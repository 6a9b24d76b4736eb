"""When two values of a stream say the same (design/native-harness.md, section 5: Argument matching, Terminal history).

Scalars are compared strictly: true is not 1, "1" is not 1; numbers by their value. What a comparison needs of a message
is kept as a fingerprint, so that a run's memory does not grow with the size of its messages.
"""

from typing import Final

from adapter_svc.admission.strict_json import JsonValue
from adapter_svc.native.framing import Record
from countersign.kit.canonical import canonical_json, sha256

NULL_TEXT: Final = "null"
"""What some models write for an argument that they leave out."""


def same(first: JsonValue, second: JsonValue) -> bool:
    """Whether two values are the same JSON."""
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(same(value, second[key]) for key, value in first.items())
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(same(a, b) for a, b in zip(first, second, strict=True))
    return _same_scalar(first, second)


def _same_scalar(first: JsonValue, second: JsonValue) -> bool:
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    if isinstance(first, int | float) and isinstance(second, int | float):
        return first == second
    return type(first) is type(second) and first == second


def arguments_match(executed: JsonValue, declared: JsonValue) -> bool:
    """Whether a call was executed with the arguments that were declared.

    A declared member may be missing from the execution where it is null or the text "null"; nothing may be added.
    """
    if isinstance(executed, dict) and isinstance(declared, dict):
        left_out = [value for key, value in declared.items() if key not in executed]
        return all(value is None or value == NULL_TEXT for value in left_out) and all(
            key in declared and arguments_match(value, declared[key]) for key, value in executed.items()
        )
    if isinstance(executed, list) and isinstance(declared, list):
        return len(executed) == len(declared) and all(
            arguments_match(a, b) for a, b in zip(executed, declared, strict=True)
        )
    return _same_scalar(executed, declared)


def fingerprint(value: JsonValue) -> bytes:
    """A digest that two values share exactly where they are the same."""
    return sha256(canonical_json(_plain(value)))


def without(record: Record, *keys: str) -> Record:
    """`record` less these members."""
    return {key: value for key, value in record.items() if key not in keys}


def _plain(value: JsonValue) -> JsonValue:
    """`value` with every whole number spelled as one."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
