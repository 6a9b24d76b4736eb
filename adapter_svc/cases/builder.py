"""Building a case: the public packet, the tools and the operator's events (design/environments.md, Public packets)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from adapter_svc.cases.tools import offered_tools
from adapter_svc.cases.weights import LossWeights, checked_prior
from adapter_svc.environments.checkpoint import Setting, reach_checkpoint
from adapter_svc.environments.errors import CaseFault, InvalidCase
from adapter_svc.environments.fields import require_text
from adapter_svc.environments.registry import World, kind_of
from adapter_svc.environments.simulator import EventRecord, Simulator
from adapter_svc.environments.wording import environment_wording, text
from countersign.kit.canonical import canonical_json, sha256


@dataclass(frozen=True, slots=True)
class CaseSpec:
    """What a case is built from. `prior` gives each world of `support` its probability, in the same order."""

    setting: Setting
    support: tuple[World, ...]
    prior: tuple[float, ...]
    weights: LossWeights
    procedure_instruction: str


@dataclass(frozen=True, slots=True)
class Case:
    """A case ready to be shown: `packet`, `tools_json` and `observation` are canonical JSON, the digest is SHA-256."""

    environment: str
    packet: bytes
    packet_digest: bytes
    system_message: str
    tools: tuple[Mapping[str, Any], ...]
    tools_json: bytes
    prefix_events: tuple[EventRecord, ...]
    observation: bytes

    @property
    def prefix_count(self) -> int:
        """How many events the operator played."""
        return len(self.prefix_events)


def build_case(spec: CaseSpec, wording: Mapping[str, Any]) -> Case:
    """Build the one case of `spec` with the parsed `wording` resource.

    Raises InvalidCase where the support is empty, repeats a world or can be told apart at the checkpoint, the prior is
    wrong, or a text is blank; UnsupportedEnvironment; WordingError where the resource lacks a text.
    """
    require_text(CaseFault.PROCEDURE_INSTRUCTION, "the procedure instruction", spec.procedure_instruction)
    _require_distinct(spec.support)
    prior = checked_prior(spec.prior, len(spec.support))
    checkpoint = _common_checkpoint(spec, wording)
    packet = canonical_json(
        {
            **checkpoint_facts(spec.setting, checkpoint, wording),
            "generative_support": [world.to_json() for world in spec.support],
            "prior": list(prior),
            "loss_weights": spec.weights.to_json(),
            "procedure_instruction": spec.procedure_instruction,
        }
    )
    tools = offered_tools(kind_of(spec.setting.environment), wording)
    return Case(
        environment=spec.setting.environment,
        packet=packet,
        packet_digest=sha256(packet),
        system_message=text(wording, "system_message"),
        tools=tuple(tools),
        tools_json=canonical_json(tools),
        prefix_events=checkpoint.events,
        observation=checkpoint.observation_bytes(),
    )


def checkpoint_facts(setting: Setting, checkpoint: Simulator, wording: Mapping[str, Any]) -> dict[str, Any]:
    """The packet's members that follow from the wording and from an episode that has reached its checkpoint."""
    kind = kind_of(setting.environment)
    origin = "operator" if setting.operator_prefix else "none"
    rules = environment_wording(wording, kind.environment, kind.tools).transition_rules
    return {
        "transition_rules": dict(rules),
        "operator_prefix": [{"tool": event.tool, "result": event.result_object()} for event in checkpoint.events],
        "prefix_origin": text(wording, "prefix_origins", origin),
        "observation": checkpoint.observation(),
        "support_interpretation": text(wording, "support_interpretation"),
    }


def _require_distinct(support: tuple[World, ...]) -> None:
    if not support:
        raise InvalidCase(CaseFault.SUPPORT, "the support must hold at least one world")
    if len(set(support)) != len(support):
        raise InvalidCase(CaseFault.SUPPORT, "the support holds a world twice")


def _common_checkpoint(spec: CaseSpec, wording: Mapping[str, Any]) -> Simulator:
    first, *others = (reach_checkpoint(spec.setting, world, wording) for world in spec.support)
    for number, other in enumerate(others, start=2):
        if _visible(other) != _visible(first):
            raise InvalidCase(
                CaseFault.DISTINGUISHABLE, f"worlds 1 and {number} of the support can be told apart at the checkpoint"
            )
    return first


def _visible(checkpoint: Simulator) -> tuple[bytes, ...]:
    return (checkpoint.observation_bytes(), *(event.result for event in checkpoint.events))
