"""Playing a fixed list of actions, for replay from recorded episodes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from adapter_svc.environments.checkpoint import Setting, reach_checkpoint
from adapter_svc.environments.registry import Contract, World
from adapter_svc.environments.simulator import Action, EventRecord, Outcome


@dataclass(frozen=True, slots=True)
class Playback:
    """What a list of actions led to.

    `own_results` holds each event's own result fields, the operator's included; `outcome` is none where the actions
    did not end the episode.
    """

    events: tuple[EventRecord, ...]
    outcome: Outcome | None
    own_results: tuple[Mapping[str, Any], ...]


def play(
    environment: str,
    world: World,
    contract: Contract,
    prefix: Sequence[str],
    actions: Iterable[Action],
    untrusted_message: str,
    wording: Mapping[str, Any],
) -> Playback:
    """Play the operator's `prefix`, then `actions`, and settle if they end the episode.

    Raises UnsupportedEnvironment, InvalidCase for the setting, and InvalidAction for an invalid action.
    """
    setting = Setting(environment, contract, tuple(prefix), untrusted_message)
    simulator = reach_checkpoint(setting, world, wording)
    for action in actions:
        simulator.call(action.tool, action.claim)
    return Playback(
        events=simulator.events,
        outcome=simulator.settle() if simulator.done else None,
        own_results=tuple(event.own_result() for event in simulator.events),
    )
