"""The price plan: exact upper bounds of a call, an episode and the study (design/study.md, Price plan).

Input bytes stand for input tokens. That is a conservative heuristic and no proof about a provider's tokenizer.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from countersign.kit.canonical import canonical_json
from countersign.kit.money import MAX_NANOS, NANOS_PER_UNIT, nanos_to_text, text_to_nanos_exact
from countersign.study.cases import BuiltCase
from countersign.study.errors import PriceRefused
from countersign.study.identities import CaseKey, Identity
from countersign.study.plan_model import PlanFile, RoutePlan, TokenPricesPlan
from countersign.study.price_snapshot import TOKENS_PER_PRICE
from countersign.study.route_options import request_options


def call_bound_nanos(route: RoutePlan) -> int:
    """The most that one call of `route` can be reserved for, in nano-units, rounded up."""
    if not isinstance(route.price, TokenPricesPlan):
        return 0
    price = route.price
    bytes_bound = route.input_limit_bytes + frame_bytes(route)
    kinds = (price.input_per_million, price.cached_input_per_million, price.cache_write_per_million)
    per_million = bytes_bound * max(Fraction(one) for one in kinds if one is not None)
    per_million += route.output_cap * Fraction(price.output_per_million)
    return math.ceil(per_million * NANOS_PER_UNIT / TOKENS_PER_PRICE)


_COUNTED: Mapping[str, Mapping[str, object]] = {
    "chat_completions": {"messages": [], "tools": []},
    "messages": {"messages": [], "system": "", "tools": []},
    "responses": {"input": [], "instructions": "", "tools": []},
    "generate_content": {"contents": [], "systemInstruction": {}, "tools": []},
}
"""By format: the members that the input limit counts (docs/formats.md, Conversation)."""


def frame_bytes(route: RoutePlan) -> int:
    """How many bytes of a request stand outside its conversation and tools, which alone the input limit counts."""
    counted = _COUNTED[route.wire_format]
    frame = {**request_options(route), **_settings(route), **counted}
    return len(canonical_json(frame)) - len(canonical_json(counted))


def _settings(route: RoutePlan) -> dict[str, object]:
    """What the adapter sets beside the conversation (docs/formats.md, Conversation)."""
    streamed: dict[str, object] = {"stream": True} if route.streamed else {}
    match route.wire_format:
        case "messages":
            own: dict[str, object] = {"max_tokens": route.output_cap, "tool_choice": {"type": "auto"}}
        case "responses":
            own = {"max_output_tokens": route.output_cap, "store": False, "tool_choice": "auto"}
        case "generate_content":
            config = {**request_options(route).get("generationConfig", {}), "maxOutputTokens": route.output_cap}
            return {"generationConfig": config, "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}}}
        case "chat_completions":
            own = {route.output_cap_member or "max_tokens": route.output_cap, "tool_choice": "auto"}
            streamed |= {"stream_options": {"include_usage": True}} if streamed else {}
    return {"model": route.model_name, **own, **streamed}


def study_bound_nanos(plan: PlanFile, cases: Mapping[CaseKey, BuiltCase], identities: Sequence[Identity]) -> int:
    """The most that `identities` can cost together: every call they may make at its route's bound."""
    bounds = {route.name: call_bound_nanos(route) for route in plan.routes}
    return sum(bounds[identity.route] * cases[identity.case].calls_left for identity in identities)


@dataclass(frozen=True, slots=True)
class RouteBounds:
    """What a route can cost at most, in nano-units: a call, its longest episode, all of its `episodes`."""

    route: str
    episodes: int
    call_nanos: int
    episode_nanos: int
    total_nanos: int

    def to_json(self) -> dict[str, object]:
        """The bounds as decimal text in the account's currency."""
        return {
            "route": self.route,
            "episodes": self.episodes,
            "call_bound": nanos_to_text(self.call_nanos),
            "episode_bound": nanos_to_text(self.episode_nanos),
            "total_bound": nanos_to_text(self.total_nanos),
        }


def route_bounds(
    plan: PlanFile, cases: Mapping[CaseKey, BuiltCase], identities: Sequence[Identity]
) -> list[RouteBounds]:
    """The bounds of every route, in the plan's order; their totals sum to the study's."""
    bounds = []
    for route in plan.routes:
        calls = [cases[one.case].calls_left for one in identities if one.route == route.name]
        nanos = call_bound_nanos(route)
        bounds.append(RouteBounds(route.name, len(calls), nanos, nanos * max(calls, default=0), nanos * sum(calls)))
    return bounds


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
