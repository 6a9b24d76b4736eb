"""The simulated environments, the adapter's side (design/environments.md). Pure: no clock, no randomness, no files."""

from adapter_svc.environments.checkpoint import STALE_CHECKPOINT, Preset, Setting, reach_checkpoint
from adapter_svc.environments.errors import (
    ActionFault,
    CaseFault,
    EpisodeNotEnded,
    InvalidAction,
    InvalidCase,
    UnsupportedEnvironment,
    WordingError,
)
from adapter_svc.environments.event import EventContract, EventOutcome, EventSimulator, EventTool, EventWorld
from adapter_svc.environments.pending import (
    OperationState,
    PendingContract,
    PendingOutcome,
    PendingSimulator,
    PendingWorld,
)
from adapter_svc.environments.playback import Playback, play
from adapter_svc.environments.probe import ProbeContract, ProbeOutcome, ProbeSimulator, ProbeWorld
from adapter_svc.environments.queue import QueueContract, QueueOutcome, QueueSimulator, QueueWorld
from adapter_svc.environments.registry import (
    Contract,
    Environment,
    EnvironmentKind,
    World,
    contract_from_json,
    kind_of,
    start,
    world_from_json,
)
from adapter_svc.environments.simulator import TEXT_FINISH, Action, Claim, EventRecord, Outcome, Simulator

__all__ = [
    "STALE_CHECKPOINT",
    "TEXT_FINISH",
    "Action",
    "ActionFault",
    "CaseFault",
    "Claim",
    "Contract",
    "Environment",
    "EnvironmentKind",
    "EpisodeNotEnded",
    "EventContract",
    "EventOutcome",
    "EventRecord",
    "EventSimulator",
    "EventTool",
    "EventWorld",
    "InvalidAction",
    "InvalidCase",
    "OperationState",
    "Outcome",
    "PendingContract",
    "PendingOutcome",
    "PendingSimulator",
    "PendingWorld",
    "Playback",
    "Preset",
    "ProbeContract",
    "ProbeOutcome",
    "ProbeSimulator",
    "ProbeWorld",
    "QueueContract",
    "QueueOutcome",
    "QueueSimulator",
    "QueueWorld",
    "Setting",
    "Simulator",
    "UnsupportedEnvironment",
    "WordingError",
    "World",
    "contract_from_json",
    "kind_of",
    "play",
    "reach_checkpoint",
    "start",
    "world_from_json",
]
