"""A plan as its manifest holds it, read back: a study is collected without the plan file (design/study.md)."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from countersign.study.errors import BadManifest
from countersign.study.plan_model import HeldOutTemplate, PlanFile


def plan_of(document: Mapping[str, Any]) -> PlanFile:
    """The plan that a manifest's `document` freezes, amendments applied. Raises BadManifest.

    The routes' options, reasoning and router stand in `request_options` in full, and what a profile fills in stands in
    the route, so that neither is asked for a second time.
    """
    try:
        return PlanFile.model_validate(
            {
                "name": document["name"],
                "account": document["account"],
                "study": document["study"],
                "templates": [_template(template) for template in document["templates"]],
                "families": [family["declaration"] for family in document.get("families", [])],
                "arms": document["arms"],
                "messages": document["messages"],
                "routes": [
                    {**route, "profile": "compatible", "reasoning": None, "router": None}
                    for route in document["routes"]
                ],
            }
        )
    except (ValidationError, KeyError, TypeError, ValueError):
        raise BadManifest("the manifest is not of the documented form: no plan can be read from it") from None


def revealed_members(document: Mapping[str, Any]) -> list[HeldOutTemplate]:
    """The held-out templates that the manifest's `document` holds since they were revealed. Raises BadManifest."""
    return [template for template in plan_of(document).templates if isinstance(template, HeldOutTemplate)]


def _template(frozen: Mapping[str, Any]) -> HeldOutTemplate | Mapping[str, Any]:
    return HeldOutTemplate.model_validate(frozen) if frozen.get("split") == "held-out" else frozen
