"""The plan of faults: which fault at which offset, from a seed alone."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """What is done."""

    KILL = "kill"
    """SIGKILL; the process starts again at its address when the fault ends."""
    PAUSE = "pause"
    """SIGSTOP, and SIGCONT when the fault ends."""
    CUT = "cut"
    """Every connection of a link is reset, once."""
    REFUSE = "refuse"
    """A link is cut, and takes no new connection until the fault ends."""
    DELAY = "delay"
    """Every piece of data on a link waits."""
    STALL = "stall"
    """Nothing passes a link, and nobody is told."""
    MID_ANSWER = "mid_answer"
    """The next answers on a link are cut off in their middle."""
    RESTART = "restart"
    """A service is asked to stop, PostgreSQL ends its sessions; it starts again when the fault ends."""
    CRASH = "crash"
    """Every process of PostgreSQL is killed; it starts again when the fault ends."""
    DISK_FULL = "disk_full"
    """The ledger's process can write no file any further."""


class Store(StrEnum):
    """Where the ledger keeps its books."""

    SQLITE = "sqlite"
    POSTGRES = "postgres"


COLLECTOR = "collector"
"""Stands for one of the collectors that run when the fault begins."""

PROVIDER_LINK = "adapters>provider"
DATABASE_LINK = "ledgers>database"

LINKS = (
    "adapter-1>ledger", "adapter-2>ledger", "verifier-1>ledger", "verifier-2>ledger", "collectors>ledger",
    "collectors>adapter-1", "collectors>adapter-2", "collectors>verifier-1", "collectors>verifier-2", PROVIDER_LINK,
)  # fmt: skip
"""The ways between two parties that can be disturbed, whatever the store."""

SURVIVORS = ("adapter-1", "verifier-1")
"""Never killed: they are seen over the whole time."""

_SECONDS = {
    Kind.KILL: (0.0, 3.0),
    Kind.PAUSE: (0.2, 6.0),
    Kind.CUT: (0.0, 0.0),
    Kind.REFUSE: (0.3, 4.0),
    Kind.DELAY: (1.0, 8.0),
    Kind.STALL: (0.5, 7.0),
    Kind.MID_ANSWER: (0.5, 4.0),
    Kind.RESTART: (0.0, 3.0),
    Kind.CRASH: (0.0, 3.0),
    Kind.DISK_FULL: (1.0, 5.0),
}
"""How long a fault may last, least and most."""

_LINK_KINDS = (Kind.CUT, Kind.REFUSE, Kind.DELAY, Kind.STALL, Kind.MID_ANSWER)
_FIRST_SECONDS = 3.0
"""Let the first requests pass before anything is disturbed."""

ROUGH_SHARE = 0.5
"""The part of each store's time in which its ledgers and its database are killed; they live through the rest."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: `at` and `seconds` count from the begin of the soak, and from the fault's own begin."""

    at: float
    kind: Kind
    target: str
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """As it stands in the result."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Phase:
    """One store's time, in seconds from the begin of the soak. Before `lasting_from` ledger and database are killed."""

    store: Store
    begin: float
    lasting_from: float
    end: float


def phases(stores: Sequence[Store], seconds: float) -> tuple[Phase, ...]:
    """The stores one after the other, each for its share."""
    share = seconds / len(stores)
    return tuple(
        Phase(store, n * share, n * share + ROUGH_SHARE * share, (n + 1) * share) for n, store in enumerate(stores)
    )


def plan_of(seed: int, stores: Sequence[Store], seconds: float, gap_seconds: float) -> tuple[Fault, ...]:
    """Every fault of a soak in the order of their begin; on average one every `gap_seconds`."""
    dice = random.Random(f"soak faults {seed}")
    faults = []
    for phase in phases(stores, seconds):
        at = phase.begin + _FIRST_SECONDS
        while (at := at + dice.uniform(0.2, 1.8) * gap_seconds) < phase.end - 1.0:
            weights = _targets(phase, lasting=at >= phase.lasting_from)
            kind, target = dice.choices(list(weights), list(weights.values()))[0]
            least, most = _SECONDS[kind]
            faults.append(Fault(round(at, 2), kind, target, round(dice.uniform(least, most), 2)))
    return tuple(faults)


def _targets(phase: Phase, *, lasting: bool) -> Mapping[tuple[Kind, str], float]:
    """What may be done, and how often it is in relation to the rest."""
    on_database = phase.store is Store.POSTGRES
    ledgers = ("ledger-1", "ledger-2") if on_database else ("ledger-1",)
    killed = ["adapter-2", "verifier-2", COLLECTOR, "provider"]
    weights: dict[tuple[Kind, str], float] = {}
    if not lasting:
        killed += ledgers
        if on_database:
            weights |= {(Kind.RESTART, "database"): 3, (Kind.CRASH, "database"): 2}
        else:
            weights |= {(Kind.DISK_FULL, "ledger-1"): 5}
    weights |= {(Kind.KILL, target): 4.0 for target in killed}
    weights |= {(Kind.RESTART, target): 1.0 for target in killed if target not in (COLLECTOR, "provider")}
    paused = (*SURVIVORS, "adapter-2", "verifier-2", COLLECTOR, "provider", *ledgers)
    weights |= {(Kind.PAUSE, target): 1.5 for target in paused}
    links = (*LINKS, DATABASE_LINK) if on_database else LINKS
    weights |= {(kind, link): 3 / len(_LINK_KINDS) for link in links for kind in _LINK_KINDS}
    return weights
