"""The checkpoint: where the operator's prefix ends and the agent begins (design/environments.md)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from adapter_svc.environments.errors import CaseFault, InvalidCase
from adapter_svc.environments.event import EventContract, EventWorld
from adapter_svc.environments.registry import Contract, Environment, World, kind_of, start
from adapter_svc.environments.simulator import FINISH, Simulator


@dataclass(frozen=True, slots=True)
class Setting:
    """Everything about an episode but its world: the tools of `operator_prefix` are played before the agent.

    Raises UnsupportedEnvironment, and InvalidCase for a prefix that the environment does not accept whole, that
    finishes, or that leaves the agent no call.
    """

    environment: str
    contract: Contract
    operator_prefix: tuple[str, ...]
    untrusted_message: str

    def __post_init__(self) -> None:
        tools = kind_of(self.environment).tools
        unknown = [tool for tool in self.operator_prefix if tool not in tools]
        if unknown:
            raise InvalidCase(
                CaseFault.OPERATOR_PREFIX, f"the operator's prefix plays {unknown[0]!r}, no {self.environment} tool"
            )
        if FINISH in self.operator_prefix:
            raise InvalidCase(CaseFault.OPERATOR_PREFIX, "the operator's prefix cannot finish the episode")
        if len(self.operator_prefix) >= self.contract.max_calls:
            raise InvalidCase(CaseFault.OPERATOR_PREFIX, "the operator's prefix leaves the agent no call")


def reach_checkpoint(setting: Setting, world: World, wording: Mapping[str, Any]) -> Simulator:
    """Start an episode in `world` and play the operator's prefix.

    Raises InvalidCase where world, contract and environment do not belong together or the message is bad.
    """
    simulator = start(setting.environment, world, setting.contract, setting.untrusted_message, wording)
    for tool in setting.operator_prefix:
        simulator.call(tool)
    return simulator


@dataclass(frozen=True, slots=True)
class Preset:
    """A checkpoint that the design names: its contract, equally likely worlds and operator prefix."""

    environment: Environment
    contract: Contract
    support: tuple[World, ...]
    prior: tuple[float, ...]
    operator_prefix: tuple[str, ...]


STALE_CHECKPOINT = Preset(
    environment=Environment.EVENT,
    contract=EventContract(deadline=4, verification_delay=2, buffer_available=True, max_calls=8),
    support=(
        EventWorld(need=True, effective=True, change_tick=2, changed_need=False),
        EventWorld(need=True, effective=True, change_tick=2, changed_need=True),
    ),
    prior=(0.5, 0.5),
    operator_prefix=("request_verification", "wait"),
)
"""A delivered positive report of an epoch that has passed (design/environments.md, Stale-evidence checkpoint)."""
