"""What a cost's text is worth."""

import pytest

from ledger_svc.calls import AmountBasis, Cost, CostBasis
from ledger_svc.costs import known_cost_nanos


@pytest.mark.parametrize("basis", [CostBasis.PROVIDER_REPORTED, CostBasis.PRICED_USAGE])
@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("0", 0),
        ("0.0", 0),
        ("1.5", 1_500_000_000),
        ("0.000000001", 1),
        ("0.0000000011", 2),
        ("1e-12", 1),
        ("2.5E-9", 3),
        ("9223372036.854775807", 2**63 - 1),
    ],
)
def test_cost_is_rounded_up_to_the_next_nano_unit(basis: CostBasis, text: str, nanos: int) -> None:
    assert known_cost_nanos(Cost(basis, text), AmountBasis.FLAT) == nanos


@pytest.mark.parametrize(
    "text",
    ["", " ", "-1", "-0.0000000000001", "NaN", "Infinity", "-inf", "free", "1,5", "1_000", "$1", "١", "9223372036.9"],
)
def test_what_is_no_amount_is_not_known(text: str) -> None:
    assert known_cost_nanos(Cost(CostBasis.PROVIDER_REPORTED, text), AmountBasis.FLAT) is None


def test_absent_basis_is_not_known_whatever_the_text_says() -> None:
    assert known_cost_nanos(Cost(CostBasis.UNSPECIFIED, "1"), AmountBasis.FLAT) is None


@pytest.mark.parametrize(
    ("reserved_as", "text", "nanos"),
    [
        (AmountBasis.FREE_ROUTE, "", 0),
        (AmountBasis.FREE_ROUTE, "0.5", 500_000_000),
        (AmountBasis.FREE_ROUTE, "free", None),
        (AmountBasis.FLAT, "", None),
        (AmountBasis.PRICED_BOUND, "0", None),
    ],
)
def test_only_a_free_route_is_free(reserved_as: AmountBasis, text: str, nanos: int | None) -> None:
    assert known_cost_nanos(Cost(CostBasis.FREE_ROUTE, text), reserved_as) == nanos
