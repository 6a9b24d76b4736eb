"""JSON as ECMAScript's `JSON.stringify` writes it without spaces (ECMA-262, SerializeJSONProperty, Number::toString).

The harnesses' own world: a line that reads back to itself there has one spelling for every number and text.
"""

import json
from decimal import Decimal

from adapter_svc.admission.strict_json import JsonValue

_LARGEST_PLAIN_EXPONENT = 21
_SMALLEST_PLAIN_EXPONENT = -6


def stringify(value: JsonValue) -> str:
    """`value` as that function writes it; members stay in their order."""
    if isinstance(value, dict):
        members = (f"{_quoted(key)}:{stringify(item)}" for key, item in value.items())
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(stringify(item) for item in value) + "]"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _number(float(value))
    return {None: "null", True: "true", False: "false"}[value]


def _quoted(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _number(value: float) -> str:
    """The shortest digits that read back to the same double, and where the point goes."""
    if value == 0:
        return "0"
    sign, digit_tuple, _ = Decimal(repr(value)).normalize().as_tuple()
    exponent = Decimal(repr(value)).adjusted() + 1
    digits = "".join(map(str, digit_tuple))
    minus = "-" if sign else ""
    if len(digits) <= exponent <= _LARGEST_PLAIN_EXPONENT:
        return minus + digits.ljust(exponent, "0")
    if 0 < exponent <= _LARGEST_PLAIN_EXPONENT:
        return f"{minus}{digits[:exponent]}.{digits[exponent:]}"
    if _SMALLEST_PLAIN_EXPONENT < exponent <= 0:
        return f"{minus}0.{'0' * -exponent}{digits}"
    mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return f"{minus}{mantissa}e{exponent - 1:+d}"
