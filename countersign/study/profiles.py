"""Route profiles: what is known of a provider, as data (design/admission.md, Routes).

A profile only fills in what a plan leaves out. All of it is expanded into the frozen manifest, so that nothing depends
on a later version of this table.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

PROFILES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "openai": {
            "base_url": "https://api.openai.com/v1",
            "wire_format": "chat_completions",
            "api_key_variable": "OPENAI_API_KEY",
            "output_cap_member": "max_completion_tokens",
        },
        "openai-responses": {
            "base_url": "https://api.openai.com/v1",
            "wire_format": "responses",
            "api_key_variable": "OPENAI_API_KEY",
        },
        "anthropic": {
            "base_url": "https://api.anthropic.com/v1",
            "wire_format": "messages",
            "api_key_variable": "ANTHROPIC_API_KEY",
        },
        "google": {
            "base_url": "https://generativelanguage.googleapis.com/v1beta",
            "wire_format": "generate_content",
            "api_key_variable": "GEMINI_API_KEY",
        },
        "openrouter": {
            "base_url": "https://openrouter.ai/api/v1",
            "wire_format": "chat_completions",
            "api_key_variable": "OPENROUTER_API_KEY",
            "charge_reported_cost": True,
        },
        "compatible": {"wire_format": "chat_completions"},
    }
)
"""What each profile says of a route. `compatible` is any endpoint that speaks chat completions (vLLM, llama.cpp,
DeepSeek, Mistral, Groq, ...): its address is the plan's to give."""

_OF_THE_ENDPOINT = frozenset({"base_url", "api_key_variable", "charge_reported_cost"})


def fill_in(route: Any) -> Any:
    """A route's table with its profile's values where it has none; anything else as it is, for the model to refuse.

    An agent that is started for the collection takes the profile's form, not its address, key or billing.
    """
    if not isinstance(route, dict) or not isinstance(name := route.get("profile", "compatible"), str):
        return route
    known = PROFILES.get(name, {})
    left_out = _OF_THE_ENDPOINT if "agent" in route else frozenset()
    return {key: value for key, value in known.items() if key not in left_out} | route
