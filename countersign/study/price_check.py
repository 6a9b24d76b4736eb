"""Whether frozen prices are those of the installed package `genai-prices` (design/study.md, Readiness)."""

from datetime import datetime
from typing import Any

from countersign.study.errors import StudyError
from countersign.study.plan_model import RoutePlan, TokenPricesPlan
from countersign.study.price_snapshot import PACKAGE, take_snapshot

BY_HAND = "by hand"
CURRENT = "current"
FREE = "free"


def checked_price(route: RoutePlan, now: datetime) -> dict[str, Any]:
    """The route's price and how it stands at `now`: `state` is `free`, `by hand`, `current`, or says what differs.

    A price written by hand is current because its plan says so: nothing here knows better.
    """
    if not isinstance(route.price, TokenPricesPlan):
        return {"route": route.name, "state": FREE}
    frozen = route.price.model_dump(exclude={"source"})
    answer: dict[str, Any] = {"route": route.name, "price": frozen, "source": route.price.source}
    named = _named(route.price.source)
    return {**answer, "state": BY_HAND if named is None else _compared(frozen, *named, now)}


def _named(source: str) -> tuple[str, str] | None:
    """The provider and the model that a price from a snapshot names as its source (plan.py writes it)."""
    name, separator, _ = source.partition(f": {PACKAGE} ")
    provider, slash, model = name.partition("/")
    return (provider, model) if separator and slash else None


def _compared(frozen: dict[str, Any], provider: str, model: str, now: datetime) -> str:
    try:
        prices = take_snapshot(frozenset({provider}), now).entry(provider, model).prices
    except StudyError as error:
        return error.message
    changed = [
        f"{name} is {frozen[name]} frozen and {prices.get(name)} now"
        for name in frozen
        if frozen[name] != prices.get(name)
    ]
    return ", ".join(changed) or CURRENT
