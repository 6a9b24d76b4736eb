"""The form of arguments: what no command can be made with."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Struct, structs

from countersign.kit.money import Money
from ledger_svc import errors, limits
from ledger_svc.calls import AmountBasis, Cost, CostBasis, HoldCategory, HoldFacts
from tests.ledger_svc import support

MAKERS: dict[str, Callable[[], Any]] = {
    "open_account": support.open_account,
    "grant": support.grant,
    "open_study": support.open_study,
    "reserve": support.reserve,
    "receipt": support.receipt,
    "hold": support.hold,
    "resolve": lambda: support.resolve(1),
}


def replace(command: Any, **changes: Any) -> Any:
    """The command made anew with other arguments, whichever kind of class it is."""
    if isinstance(command, Struct):
        return structs.replace(command, **changes)
    return dataclasses.replace(command, **changes)


@pytest.mark.parametrize(
    ("maker", "changes", "field"),
    [
        ("open_account", {"request_id": ""}, "request_id"),
        ("open_account", {"account_id": " "}, "account_id"),
        ("open_account", {"account_id": "x" * 201}, "account_id"),
        ("open_account", {"account_id": "a\x00b"}, "account_id"),
        ("open_account", {"currency": "usd"}, "currency_code"),
        ("open_account", {"currency": "USDT"}, "currency_code"),
        ("open_account", {"opened_by": ""}, "opened_by"),
        ("grant", {"by": ""}, "granted_by"),
        ("grant", {"reason": " \n"}, "reason"),
        ("grant", {"reason": "x" * 4001}, "reason"),
        ("open_study", {"study_id": ""}, "study_id"),
        ("open_study", {"max_in_flight": 0}, "max_in_flight"),
        ("open_study", {"manifest_digest": b"short"}, "manifest_digest"),
        ("reserve", {"slot": support.slot(turn=0)}, "slot.turn"),
        ("reserve", {"slot": support.slot(episode_id="")}, "slot.episode_id"),
        ("reserve", {"attempt_token": b"x" * 15}, "attempt_token"),
        ("reserve", {"attempt_token": b"x" * 65}, "attempt_token"),
        ("reserve", {"request": b""}, "request"),
        ("reserve", {"lease_micros": 999_999}, "lease_micros"),
        ("reserve", {"lease_micros": 86_400_000_001}, "lease_micros"),
        ("reserve", {"price_table_digest": bytes(32)}, "price_table_digest"),
        ("reserve", {"basis": AmountBasis.PRICED_BOUND}, "price_table_digest"),
        ("receipt", {"call_id": b"short"}, "call_id"),
        ("receipt", {"http_status": 199}, "http_status"),
        ("receipt", {"http_status": 300}, "http_status"),
        ("receipt", {"cost": Cost(CostBasis.PROVIDER_REPORTED, "1" * 1001)}, "cost.amount_text"),
        ("hold", {"facts": HoldFacts(HoldCategory.LEASE_EXPIRED)}, "category"),
        ("hold", {"facts": HoldFacts(HoldCategory.COST_UNRESOLVED)}, "category"),
        ("hold", {"facts": HoldFacts(HoldCategory.COST_ABOVE_RESERVATION)}, "category"),
        ("hold", {"facts": HoldFacts(HoldCategory.HTTP_STATUS)}, "http_status"),
        ("hold", {"facts": HoldFacts(HoldCategory.TRANSPORT_UNKNOWN, http_status=99)}, "http_status"),
        ("resolve", {"attempt": 0}, "attempt"),
        ("resolve", {"evidence": "  "}, "evidence"),
        ("resolve", {"resolved_by": ""}, "resolved_by"),
    ],
)
def test_malformed_argument_is_named(maker: str, changes: dict[str, Any], field: str) -> None:
    command = MAKERS[maker]()
    with pytest.raises(errors.InvalidArgumentError) as refused:
        replace(command, **changes)
    assert refused.value.metadata == {"field": field}


@pytest.mark.parametrize(
    ("maker", "changes", "field"),
    [
        ("grant", {"amount": Money("USD", 0)}, "amount"),
        ("grant", {"amount": Money("USD", -1)}, "amount"),
        ("open_study", {"cap": Money("USD", -1)}, "cap"),
        ("open_study", {"call_ceiling": Money("USD", -1)}, "call_ceiling"),
        ("reserve", {"amount": Money("USD", 0)}, "amount"),
        ("reserve", {"amount": Money("USD", -5)}, "amount"),
        ("reserve", {"basis": AmountBasis.FREE_ROUTE}, "amount"),
        ("resolve", {"charged": Money("USD", -1)}, "charged"),
    ],
)
def test_amount_out_of_its_range_is_named(maker: str, changes: dict[str, Any], field: str) -> None:
    command = MAKERS[maker]()
    with pytest.raises(errors.InvalidAmountError) as refused:
        replace(command, **changes)
    assert refused.value.metadata == {"field": field}


@pytest.mark.parametrize(("maker", "field"), [("reserve", "request"), ("receipt", "response")])
def test_payload_over_the_limit_is_refused_and_one_at_the_limit_is_not(maker: str, field: str) -> None:
    command = MAKERS[maker]()
    at_limit = bytes(limits.MAX_PAYLOAD_BYTES)
    assert getattr(replace(command, **{field: at_limit}), field) == at_limit
    with pytest.raises(errors.SizeLimitError) as refused:
        replace(command, **{field: at_limit + b"x"})
    assert refused.value.metadata == {"field": field, "limit_bytes": "8388608"}
