"""Amounts and prices as a plan writes them: exact decimals, as text or TOML numbers (design/study.md, Price plan)."""

from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

from pydantic import BeforeValidator

from countersign.kit.money import MoneyError, nanos_to_text, text_to_nanos_exact

MAX_FRACTION_DIGITS = 20
MIN_PRICE_PER_MILLION = Decimal("0.0001")
MAX_PRICE_PER_MILLION = Decimal(100_000)
"""A nonzero price per million tokens beyond these is a mistyped unit, such as a price per token."""


def decimal_text(value: Any) -> str:
    """A TOML number, or a text that holds one, as plain decimal text. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
        raise ValueError("must be a decimal number")
    try:
        number = Decimal(value)
    except InvalidOperation:
        raise ValueError("must be a decimal number") from None
    if not number.is_finite() or number < 0 or number.adjusted() > 18:
        raise ValueError("must be a decimal number, zero or above, in range")
    # No arithmetic: it would round to the context's precision.
    whole, _, fraction = f"{number.copy_abs():f}".partition(".")
    if len(fraction) > MAX_FRACTION_DIGITS:
        raise ValueError(f"must be a decimal number with at most {MAX_FRACTION_DIGITS} digits after the point")
    fraction = fraction.rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole


def amount_text(value: Any) -> str:
    """An amount of money, a whole number of nano-units, as its plain decimal text. Raises ValueError."""
    try:
        return nanos_to_text(text_to_nanos_exact(decimal_text(value)))
    except MoneyError as error:
        raise ValueError(f"must be an amount of money: {error}") from None


def price_text(value: Any) -> str:
    """A price per million tokens as plain decimal text. Raises ValueError, also where the unit looks mistyped."""
    text = decimal_text(value)
    price = Decimal(text)
    if price and not MIN_PRICE_PER_MILLION <= price <= MAX_PRICE_PER_MILLION:
        raise ValueError(
            f"must be a price per million tokens, {MIN_PRICE_PER_MILLION} to {MAX_PRICE_PER_MILLION}, or zero"
        )
    return text


def plain_number(value: Any) -> Any:
    """A TOML number as JSON has it: a float where it was written with a fraction; anything else unchanged."""
    return float(value) if isinstance(value, Decimal) else value


def plain_json(value: Any) -> Any:
    """A TOML value as JSON has it, all the way down."""
    if isinstance(value, dict):
        return {key: plain_json(member) for key, member in value.items()}
    if isinstance(value, list):
        return [plain_json(member) for member in value]
    return plain_number(value)


Amount = Annotated[str, BeforeValidator(amount_text)]
PricePerMillion = Annotated[str, BeforeValidator(price_text)]
Number = Annotated[float, BeforeValidator(plain_number)]
