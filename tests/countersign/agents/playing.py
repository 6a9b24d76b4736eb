"""Playing policies against the adapter's own simulators."""

import json
from collections.abc import Callable
from typing import Any

from adapter_svc.environments import (
    EventWorld,
    PendingWorld,
    ProbeWorld,
    QueueWorld,
    Simulator,
    start,
)
from countersign.agents.act_well import next_move
from countersign.agents.moves import Move
from countersign.agents.situation import Situation, Step, World
from tests.conftest import PROJECT_ROOT

WORDING = json.loads((PROJECT_ROOT / "protos/wording/v1.json").read_text(encoding="utf-8"))
BOTH = (False, True)
ENVIRONMENT_OF = {EventWorld: "event", QueueWorld: "queue", PendingWorld: "pending", ProbeWorld: "probe"}


def started(world: Any, contract: Any) -> Simulator:
    """An episode in `world`, before any call."""
    return start(ENVIRONMENT_OF[type(world)], world, contract, "a message", WORDING)


def play_well(world: Any, contract: Any, prefix: tuple[str, ...] = ()) -> Simulator:
    """The episode that the sensible policy plays after the operator's `prefix`, told that `world` is possible."""
    return play(next_move, world, contract, prefix)


def play(decide: Callable[[Situation], Move], world: Any, contract: Any, prefix: tuple[str, ...] = ()) -> Simulator:
    """The same with any way to decide."""
    simulator = started(world, contract)
    for tool in prefix:
        simulator.call(tool)
    while not simulator.done:
        steps = tuple(Step(event.tool, event.result_object()) for event in simulator.events)
        known = World(ENVIRONMENT_OF[type(world)])
        move = decide(Situation(known, simulator.observation(), steps, (world.to_json(),)))
        simulator.call(move.tool, move.claim)
    return simulator


def tools(simulator: Simulator) -> list[str]:
    """What was played, the operator's calls included."""
    return [event.tool for event in simulator.events]
