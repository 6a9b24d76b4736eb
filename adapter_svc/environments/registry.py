"""The environments this adapter simulates, by name: their types, tools and simulators."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from adapter_svc.environments.errors import CaseFault, InvalidCase, UnsupportedEnvironment
from adapter_svc.environments.event import EventContract, EventSimulator, EventWorld
from adapter_svc.environments.fields import from_json
from adapter_svc.environments.pending import PendingContract, PendingSimulator, PendingWorld
from adapter_svc.environments.probe import ProbeContract, ProbeSimulator, ProbeWorld
from adapter_svc.environments.queue import QueueContract, QueueSimulator, QueueWorld
from adapter_svc.environments.simulator import Simulator
from adapter_svc.environments.wording import EnvironmentWording, environment_wording

World: TypeAlias = EventWorld | QueueWorld | PendingWorld | ProbeWorld
Contract: TypeAlias = EventContract | QueueContract | PendingContract | ProbeContract


class Environment(StrEnum):
    """The simulated environments."""

    EVENT = "event"
    QUEUE = "queue"
    PENDING = "pending"
    PROBE = "probe"


@dataclass(frozen=True, slots=True)
class EnvironmentKind:
    """What belongs to one environment. `tools` is in the environment's order."""

    environment: Environment
    world_type: type[World]
    contract_type: type[Contract]
    simulator: Callable[[Any, Any, str, EnvironmentWording], Simulator]
    tools: tuple[str, ...]


KINDS: Mapping[str, EnvironmentKind] = {
    kind.environment.value: kind
    for kind in (
        EnvironmentKind(Environment.EVENT, EventWorld, EventContract, EventSimulator, EventSimulator.TOOLS),
        EnvironmentKind(Environment.QUEUE, QueueWorld, QueueContract, QueueSimulator, QueueSimulator.TOOLS),
        EnvironmentKind(Environment.PENDING, PendingWorld, PendingContract, PendingSimulator, PendingSimulator.TOOLS),
        EnvironmentKind(Environment.PROBE, ProbeWorld, ProbeContract, ProbeSimulator, ProbeSimulator.TOOLS),
    )
}


def kind_of(environment: str) -> EnvironmentKind:
    """What belongs to the environment of that name. Raises UnsupportedEnvironment, naming it, where there is none."""
    kind = KINDS.get(environment)
    if kind is None:
        raise UnsupportedEnvironment(environment)
    return kind


def world_from_json(environment: str, data: object) -> World:
    """Read a world of `environment` from its JSON object. Raises InvalidCase or UnsupportedEnvironment."""
    return from_json(CaseFault.WORLD, kind_of(environment).world_type, data)


def contract_from_json(environment: str, data: object) -> Contract:
    """Read a contract of `environment` from its JSON object. Raises InvalidCase or UnsupportedEnvironment."""
    return from_json(CaseFault.CONTRACT, kind_of(environment).contract_type, data)


def start(
    environment: str, world: World, contract: Contract, untrusted_message: str, wording: Mapping[str, Any]
) -> Simulator:
    """A new episode of `environment`, before any call. `wording` is the parsed wording resource.

    Raises UnsupportedEnvironment; InvalidCase where world or contract is another environment's or the message is bad.
    """
    kind = kind_of(environment)
    if not isinstance(world, kind.world_type):
        raise InvalidCase(CaseFault.WORLD, f"the world is not one of the environment {environment}")
    if not isinstance(contract, kind.contract_type):
        raise InvalidCase(CaseFault.CONTRACT, f"the contract is not one of the environment {environment}")
    texts = environment_wording(wording, environment, kind.tools)
    return kind.simulator(world, contract, untrusted_message, texts)
