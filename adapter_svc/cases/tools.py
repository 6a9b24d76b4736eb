"""The tools as a model is offered them (docs/formats.md, Tools as offered to a model)."""

from collections.abc import Mapping
from typing import Any

from adapter_svc.environments.registry import EnvironmentKind
from adapter_svc.environments.simulator import FINISH, Claim
from adapter_svc.environments.wording import environment_wording


def offered_tools(kind: EnvironmentKind, wording: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Name, description and parameter schema of each tool, in the environment's order.

    Raises WordingError where the wording lacks a description.
    """
    descriptions = environment_wording(wording, kind.environment, kind.tools).tools
    return [{"name": tool, "description": descriptions[tool], "parameters": _parameters(tool)} for tool in kind.tools]


def _parameters(tool: str) -> dict[str, Any]:
    if tool != FINISH:
        return {"type": "object", "properties": {}, "additionalProperties": False}
    claims = [claim.value for claim in Claim]
    return {
        "type": "object",
        "properties": {"claim": {"type": "string", "enum": claims}},
        "required": ["claim"],
        "additionalProperties": False,
    }
