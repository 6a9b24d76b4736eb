"""The packet that a declared case must give (docs/formats.md, Public packet)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from countersign.kit.canonical import canonical_json
from verifier_svc.physics.environments import complete_world
from verifier_svc.physics.errors import InvalidCase
from verifier_svc.physics.play import Played, Setting, play_prefix, setting_for

DEFAULT_LOSS_WEIGHTS: Mapping[str, float] = {
    "primary_loss": 1.0,
    "protected_loss": 2.0,
    "authority_breaches": 20.0,
    "operation_cost": 0.1,
    "false_outcome_claims": 5.0,
}
"""What a unit of each loss weighs where a case does not say (design/environments.md, Shared rules)."""


@dataclass(frozen=True, slots=True)
class DeclaredCase:
    """What a plan says of a case; worlds and contract as JSON objects, absent fields taking the design's defaults."""

    environment: str
    contract: Mapping[str, Any]
    support: Sequence[Mapping[str, Any]]
    prior: Sequence[float]
    procedure_instruction: str
    untrusted_message: str
    operator_prefix: Sequence[str] = ()
    loss_weights: Mapping[str, float] | None = None


def checkpoint(case: DeclaredCase, world: Mapping[str, Any], wording: Mapping[str, Any]) -> tuple[Setting, Played]:
    """The setting in `world` and what the operator's prefix leads to there; raises as the physics does."""
    setting = setting_for(case.environment, world, case.contract, case.untrusted_message, wording)
    return setting, play_prefix(setting, case.operator_prefix)


def build_packet(case: DeclaredCase, wording: Mapping[str, Any]) -> bytes:
    """The packet's canonical JSON, as seen from the first world of the support.

    Raises UnsupportedEnvironment or InvalidCase; that all worlds look alike is for `audit_packet` to say.
    """
    if not case.support:
        raise InvalidCase("a case needs at least one possible world", field="support")
    setting, played = checkpoint(case, case.support[0], wording)
    return canonical_json(
        {
            "generative_support": [complete_world(case.environment, world) for world in case.support],
            "prior": list(case.prior),
            "loss_weights": dict(case.loss_weights or DEFAULT_LOSS_WEIGHTS),
            "transition_rules": wording["environments"][case.environment]["transition_rules"],
            "operator_prefix": prefix_as_json(played),
            "prefix_origin": wording["prefix_origins"]["operator" if case.operator_prefix else "none"],
            "observation": setting.observation(played.state),
            "procedure_instruction": case.procedure_instruction,
            "support_interpretation": wording["support_interpretation"],
        }
    )


def prefix_as_json(played: Played) -> list[dict[str, Any]]:
    """The operator's calls as packets list them: the tool and its result as an object."""
    return [
        {"tool": event.tool, "result": {**event.own_fields, "observation": event.observation}}
        for event in played.events
    ]
