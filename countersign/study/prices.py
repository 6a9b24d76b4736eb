"""The price plan: exact upper bounds of a call, an episode and the study (design/study.md, Price plan).

Input bytes stand for input tokens. That is a conservative heuristic and no proof about a provider's tokenizer.
"""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from countersign.kit.canonical import canonical_json
from countersign.kit.money import MAX_NANOS, NANOS_PER_UNIT, nanos_to_text, text_to_nanos_exact
from countersign.study.amounts import plain_json
from countersign.study.cases import BuiltCase
from countersign.study.errors import PriceRefused
from countersign.study.identities import CaseKey, Identity
from countersign.study.plan_model import PlanFile, RoutePlan, TokenPricesPlan

TOKENS_PER_PRICE = 1_000_000


def call_bound_nanos(route: RoutePlan) -> int:
    """The most that one call of `route` can be reserved for, in nano-units, rounded up."""
    if not isinstance(route.price, TokenPricesPlan):
        return 0
    bytes_bound = route.input_limit_bytes + frame_bytes(route)
    per_million = bytes_bound * Fraction(route.price.input_per_million)
    per_million += route.output_cap * Fraction(route.price.output_per_million)
    return math.ceil(per_million * NANOS_PER_UNIT / TOKENS_PER_PRICE)


def frame_bytes(route: RoutePlan) -> int:
    """How many bytes of a request stand outside its messages and tools, which alone the input limit counts."""
    counted: dict[str, object] = {"messages": [], "tools": []}
    frame = {
        **plain_json(route.request_options),
        **counted,
        route.output_cap_member or "max_tokens": route.output_cap,
        "model": route.model_name,
        "tool_choice": "auto",
    }
    return len(canonical_json(frame)) - len(canonical_json(counted))


def study_bound_nanos(plan: PlanFile, cases: Mapping[CaseKey, BuiltCase], identities: Sequence[Identity]) -> int:
    """The most that `identities` can cost together: every call they may make at its route's bound."""
    bounds = {route.name: call_bound_nanos(route) for route in plan.routes}
    return sum(bounds[identity.route] * cases[identity.case].calls_left for identity in identities)


def price_plan(plan: PlanFile, cases: Mapping[CaseKey, BuiltCase], identities: Sequence[Identity]) -> dict[str, object]:
    """The manifest's `prices`: bounds as decimal text in the account's currency.

    Raises PriceRefused where a route's call can never be reserved under the study's ceiling or cap.
    """
    for route in plan.routes:
        _require_reservable(plan, route)
    bound = study_bound_nanos(plan, cases, identities)
    if bound > MAX_NANOS:
        raise PriceRefused("the study's upper bound is beyond 9.2 billion units: plan fewer or cheaper calls")
    return {
        "currency": plan.account.currency,
        "call_bounds": {route.name: nanos_to_text(call_bound_nanos(route)) for route in plan.routes},
        "study_bound": nanos_to_text(bound),
    }


def _require_reservable(plan: PlanFile, route: RoutePlan) -> None:
    bound = call_bound_nanos(route)
    for name, text in (("call_ceiling", plan.study.call_ceiling), ("cap", plan.study.cap)):
        if bound > text_to_nanos_exact(text):
            raise PriceRefused(
                f"route {route.name}: one call can cost up to {nanos_to_text(bound)} {plan.account.currency}, above"
                f" study.{name} {text}: raise it, or lower the route's input_limit_bytes or output_cap"
            )
