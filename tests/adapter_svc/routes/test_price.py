"""What a call may cost and what it did cost (design/ledger.md)."""

import json
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapter_svc.routes import Bound, Cost, FreePrice, Route, TokenPrices, cost_of_answer, reservation_bound
from countersign.kit.money import text_to_nanos_rounded_up
from tests.adapter_svc.routes.helpers import a_route

PRICES = TokenPrices("2.5", "10")
UNKNOWN = Cost("", "")
FREE = Cost("FREE_ROUTE", "0")
USAGE = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}


def answer(usage: Any, *, spelled_cost: str | None = None) -> bytes:
    if spelled_cost is not None:
        usage = {**usage, "cost": "@"}
    body = json.dumps({"model": "m", "usage": usage}).encode()
    return body if spelled_cost is None else body.replace(b'"@"', spelled_cost.encode())


def priced(**changes: Any) -> Route:
    return a_route(**{"price": PRICES, **changes})


def test_a_free_route_reserves_nothing() -> None:
    assert reservation_bound(a_route(), b"x" * 1000) == Bound(0, "FREE_ROUTE", b"")


def test_the_bound_takes_bytes_for_tokens_and_the_whole_output_cap() -> None:
    bound = reservation_bound(priced(output_cap=512), b"x" * 1000)
    assert bound == Bound(1000 * 2_500 + 512 * 10_000, "PRICED_BOUND", PRICES.digest)


@pytest.mark.parametrize(
    ("prices", "rate"),
    [
        (TokenPrices("2", "1", cached_input_per_million="0.5", cache_write_per_million="2.5"), 2_500),
        (TokenPrices("2", "1", cached_input_per_million="0.5"), 2_000),
        (TokenPrices("2", "1", cached_input_per_million="3"), 3_000),
    ],
)
def test_the_bound_takes_the_dearest_kind_of_input(prices: TokenPrices, rate: int) -> None:
    assert reservation_bound(priced(price=prices, output_cap=1), b"x" * 10).nanos == 10 * rate + 1_000


def test_each_class_of_tokens_has_its_price_and_is_counted_once() -> None:
    prices = TokenPrices("2", "10", cached_input_per_million="0.5")
    usage = {**USAGE, "prompt_tokens_details": {"cached_tokens": 400}}
    assert cost_of_answer(priced(price=prices), answer(usage)) == Cost("PRICED_USAGE", "0.0024")
    assert cost_of_answer(priced(price=TokenPrices("2", "10")), answer(usage)) == Cost("PRICED_USAGE", "0.003")


def test_the_digest_names_every_price_that_is_given() -> None:
    plain, cached = TokenPrices("2", "10"), TokenPrices("2", "10", cached_input_per_million="0.5")
    written = TokenPrices("2", "10", cache_write_per_million="0.5")
    assert len({plain.digest, cached.digest, written.digest}) == 3


def test_the_bound_rounds_up() -> None:
    route = priced(price=TokenPrices("0.001000001", "0"), output_cap=1)
    assert reservation_bound(route, b"x").nanos == 2
    assert reservation_bound(route, b"x" * 10**6).nanos == 1_000_001


amounts = st.integers(10**6, 10**13).map(lambda nanos: str(Decimal(nanos).scaleb(-9)))


@given(amounts, amounts, st.integers(1, 10**4), st.integers(1, 10**6), st.data())
def test_no_usage_within_the_bound_costs_more_than_was_reserved(
    dear: str, dearer: str, size: int, cap: int, data: st.DataObject
) -> None:
    route = priced(price=TokenPrices(dear, dearer), output_cap=cap)
    bound = reservation_bound(route, b"x" * size)
    tokens = data.draw(st.tuples(st.integers(0, size), st.integers(0, cap)))
    cost = cost_of_answer(route, answer({"prompt_tokens": tokens[0], "completion_tokens": tokens[1]}))
    assert cost.basis == "PRICED_USAGE"
    exact = (tokens[0] * Fraction(dear) + tokens[1] * Fraction(dearer)) / 10**6
    assert Fraction(cost.amount_text) == exact
    assert text_to_nanos_rounded_up(cost.amount_text) <= bound.nanos


