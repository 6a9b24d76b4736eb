"""Usage times the frozen prices: exact, or no amount and the reason."""

from typing import Any

import pytest

from countersign.adapter.v1.adapter_pb2 import NativeFacts, Usage
from countersign.prose.codes import Code, ProseError
from countersign.prose.money import RunCost, cost_of
from countersign.prose.pricing import PROVIDERS, PriceTable
from countersign.prose.settings import HarnessName
from countersign.study.price_snapshot import PriceSnapshot

PRICES = {"input_per_million": "1.25", "output_per_million": "10", "cached_input_per_million": "0.125"}
ENTRIES = [
    {"provider": "openai", "model": "m", **PRICES},
    {"provider": "openai", "model": "written", **PRICES, "cache_write_per_million": "2.5"},
    {"provider": "openai", "model": "tiered", **PRICES, "tier_starts_at": 1000},
    {"provider": "openai", "model": "tiny", "input_per_million": "0.000000001", "output_per_million": "0.1"},
]
REFUSED = [{"provider": "openai", "model": "odd", "why": "also billed by requests_kcount"}]


def table(provider: str | None = "openai") -> PriceTable:
    document = {
        "entries": ENTRIES,
        "refused": REFUSED,
        "source": {"package": "by hand", "version": "1"},
        "as_of": "2026-01-01",
    }
    return PriceTable(PriceSnapshot(document, bytes(32)), provider)


@pytest.mark.parametrize(
    ("model", "usage", "amount"),
    [
        ("m", {"input_tokens": 1_000_000, "output_tokens": 100_000}, "2.25"),
        ("m", {"input_tokens": 0, "output_tokens": 0}, "0"),
        ("m", {"input_tokens": 1_000_000, "output_tokens": 0, "cached_input_tokens": 800_000}, "0.35"),
        # What was written to a cache has the input's price where it has none of its own.
        ("m", {"input_tokens": 8, "output_tokens": 0, "cache_write_tokens": 8}, "0.00001"),
        ("written", {"input_tokens": 8, "output_tokens": 0, "cache_write_tokens": 8}, "0.00002"),
        ("tiered", {"input_tokens": 999, "output_tokens": 0}, "0.00124875"),
        ("tiny", {"input_tokens": 1, "output_tokens": 0}, "0.000000000000001"),
    ],
)
def test_an_amount_is_exact(model: str, usage: dict[str, int], amount: str) -> None:
    assert table().price(model, Usage(**usage)).amount == amount


@pytest.mark.parametrize(
    ("model", "usage", "why"),
    [
        ("m", {"input_tokens": 1}, "does not say how many tokens"),
        ("m", {"output_tokens": 1}, "does not say how many tokens"),
        ("m", {"input_tokens": 5, "output_tokens": 1, "cached_input_tokens": 3, "cache_write_tokens": 3}, "contradict"),
        ("m", {"input_tokens": 5, "output_tokens": 1, "reasoning_tokens": 2}, "contradict"),
        ("tiered", {"input_tokens": 1000, "output_tokens": 0}, "large requests of this model are dearer"),
        ("odd", {"input_tokens": 1, "output_tokens": 1}, "also billed by requests_kcount"),
        ("other", {"input_tokens": 1, "output_tokens": 1}, "does not have openai/other"),
    ],
)
def test_what_is_not_certain_has_no_amount(model: str, usage: dict[str, int], why: str) -> None:
    priced = table().price(model, Usage(**usage))
    assert priced.amount is None
    assert why in str(priced.trouble)


def test_a_harness_without_a_provider_s_prices_has_no_amount() -> None:
    assert "cannot be brought together" in str(table(None).price("m", Usage(input_tokens=1, output_tokens=1)).trouble)


def facts(**members: Any) -> NativeFacts:
    return NativeFacts(terminal_record=3, usage=Usage(input_tokens=8, output_tokens=0), **members)


def cost(stated: NativeFacts, requested: str | None = "m", **more: Any) -> RunCost:
    return cost_of(stated, table(), requested, stopped=more.get("stopped", False), error=more.get("error"))


def test_the_stated_model_comes_before_the_requested_one() -> None:
    assert cost(facts(), "m").amount == "0.00001"
    assert cost(facts(model="other"), "m").amount is None
    assert cost(facts(model="m"), "other").amount == "0.00001"
    assert "names the model" in str(cost(facts(), None).trouble)


def test_what_did_not_end_well_is_not_priced() -> None:
    failed = ProseError(Code.HARNESS_FAILED, "it says so")
    assert cost(facts(model="m"), error=failed).amount is None
    assert cost(facts(model="m", reported_cost_text="0.5"), error=failed).amount == "0.5"
    assert cost(facts(model="m", reported_cost_text="0.5"), stopped=True).amount is None
    assert cost(NativeFacts(model="m", reported_cost_text="0.5")).amount is None


def test_every_harness_s_prices_are_decided() -> None:
    assert set(HarnessName) - set(PROVIDERS) == {HarnessName.OMP, HarnessName.PI, HarnessName.GEMINI}
