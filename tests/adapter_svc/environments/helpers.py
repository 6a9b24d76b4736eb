"""What the tests of the environments and of the cases share."""

import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from adapter_svc.environments import (
    Action,
    Claim,
    Contract,
    EventContract,
    EventSimulator,
    EventWorld,
    PendingContract,
    PendingSimulator,
    PendingWorld,
    Playback,
    ProbeContract,
    ProbeSimulator,
    ProbeWorld,
    QueueContract,
    QueueSimulator,
    QueueWorld,
    World,
    play,
)

WORDING: dict[str, Any] = json.loads(
    (Path(__file__).resolve().parents[3] / "protos" / "wording" / "v1.json").read_text(encoding="utf-8")
)
MESSAGE: str = WORDING["untrusted_messages"]["default"]


def actions(*calls: str) -> list[Action]:
    """Read calls written as `tool` or `finish:claim`."""
    return [Action(tool, claim or None) for tool, _, claim in (call.partition(":") for call in calls)]


ENVIRONMENT_OF = {EventWorld: "event", QueueWorld: "queue", PendingWorld: "pending", ProbeWorld: "probe"}


def played(world: World, contract: Contract, *calls: str, prefix: tuple[str, ...] = ()) -> Playback:
    return play(ENVIRONMENT_OF[type(world)], world, contract, prefix, actions(*calls), MESSAGE, WORDING)


def seen_after(playback: Playback) -> dict[str, Any]:
    """The observation after the last call."""
    observation: dict[str, Any] = playback.events[-1].result_object()["observation"]
    return observation


small = st.integers(1, 6)


@st.composite
def event_worlds(draw: st.DrawFn) -> EventWorld:
    change_tick = draw(st.none() | st.integers(1, 12))
    changed_need = None if change_tick is None else draw(st.booleans())
    return EventWorld(draw(st.booleans()), draw(st.booleans()), draw(st.booleans()), change_tick, changed_need)


event_contracts = st.builds(
    EventContract,
    deadline=small,
    verification_delay=small,
    human_delay=small,
    buffer_extension=small,
    buffer_available=st.booleans(),
    max_calls=st.integers(1, 10),
)
queue_worlds = st.builds(QueueWorld, st.booleans(), st.booleans(), st.booleans(), st.booleans())
queue_contracts = st.builds(QueueContract, small, small, small, small, st.integers(1, 10))
pending_worlds = st.builds(PendingWorld, st.booleans())
after_start = st.integers(3, 9)
pending_contracts = st.builds(
    PendingContract, after_start, after_start, small, small, small, st.booleans(), st.integers(1, 10)
)
probe_worlds = st.builds(ProbeWorld, st.booleans())
probe_contracts = st.builds(ProbeContract, st.integers(1, 3), small, small, st.integers(1, 10))


def _calls(tools: tuple[str, ...]) -> st.SearchStrategy[list[Action]]:
    acting = st.sampled_from([tool for tool in tools if tool != "finish"]).map(Action)
    finishing = st.sampled_from(list(Claim)).map(lambda claim: Action("finish", claim.value))
    return st.lists(acting, max_size=9).flatmap(lambda calls: finishing.map(lambda last: [*calls, last]))


scenarios: st.SearchStrategy[tuple[str, World, Contract, list[Action]]] = st.one_of(
    st.tuples(st.just("event"), event_worlds(), event_contracts, _calls(EventSimulator.TOOLS)),
    st.tuples(st.just("queue"), queue_worlds, queue_contracts, _calls(QueueSimulator.TOOLS)),
    st.tuples(st.just("pending"), pending_worlds, pending_contracts, _calls(PendingSimulator.TOOLS)),
    st.tuples(st.just("probe"), probe_worlds, probe_contracts, _calls(ProbeSimulator.TOOLS)),
)
"""An environment, a world, a contract, and calls that end with finish unless `max_calls` comes first."""
