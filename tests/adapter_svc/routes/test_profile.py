"""A route is refused where it contradicts itself."""

import dataclasses
from typing import Any

import pytest

from adapter_svc.admission import UnsupportedWireFormat, formats
from adapter_svc.routes import FreePrice, InvalidRoute, OutputCapMember, Timeouts, TokenPrices
from tests.adapter_svc.routes.helpers import a_route


def test_a_route_has_the_documented_defaults() -> None:
    route = a_route()
    assert route.input_limit_bytes == 20_000
    assert route.timeouts == Timeouts(connect_millis=10_000, first_byte_millis=120_000, total_millis=300_000)
    assert route.allowances == frozenset()
    assert dict(route.options) == {}
    assert route.output_cap_member is OutputCapMember.MAX_TOKENS
    assert not route.charge_reported_cost
    with pytest.raises(dataclasses.FrozenInstanceError):
        route.model = "other"  # type: ignore[misc]


@pytest.mark.parametrize("base_url", ["https://api.x.org/v1", "https://api.x.org/v1/"])
def test_the_endpoint_is_below_the_base(base_url: str) -> None:
    assert a_route(base_url=base_url).endpoint == "https://api.x.org/v1/chat/completions"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("model", ""),
        ("base_url", ""),
        ("base_url", "api.x.org/v1"),
        ("base_url", "ftp://api.x.org/v1"),
        ("base_url", "https:///v1"),
        ("base_url", "https://user:pass@api.x.org/v1"),
        ("base_url", "https://api.x.org/v1?key=1"),
        ("base_url", "https://api.x.org/v1?"),
        ("base_url", "https://api.x.org/v1#a"),
        ("base_url", "https://api.x.org:port/v1"),
        ("base_url", "https://api.x.org:99999/v1"),
        ("base_url", "https://api.x.org/v 1"),
        ("base_url", "https://api.x.org/v1\n"),
        ("base_url", "https://[::1/v1"),
        ("base_url", "https://xn--/v1"),
        ("base_url", "https://1.2.3.999/v1"),
        ("api_key_variable", "sk-very-secret"),
        ("api_key_variable", "1KEY"),
        ("output_cap", 0),
        ("output_cap", -1),
        ("output_cap", 10_000_001),
        ("input_limit_bytes", 0),
        ("input_limit_bytes", 8 * 1024 * 1024 + 1),
        ("charge_reported_cost", True),
        ("request_options", b""),
        ("request_options", b"[]"),
        ("request_options", b'{"a":1,"a":2}'),
        ("request_options", b'{"messages":[]}'),
        ("request_options", b'{"model":"x"}'),
        ("request_options", b'{"tools":[]}'),
        ("request_options", b'{"tool_choice":"none"}'),
        ("request_options", b'{"max_tokens":1}'),
        ("request_options", b'{"max_completion_tokens":1}'),
        ("request_options", b'{"stream":true}'),
        ("request_options", b'{"n":2}'),
    ],
)
def test_an_unusable_part_is_named(field: str, value: Any) -> None:
    with pytest.raises(InvalidRoute) as caught:
        a_route(**{field: value})
    assert caught.value.reason == "INVALID_ROUTE"
    assert caught.value.metadata == {"field": field}


@pytest.mark.parametrize("base_url", ["http://api.x.org/v1", "http://10.0.0.1/v1", "http://localhost.x.org/v1"])
def test_a_key_never_goes_in_the_clear_to_another_machine(base_url: str) -> None:
    with pytest.raises(InvalidRoute) as caught:
        a_route(base_url=base_url, api_key_variable="KEY")
    assert caught.value.metadata == {"field": "base_url"}
    assert a_route(base_url=base_url).base_url == base_url


@pytest.mark.parametrize(
    "base_url", ["http://localhost:8000/v1", "http://127.0.0.1/v1", "http://[::1]:80/v1", "https://api.x.org/v1"]
)
def test_a_key_goes_over_tls_or_stays_here(base_url: str) -> None:
    assert a_route(base_url=base_url, api_key_variable="KEY").api_key_variable == "KEY"


def test_only_formats_that_can_be_judged_make_a_route(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "FORMATS", {})
    with pytest.raises(UnsupportedWireFormat):
        a_route()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"connect_millis": 0}, "connect_millis"),
        ({"first_byte_millis": -1}, "first_byte_millis"),
        ({"total_millis": 0}, "connect_millis"),
        ({"total_millis": 100_000}, "first_byte_millis"),
        ({"total_millis": 3_600_001}, "total_millis"),
    ],
)
def test_timeouts_fit_into_the_total(changes: dict[str, int], field: str) -> None:
    with pytest.raises(InvalidRoute) as caught:
        Timeouts(**changes)
    assert caught.value.metadata == {"field": field}


@pytest.mark.parametrize("price", ["", "free", "-1", "NaN", "1e400", "0.0000025", "0.0009", "10000.01", "1.0000000001"])
@pytest.mark.parametrize("field", ["input_per_million", "output_per_million"])
def test_a_price_is_a_plausible_amount_per_million(price: str, field: str) -> None:
    with pytest.raises(InvalidRoute) as caught:
        TokenPrices(**{"input_per_million": "1", "output_per_million": "1", field: price})
    assert caught.value.metadata == {"field": field}


def test_a_price_of_nothing_is_declared_free() -> None:
    with pytest.raises(InvalidRoute):
        TokenPrices("0", "0.00")
    assert TokenPrices("0", "10000").output_nanos == 10_000 * 10**9
    assert TokenPrices("0.001", "0").input_nanos == 10**6
    assert a_route(price=FreePrice()).price == FreePrice()


def test_the_price_digest_is_of_both_prices() -> None:
    assert TokenPrices("1", "2").digest == TokenPrices("1", "2").digest
    assert len({TokenPrices("1", "2").digest, TokenPrices("2", "1").digest, TokenPrices("1", "3").digest}) == 3
    assert len(TokenPrices("1", "2").digest) == 32
