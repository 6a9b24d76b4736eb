"""Frozen prices against the installed package (design/study.md, Readiness)."""

from pathlib import Path

import pytest

from countersign.study.plan import load_plan
from countersign.study.plan_model import RoutePlan, TokenPricesPlan
from countersign.study.price_check import checked_price
from countersign.study.price_snapshot import take_snapshot
from tests.countersign.study.plans import BASE, NOW, make_plan, plan_text, route_text

NAMED = '{ provider = "openai", model = "gpt-4o-mini" }'


@pytest.fixture
def route(tmp_path: Path) -> RoutePlan:
    snapshot = take_snapshot(frozenset({"openai"}), NOW)
    (tmp_path / "prices.json").write_bytes(snapshot.to_bytes())
    base = BASE.replace('name = "small"', 'name = "small"\nprice_snapshot = "prices.json"')
    path = tmp_path / "plan.toml"
    path.write_text(plan_text(route_text(price=NAMED), base=base))
    return load_plan(path).routes[0]


def test_a_price_that_the_package_still_has_is_current(route: RoutePlan) -> None:
    checked = checked_price(route, NOW)
    assert (checked["route"], checked["state"]) == ("r", "current")
    assert checked["source"].startswith("openai/gpt-4o-mini: genai-prices ")


def test_a_price_that_changed_is_named_with_both_numbers(route: RoutePlan) -> None:
    assert isinstance(route.price, TokenPricesPlan)
    older = route.price.model_copy(update={"output_per_million": "0.7", "cache_write_per_million": "1"})
    state = checked_price(route.model_copy(update={"price": older}), NOW)["state"]
    assert state == "output_per_million is 0.7 frozen and 0.6 now, cache_write_per_million is 1 frozen and None now"


def test_a_model_that_the_package_no_longer_has_is_named(route: RoutePlan) -> None:
    assert isinstance(route.price, TokenPricesPlan)
    gone = route.price.model_copy(update={"source": route.price.source.replace("gpt-4o-mini", "gpt-0")})
    state = checked_price(route.model_copy(update={"price": gone}), NOW)["state"]
    assert state.startswith("the snapshot does not have openai/gpt-0")


def test_what_is_written_by_hand_or_free_says_so() -> None:
    by_hand = make_plan(route_text(price="{ input_per_million = 2, output_per_million = 8 }")).routes[0]
    assert checked_price(by_hand, NOW)["state"] == "by hand"
    assert checked_price(make_plan().routes[0], NOW) == {"route": "r", "state": "free"}
