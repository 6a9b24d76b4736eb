"""Costs are recomputed exactly and round up (design/ledger.md, RecordReceipt)."""

import pytest

from verifier_svc.receipts.cost import CostBasis, Price, bound_nanos, exact_amount, recomputed_nanos
from verifier_svc.receipts.verdicts import Decoded, Reason, TechnicalUnknown, Usage

UNKNOWN = TechnicalUnknown(Reason.EMPTY_TEXT, "")


def priced(prompt: int, completion: int, price: Price) -> int | None:
    return recomputed_nanos(CostBasis.PRICED_USAGE, Decoded(UNKNOWN, usage=Usage(prompt, completion)), price)


def reported(text: str | None) -> int | None:
    return recomputed_nanos(CostBasis.PROVIDER_REPORTED, Decoded(UNKNOWN, reported_cost=text), None)


def test_usage_times_price_rounds_up_to_a_nano_unit() -> None:
    assert priced(1000, 100, Price("0.15", "0.60")) == 210_000
    assert priced(1, 0, Price("0.0001", "0")) == 1
    assert priced(10, 0, Price("0.0001", "0")) == 1
    assert priced(11, 0, Price("0.0001", "0")) == 2
    assert priced(0, 0, Price("5", "5")) == 0
    assert priced(3, 7, Price("1e-3", "2.5E1")) == 175_003


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("0.000012", 12_000),
        ("4.1400000000000003e-05", 41_401),
        ("0.0000000001", 1),
        ("1e-400", 1),
        ("1e0007", 10_000_000_000_000_000),
        ("25E-0003", 25_000_000),
        ("1e1000", None),
        ("1e-99999999999999", None),
        ("0", 0),
        ("-0", 0),
        ("0.0", 0),
        ("2", 2_000_000_000),
        ("1.0000000000000000000000000000000000000001", 1_000_000_001),
        ("-0.1", None),
        ("NaN", None),
        ("Infinity", None),
        ("", None),
        ("1_0", None),
        (" 1", None),
        ("1" * 65, None),
        (None, None),
    ],
)
def test_the_providers_own_figure_rounds_up_and_nonsense_is_unresolved(text: str | None, nanos: int | None) -> None:
    assert reported(text) == nanos


def test_absent_usage_is_not_zero() -> None:
    assert recomputed_nanos(CostBasis.PRICED_USAGE, Decoded(UNKNOWN), Price("1", "1")) is None
    assert recomputed_nanos(CostBasis.PRICED_USAGE, Decoded(UNKNOWN, usage=Usage(1, 1)), None) is None
    assert priced(1, 1, Price("free", "1")) is None


def test_a_free_route_costs_nothing() -> None:
    assert recomputed_nanos(CostBasis.FREE_ROUTE, Decoded(UNKNOWN), None) == 0


def test_an_amount_is_exact() -> None:
    amount = exact_amount("0.1")
    assert amount is not None
    assert amount * 10 == 1


def by_class(usage: Usage, price: Price) -> int | None:
    return recomputed_nanos(CostBasis.PRICED_USAGE, Decoded(UNKNOWN, usage=usage), price)


def test_each_class_of_tokens_has_its_own_price() -> None:
    usage = Usage(100, 10, cache_read=60, cache_write=30, reasoning=4)
    assert by_class(usage, Price("1", "10", "0.1", "1.25")) == 10_000 + 6_000 + 37_500 + 100_000
    assert by_class(usage, Price("1", "10", "0.1")) == 10_000 + 6_000 + 30_000 + 100_000
    assert by_class(usage, Price("1", "10", "", "1.25")) == 10_000 + 60_000 + 37_500 + 100_000
    assert by_class(usage, Price("1", "10")) == by_class(Usage(100, 10), Price("1", "10", "0.1", "1.25")) == 200_000
    assert by_class(Usage(100, 10, cache_read=0), Price("1", "10", "0.1")) == 200_000
    assert by_class(Usage(1, 0, cache_read=1), Price("1", "1", "0.0001")) == 1


@pytest.mark.parametrize(
    "usage",
    [
        Usage(None, 1),
        Usage(1, None),
        Usage(),
        Usage(None, 1, cache_read=1),
        Usage(5, 1, cache_read=6, is_consistent=False),
        Usage(5, 1, is_consistent=False),
    ],
)
def test_what_is_not_stated_or_contradicts_itself_has_no_price(usage: Usage) -> None:
    assert by_class(usage, Price("1", "1", "1", "1")) is None


@pytest.mark.parametrize("price", [Price("1", "x"), Price("1", "1", "x"), Price("1", "1", "1", "x"), Price("", "1")])
def test_a_price_that_is_no_amount(price: Price) -> None:
    assert by_class(Usage(1, 1), price) is None
    assert bound_nanos(1, 1, price) is None


@pytest.mark.parametrize(
    ("price", "nanos"),
    [
        (Price("1", "2"), 1_000_000 + 1_024_000),
        (Price("1", "2", "0.1", "1.25"), 1_250_000 + 1_024_000),
        (Price("1", "2", "3"), 3_000_000 + 1_024_000),
        (Price("1", "2", "", "0.5"), 1_000_000 + 1_024_000),
        (Price("0.0000001", "0"), 1),
        (None, 0),
    ],
)
def test_a_bound_takes_every_byte_as_the_dearest_input_and_the_whole_cap(price: Price | None, nanos: int) -> None:
    assert bound_nanos(1000, 512, price) == nanos
