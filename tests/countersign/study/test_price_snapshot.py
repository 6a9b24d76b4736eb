"""Price snapshots: taken from the installed package, frozen, looked up by plans (design/admission.md, Routes)."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from genai_prices import Usage, calc_price

from countersign.study.errors import BadInput, BadPlan
from countersign.study.plan import load_plan
from countersign.study.plan_model import TokenPricesPlan
from countersign.study.price_snapshot import PriceSnapshot, load_snapshot, take_snapshot
from tests.countersign.study.plans import BASE, plan_text, route_text

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
NAMED = '{ provider = "openai", model = "gpt-4o-mini" }'


@pytest.fixture(scope="module")
def snapshot() -> PriceSnapshot:
    return take_snapshot(frozenset({"openai", "anthropic", "google", "deepseek", "perplexity"}), NOW)


def test_every_entry_gives_the_price_that_the_package_calculates(snapshot: PriceSnapshot) -> None:
    usage = Usage(input_tokens=1000, output_tokens=100, cache_read_tokens=300, cache_write_tokens=200)
    checked = 0
    for line in snapshot.document["entries"]:
        entry = snapshot.entry(line["provider"], line["model"])
        if not entry.prices.keys() >= {"cached_input_per_million", "cache_write_per_million"}:
            continue
        rates = {name: Decimal(text) for name, text in entry.prices.items()}
        ours = (
            500 * rates["input_per_million"]
            + 300 * rates["cached_input_per_million"]
            + 200 * rates["cache_write_per_million"]
            + 100 * rates["output_per_million"]
        ) / 10**6
        theirs = calc_price(usage, entry.model, provider_id=entry.provider, genai_request_timestamp=NOW)
        if theirs.model.id == entry.model:
            assert ours == theirs.total_price, line
            checked += 1
    assert checked > 10


def test_what_four_prices_cannot_say_is_refused_by_name(snapshot: PriceSnapshot) -> None:
    reasons = {one["why"] for one in snapshot.document["refused"]}
    assert any(why.startswith("also billed by requests_kcount") for why in reasons)
    assert "no price for both input and output tokens" in reasons
    assert {(one["provider"], one["model"]) for one in snapshot.document["refused"]}.isdisjoint(
        (one["provider"], one["model"]) for one in snapshot.document["entries"]
    )


def test_a_price_comes_into_force_on_its_day() -> None:
    early, late = (take_snapshot(frozenset(), datetime(year, 6, 1, tzinfo=UTC)) for year in (2024, 2026))
    assert early.document["entries"] != late.document["entries"]
    assert (early.document["as_of"], late.document["as_of"]) == ("2024-06-01", "2026-06-01")


def test_an_unknown_provider_is_refused() -> None:
    with pytest.raises(BadInput, match="knows no provider acme, only "):
        take_snapshot(frozenset({"acme"}), NOW)


def test_a_file_gives_the_snapshot_back_and_an_altered_one_is_refused(snapshot: PriceSnapshot, tmp_path: Path) -> None:
    path = tmp_path / "prices.json"
    path.write_bytes(snapshot.to_bytes())
    assert load_snapshot(path) == snapshot
    path.write_bytes(snapshot.to_bytes().replace(b'"USD"', b'"EUR"'))
    with pytest.raises(BadInput, match="altered"):
        load_snapshot(path)
    path.write_bytes(b"[]")
    with pytest.raises(BadInput, match="is not a price snapshot"):
        load_snapshot(path)
    with pytest.raises(BadInput):
        load_snapshot(tmp_path / "absent.json")


def write_plan(folder: Path, snapshot: PriceSnapshot, *, price: str = NAMED, more: str = "", top: str = "") -> Path:
    (folder / "prices.json").write_bytes(snapshot.to_bytes())
    text = plan_text(route_text(price=price, more=more), base=BASE)
    (folder / "plan.toml").write_text((top or 'price_snapshot = "prices.json"\n') + text)
    return folder / "plan.toml"


def test_a_plan_names_a_price_and_gets_it_with_its_source(snapshot: PriceSnapshot, tmp_path: Path) -> None:
    price = load_plan(write_plan(tmp_path, snapshot)).routes[0].price
    assert isinstance(price, TokenPricesPlan)
    assert (price.input_per_million, price.output_per_million) == ("0.15", "0.6")
    assert price.cached_input_per_million == "0.075"
    assert price.source.startswith("openai/gpt-4o-mini: genai-prices ")
    assert price.source.endswith(f"as of 2026-11-30, snapshot {snapshot.digest.hex()[:16]}")


@pytest.mark.parametrize(
    ("price", "more", "top", "line"),
    [
        ('{ provider = "openai", model = "gpt-1" }', "", "", "the snapshot does not have openai/gpt-1"),
        ('{ provider = "openai" }', "", "", "the snapshot does not have openai/m"),
        (NAMED, "", "# none\n", "give price_snapshot"),
        (NAMED, "", 'price_snapshot = "absent.json"\n', "absent.json"),
        ('{ provider = "perplexity", model = "sonar" }', "", "", "also billed by requests_kcount"),
    ],
)
def test_a_name_that_cannot_be_looked_up_is_one_line(
    snapshot: PriceSnapshot, tmp_path: Path, price: str, more: str, top: str, line: str
) -> None:
    with pytest.raises(BadPlan) as caught:
        load_plan(write_plan(tmp_path, snapshot, price=price, more=more, top=top))
    assert line in caught.value.message


def test_a_price_that_rises_with_the_input_is_refused_where_the_input_can_reach_it(
    snapshot: PriceSnapshot, tmp_path: Path
) -> None:
    tiered = next(one for one in snapshot.document["entries"] if one.get("tier_starts_at", 0) > 100_000)
    price = f'{{ provider = "{tiered["provider"]}", model = "{tiered["model"]}" }}'
    assert load_plan(write_plan(tmp_path, snapshot, price=price)).routes[0].price != "free"
    reaching = f"input_limit_bytes = {tiered['tier_starts_at']}"
    with pytest.raises(BadPlan, match="is dearer"):
        load_plan(write_plan(tmp_path, snapshot, price=price, more=reaching))


def test_the_account_must_be_in_the_snapshots_currency(snapshot: PriceSnapshot, tmp_path: Path) -> None:
    path = write_plan(tmp_path, snapshot)
    path.write_text(path.read_text().replace('currency = "USD"', 'currency = "EUR"'))
    with pytest.raises(BadPlan, match="is in USD, the account in EUR"):
        load_plan(path)


def test_the_file_is_canonical_json(snapshot: PriceSnapshot) -> None:
    document = json.loads(snapshot.to_bytes())
    assert document["source"]["package"] == "genai-prices"
    assert document["currency"] == "USD"
