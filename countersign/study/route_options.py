"""The further members of a route's requests: what a plan writes, and what its reasoning and router ask for."""

from collections.abc import Mapping
from typing import Any

from countersign.kit.canonical import canonical_json
from countersign.study.amounts import plain_json
from countersign.study.errors import BadPlan
from countersign.study.plan_model import RoutePlan, TokenPricesPlan


def route_options_json(route: RoutePlan) -> str:
    """The route's further request members as canonical JSON text; empty where there are none. Raises BadPlan."""
    options = request_options(route)
    return canonical_json(options).decode() if options else ""


def request_options(route: RoutePlan) -> dict[str, Any]:
    """The further members of a route's requests: its own, its reasoning's and its router's.

    Raises BadPlan where two say the same thing, and where the format cannot say what is asked.
    """
    options: dict[str, Any] = plain_json(route.request_options)
    for more in (_reasoning(route), _router(route)):
        for name, value in more.items():
            if name == "generationConfig" and isinstance(options.get(name, {}), dict):
                value = _merged(options.get(name, {}), value)
            elif name in options:
                raise BadPlan(f"request_options.{name}: is set by reasoning or router, say it once")
            options[name] = value
    return options


def _merged(given: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    if given.keys() & more.keys():
        raise BadPlan("request_options.generationConfig: is set by reasoning too, say it once")
    return {**given, **more}


def _reasoning(route: RoutePlan) -> dict[str, Any]:
    asked = route.reasoning
    if asked is None:
        return {}
    effort, budget = asked.effort, asked.budget_tokens
    match route.wire_format:
        case "responses" if effort:
            # Without them the next request could not hold the reasoning: the provider keeps nothing.
            return {"reasoning": {"effort": effort}, "include": ["reasoning.encrypted_content"]}
        case "messages" if budget:
            return {"thinking": {"type": "enabled", "budget_tokens": budget}}
        case "generate_content":
            thinking = {"thinkingLevel": effort} if effort else {"thinkingBudget": budget}
            return {"generationConfig": {"thinkingConfig": thinking}}
        case "chat_completions" if route.profile == "openrouter":
            return {"reasoning": {"effort": effort} if effort else {"max_tokens": budget}}
        case "chat_completions" if effort:
            return {"reasoning_effort": effort}
    wanted = "budget_tokens" if effort else "effort"
    raise BadPlan(f"reasoning: {route.wire_format} takes {wanted} here")


def _router(route: RoutePlan) -> dict[str, Any]:
    """One pinned provider, nothing instead of it, no dearer than the plan's price, no data kept (OpenRouter)."""
    if route.router is None:
        return {}
    if route.profile != "openrouter":
        raise BadPlan("router: goes with the profile openrouter")
    provider: dict[str, Any] = {
        "only": route.router.only,
        "allow_fallbacks": False,
        "require_parameters": True,
        "data_collection": "deny",
    }
    if isinstance(route.price, TokenPricesPlan):
        provider["max_price"] = {
            "prompt": float(route.price.input_per_million),
            "completion": float(route.price.output_per_million),
        }
    return {"provider": provider, "usage": {"include": True}}
