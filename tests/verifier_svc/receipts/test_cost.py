"""Costs are recomputed exactly and round up (design/ledger.md, RecordReceipt)."""

import pytest

from verifier_svc.receipts.cost import CostBasis, Price, exact_amount, recomputed_nanos
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
