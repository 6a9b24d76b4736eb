"""Exact money: a currency and a whole number of nano-units, never a float (design/ledger.md)."""

import math
import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction

NANOS_PER_UNIT = 1_000_000_000
MAX_EXPONENT = 400
"""A decimal exponent beyond this, either way, is no amount of money."""

_PLAIN = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,9}))?")

MAX_NANOS = 2**63 - 1
"""What a signed 64-bit column holds: about 9.2 billion units."""


class MoneyError(ValueError):
    """An amount that is not exact money: not a number, out of range, or of another currency."""


@dataclass(frozen=True, slots=True, order=True)
class Money:
    """An amount of `nanos` nano-units of `currency` (ISO 4217 code)."""

    currency: str
    nanos: int

    def __post_init__(self) -> None:
        if abs(self.nanos) > MAX_NANOS:
            raise MoneyError("the amount is beyond 9.2 billion units")

    def __add__(self, other: "Money") -> "Money":
        return Money(self._same(other), self.nanos + other.nanos)

    def __sub__(self, other: "Money") -> "Money":
        return Money(self._same(other), self.nanos - other.nanos)

    def _same(self, other: "Money") -> str:
        if other.currency != self.currency:
            raise MoneyError(f"cannot combine {self.currency} with {other.currency}")
        return self.currency

    def __str__(self) -> str:
        return f"{nanos_to_text(self.nanos)} {self.currency}"


def nanos_to_text(nanos: int) -> str:
    """Write `nanos` as plain decimal units, with no trailing zeros: 1500000000 becomes '1.5'."""
    sign = "-" if nanos < 0 else ""
    units, rest = divmod(abs(nanos), NANOS_PER_UNIT)
    fraction = f"{rest:09d}".rstrip("0")
    return f"{sign}{units}.{fraction}" if fraction else f"{sign}{units}"


def text_to_nanos_rounded_up(text: str) -> int:
    """Read decimal units and round up to the next nano-unit (design/ledger.md, RecordReceipt).

    Raises MoneyError where `text` is not a finite decimal number of at most 64 characters, or out of range.
    """
    if len(text) > 64 or text != text.strip() or "_" in text or not text.isascii():
        raise MoneyError("not a decimal number")
    plain = _PLAIN.fullmatch(text)
    if plain is not None:
        # The usual form needs no arithmetic beyond whole numbers.
        return int(plain[1]) * NANOS_PER_UNIT + int((plain[2] or "").ljust(9, "0"))
    nanos = math.ceil(_exact_nanos(text))
    if abs(nanos) > MAX_NANOS:
        raise MoneyError("the amount is beyond 9.2 billion units")
    return nanos


def text_to_nanos_exact(text: str) -> int:
    """Read decimal units that are a whole number of nano-units.

    Raises MoneyError where `text` is not such a number.
    """
    nanos = text_to_nanos_rounded_up(text)
    if _exact_nanos(text) != nanos:
        raise MoneyError("finer than a nano-unit")
    return nanos


def _exact_nanos(text: str) -> Fraction:
    """The amount in nano-units, exactly: decimal arithmetic would round at its context's precision."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise MoneyError("not a decimal number") from None
    if not value.is_finite() or abs(value.adjusted()) > MAX_EXPONENT:
        raise MoneyError("not a finite amount in range")
    return Fraction(value) * NANOS_PER_UNIT
