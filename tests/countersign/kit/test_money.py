"""Exact money."""

from decimal import Decimal

import pytest
from google.type import money_pb2
from hypothesis import given
from hypothesis import strategies as st

from countersign.kit.money import (
    MAX_NANOS,
    Money,
    MoneyError,
    nanos_to_text,
    text_to_nanos_exact,
    text_to_nanos_rounded_up,
)
from countersign.kit.money_wire import from_wire, to_wire

NANOS = st.integers(-MAX_NANOS, MAX_NANOS)


@given(NANOS)
def test_text_and_wire_keep_every_nano(nanos: int) -> None:
    money = Money("USD", nanos)
    assert text_to_nanos_exact(nanos_to_text(nanos)) == nanos
    assert from_wire(to_wire(money)) == money


@given(st.decimals(min_value=0, max_value=10**6, allow_nan=False, allow_infinity=False))
def test_rounding_goes_up_and_by_less_than_a_nano(amount: Decimal) -> None:
    text = format(amount, "f")
    if len(text) > 64:
        return
    nanos = text_to_nanos_rounded_up(text)
    assert 0 <= Decimal(nanos) - Decimal(text).scaleb(9) < 1


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("0", 0),
        ("0.0000000001", 1),
        ("1e-9", 1),
        ("1E-80", 1),
        ("0.1000000000000000000000000000000000001", 100_000_001),
        ("0.0123", 12_300_000),
        ("2.5", 2_500_000_000),
        ("007.000000001", 7_000_000_001),
        ("5.", 5_000_000_000),
        (".5", 500_000_000),
        ("999999999.999999999", 999_999_999_999_999_999),
        ("-0", 0),
    ],
)
def test_decimal_text_is_rounded_up_to_nanos(text: str, nanos: int) -> None:
    assert text_to_nanos_rounded_up(text) == nanos


@pytest.mark.parametrize(
    "text", ["", "NaN", "Infinity", "1_0", " 1", "1e400", "abc", "٣", "0x1", "9" * 65, "1e19", "1e999999", "1e-999999"]
)
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(MoneyError):
        text_to_nanos_rounded_up(text)


def test_an_amount_finer_than_a_nano_is_not_exact() -> None:
    with pytest.raises(MoneyError):
        text_to_nanos_exact("0.0000000001")


def test_currencies_do_not_mix() -> None:
    with pytest.raises(MoneyError):
        Money("USD", 1) + Money("EUR", 1)
    assert Money("USD", 3) - Money("USD", 5) == Money("USD", -2)
    assert str(Money("USD", -2_500_000_000)) == "-2.5 USD"


@pytest.mark.parametrize(
    "message",
    [
        money_pb2.Money(currency_code="USD", units=1, nanos=-1),
        money_pb2.Money(currency_code="USD", nanos=1_000_000_000),
        money_pb2.Money(currency_code="", units=1),
        money_pb2.Money(currency_code="usd", units=1),
        money_pb2.Money(currency_code="USD", units=2**62),
    ],
)
def test_a_wire_amount_that_is_not_one_amount_is_refused(message: money_pb2.Money) -> None:
    with pytest.raises(MoneyError):
        from_wire(message)
