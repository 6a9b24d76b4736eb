"""Profiles, reasoning and routers: what a plan's route becomes (design/admission.md, Routes)."""

import json
from typing import Any

import pytest

from countersign.adapter.v1 import adapter_pb2 as adapter
from countersign.study.errors import BadPlan
from countersign.study.plan import parse_plan
from countersign.study.plan_model import RoutePlan
from countersign.study.profiles import PROFILES
from countersign.study.route_options import request_options
from countersign.study.routes import frozen_route, wire_route
from tests.countersign.study.plans import BASE, plan_text


def a_route(text: str, *, price: str = '"free"') -> RoutePlan:
    route = f'[[routes]]\nname = "r"\nmodel = "m"\nprice = {price}\noutput_cap = 100\n{text}\n'
    return parse_plan(plan_text(route, base=BASE), "plan.toml").routes[0]


PINNED = 'profile = "openrouter"\nprovider_name = "Azure"\nrouter = { only = ["azure"] }\n'


@pytest.mark.parametrize("name", sorted(PROFILES.keys() - {"openrouter", "compatible"}))
def test_a_profile_fills_in_what_the_plan_leaves_out(name: str) -> None:
    route = a_route(f'profile = "{name}"')
    assert {key: getattr(route, key) for key in PROFILES[name]} == dict(PROFILES[name])


def test_what_the_plan_says_stands() -> None:
    route = a_route('profile = "openai"\nbase_url = "https://gateway.example/v1"\noutput_cap_member = "max_tokens"')
    assert (route.base_url, route.output_cap_member) == ("https://gateway.example/v1", "max_tokens")
    assert route.api_key_variable == "OPENAI_API_KEY"


def test_an_agent_takes_a_profiles_form_but_no_address_and_no_key() -> None:
    route = a_route('profile = "anthropic"\nagent = { kind = "scripted", policy = "act-well" }')
    assert (route.wire_format, route.base_url, route.api_key_variable) == ("messages", None, "")


def test_form_and_streaming_reach_the_services_and_the_manifest() -> None:
    route = a_route('profile = "google"\nstreamed = true')
    wire = wire_route(route, "http://127.0.0.1:9")
    assert (wire.wire_format, wire.streamed) == (adapter.WIRE_FORMAT_GENERATE_CONTENT, True)
    frozen = frozen_route(route)
    assert (frozen["wire_format"], frozen["streamed"], frozen["profile"]) == ("generate_content", True, "google")


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ('profile = "openai"\nreasoning = { effort = "low" }', {"reasoning_effort": "low"}),
        (
            'profile = "openai-responses"\nreasoning = { effort = "high" }',
            {"reasoning": {"effort": "high"}, "include": ["reasoning.encrypted_content"]},
        ),
        (
            'profile = "anthropic"\nreasoning = { budget_tokens = 2048 }',
            {"thinking": {"type": "enabled", "budget_tokens": 2048}},
        ),
        (
            'profile = "google"\nreasoning = { budget_tokens = 64 }\n'
            "request_options = { generationConfig = { seed = 1 } }",
            {"generationConfig": {"seed": 1, "thinkingConfig": {"thinkingBudget": 64}}},
        ),
        (
            'profile = "google"\nreasoning = { effort = "low" }',
            {"generationConfig": {"thinkingConfig": {"thinkingLevel": "low"}}},
        ),
        ('base_url = "http://127.0.0.1:9"\nrequest_options = { seed = 3 }', {"seed": 3}),
    ],
)
def test_reasoning_is_said_in_each_formats_words(text: str, options: dict[str, Any]) -> None:
    route = a_route(text)
    assert request_options(route) == options
    assert json.loads(wire_route(route, "http://127.0.0.1:9").request_options_json) == options
    assert frozen_route(route)["request_options"] == options


def test_a_router_is_pinned_to_one_provider_and_to_the_plans_price() -> None:
    route = a_route(PINNED, price="{ input_per_million = '0.25', output_per_million = 2 }")
    assert request_options(route) == {
        "provider": {
            "only": ["azure"],
            "allow_fallbacks": False,
            "require_parameters": True,
            "data_collection": "deny",
            "max_price": {"prompt": 0.25, "completion": 2.0},
        },
        "usage": {"include": True},
    }
    assert route.charge_reported_cost


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('profile = "acme"', "routes[0].profile: Input should be"),
        ('profile = "compatible"', "give either base_url or agent"),
        ('profile = "openrouter"\nprovider_name = "Azure"', "give router.only"),
        ('profile = "openrouter"\nrouter = { only = ["azure"] }', "and provider_name"),
        ('profile = "openai"\nrouter = { only = ["x"] }', "routes[0].router: goes with the profile openrouter"),
        ('profile = "anthropic"\nreasoning = { effort = "low" }', "reasoning: messages takes budget_tokens here"),
        ('profile = "openai"\nreasoning = { budget_tokens = 9 }', "reasoning: chat_completions takes effort here"),
        ('profile = "openai"\nreasoning = {}', "give either effort or budget_tokens"),
        (
            'profile = "openai"\nreasoning = { effort = "low" }\nrequest_options = { reasoning_effort = "high" }',
            "request_options.reasoning_effort: is set by reasoning or router, say it once",
        ),
        (
            'profile = "google"\nreasoning = { effort = "low" }\n'
            "request_options = { generationConfig = { thinkingConfig = {} } }",
            "request_options.generationConfig: is set by reasoning too",
        ),
    ],
)
def test_contradictions_are_one_line_with_their_place(text: str, line: str) -> None:
    with pytest.raises(BadPlan) as caught:
        a_route(text)
    assert line in caught.value.message
    assert caught.value.message.startswith("plan.toml: routes[0]")
