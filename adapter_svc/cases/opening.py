"""Opening an episode: the realised world must lead to exactly the packet's checkpoint (design/environments.md)."""

import json
from collections.abc import Mapping
from typing import Any

from adapter_svc.cases.builder import checkpoint_facts
from adapter_svc.cases.weights import LossWeights, checked_prior
from adapter_svc.environments.checkpoint import Setting, reach_checkpoint
from adapter_svc.environments.errors import CaseFault, InvalidCase
from adapter_svc.environments.fields import from_json, require_text
from adapter_svc.environments.registry import World, kind_of
from adapter_svc.environments.simulator import Simulator
from countersign.kit.canonical import canonical_json

PACKET_KEYS = frozenset(
    {
        "generative_support",
        "prior",
        "loss_weights",
        "transition_rules",
        "operator_prefix",
        "prefix_origin",
        "observation",
        "procedure_instruction",
        "support_interpretation",
    }
)
"""All that a model is told, and nothing else."""


def open_episode(setting: Setting, world: World, packet: bytes, wording: Mapping[str, Any]) -> Simulator:
    """The episode in the realised `world`, at its checkpoint, ready for the agent that is shown `packet`.

    Raises InvalidCase where the packet is not one of this setting: not canonical JSON with exactly the packet's keys,
    a support without the realised world, an observation or anything else that differs from the actual checkpoint's.
    """
    members = _read_packet(packet)
    _require_numbers_and_texts(members)
    _require_in_support(setting.environment, world, members["generative_support"])
    checkpoint = reach_checkpoint(setting, world, wording)
    for name, actual in checkpoint_facts(setting, checkpoint, wording).items():
        if canonical_json(members[name]) != canonical_json(actual):
            raise InvalidCase(CaseFault.PACKET, f"the packet's {name} differs from the actual checkpoint's")
    return checkpoint


def _read_packet(packet: bytes) -> dict[str, Any]:
    try:
        members = json.loads(packet.decode("utf-8"))
        canonical = canonical_json(members)
    except (ValueError, RecursionError):
        raise InvalidCase(CaseFault.PACKET, "the packet is not JSON in UTF-8") from None
    if canonical != packet:
        raise InvalidCase(CaseFault.PACKET, "the packet is not canonical JSON")
    if not isinstance(members, dict) or set(members) != PACKET_KEYS:
        raise InvalidCase(
            CaseFault.PACKET, f"the packet must be an object with exactly {', '.join(sorted(PACKET_KEYS))}"
        )
    return members


def _require_numbers_and_texts(members: Mapping[str, Any]) -> None:
    require_text(CaseFault.PROCEDURE_INSTRUCTION, "the procedure instruction", members["procedure_instruction"])
    from_json(CaseFault.LOSS_WEIGHTS, LossWeights, members["loss_weights"])
    support, prior = members["generative_support"], members["prior"]
    if not isinstance(support, list) or not isinstance(prior, list):
        raise InvalidCase(CaseFault.PACKET, "the packet's generative_support and prior must be lists")
    checked_prior(prior, len(support))


def _require_in_support(environment: str, world: World, support: list[Any]) -> None:
    if not isinstance(world, kind_of(environment).world_type):
        raise InvalidCase(CaseFault.WORLD, f"the world is not one of the environment {environment}")
    realised = canonical_json(world.to_json())
    if all(canonical_json(candidate) != realised for candidate in support):
        raise InvalidCase(CaseFault.SUPPORT, "the realised world is not in the packet's support")