@pytest.mark.parametrize(
    ("usage", "text"),
    [
        (USAGE, "0.0035"),
        ({"prompt_tokens": 0, "completion_tokens": 0}, "0"),
        ({"prompt_tokens": 1, "completion_tokens": 0}, "0.0000025"),
        ({"prompt_tokens": 400_000, "completion_tokens": 0}, "1"),
        ({**USAGE, "prompt_tokens_details": {"cached_tokens": 1000}}, "0.0035"),
        ({**USAGE, "total_tokens": None}, "0.0035"),
    ],
)
def test_usage_is_priced_exactly(usage: Any, text: str) -> None:
    assert cost_of_answer(priced(), answer(usage)) == Cost("PRICED_USAGE", text)


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {},
        [],
        {"prompt_tokens": 1000},
        {"completion_tokens": 100},
        {**USAGE, "completion_tokens": -1},
        {**USAGE, "completion_tokens": 1.5},
        {**USAGE, "prompt_tokens": "1000"},
        {**USAGE, "total_tokens": 1174},
        {**USAGE, "prompt_tokens_details": {"cached_tokens": 1001}},
    ],
)
def test_absent_unreadable_or_contradictory_usage_is_no_cost(usage: Any) -> None:
    assert cost_of_answer(priced(), answer(usage)) == UNKNOWN
    assert not UNKNOWN.is_known


@pytest.mark.parametrize("body", [b"", b"oops", b"[]", b'{"usage":{},"usage":{}}', b"\xff"])
def test_an_unreadable_body_has_a_cost_only_on_a_free_route(body: bytes) -> None:
    assert cost_of_answer(priced(), body) == UNKNOWN
    assert cost_of_answer(priced(charge_reported_cost=True), body) == UNKNOWN
    assert cost_of_answer(a_route(), body) == FREE


@pytest.mark.parametrize("spelled", ["0", "0.00183", "4.01e-05", "1E-3", "0.10", "25.000000000000004", "1e-30"])
def test_a_reported_cost_is_charged_as_spelled_where_the_route_says_so(spelled: str) -> None:
    body = answer(USAGE, spelled_cost=spelled)
    assert cost_of_answer(priced(charge_reported_cost=True), body) == Cost("PROVIDER_REPORTED", spelled)
    assert cost_of_answer(priced(), body) == Cost("PRICED_USAGE", "0.0035")


@pytest.mark.parametrize("spelled", ["-0.1", "-1e-30", '"0.1"', "true", "{}", "1e300", "0e99999999999999999999"])
def test_a_reported_cost_that_is_no_amount_is_not_replaced_by_a_guess(spelled: str) -> None:
    body = answer(USAGE, spelled_cost=spelled)
    assert cost_of_answer(priced(charge_reported_cost=True), body) == UNKNOWN
    assert cost_of_answer(a_route(), body) == UNKNOWN


def test_a_gateways_own_fee_is_not_the_bill() -> None:
    body = answer({**USAGE, "is_byok": True}, spelled_cost="0")
    assert cost_of_answer(priced(charge_reported_cost=True), body) == UNKNOWN


def test_where_no_cost_is_reported_usage_is_priced() -> None:
    assert cost_of_answer(priced(charge_reported_cost=True), answer(USAGE)) == Cost("PRICED_USAGE", "0.0035")


def test_a_free_route_costs_nothing_unless_it_is_billed() -> None:
    assert a_route().price == FreePrice()
    assert cost_of_answer(a_route(), answer(USAGE)) == FREE
    assert cost_of_answer(a_route(), answer(USAGE, spelled_cost="0.00")) == FREE
    assert cost_of_answer(a_route(), answer(USAGE, spelled_cost="0.01")) == Cost("PROVIDER_REPORTED", "0.01")


@pytest.mark.parametrize("reasoning", [-1, 1.5, "7", True, 201])
def test_reasoning_that_cannot_be_read_or_is_above_the_output_is_no_bill(reasoning: Any) -> None:
    details = {"completion_tokens_details": {"reasoning_tokens": reasoning}}
    usage = {"prompt_tokens": 10, "completion_tokens": 200, **details}
    assert cost_of_answer(priced(), answer(usage)) == UNKNOWN
