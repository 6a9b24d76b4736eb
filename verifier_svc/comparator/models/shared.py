"""What the four statistics share. A belief is a set of worlds: one bit each, in the case's order.

A state is a tuple of integers that begins with the tick and the belief. A move is a list of branches, one for each
class of worlds that the receipts may leave; a branch is (worlds, cost from here to there in weighted units, state
there). That state is None where nothing that is done can lower the loss any more and the first tool costs nothing;
what is still to be lost is in the branch's cost then.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from verifier_svc.comparator.case import Case
from verifier_svc.physics.effects import is_authorized
from verifier_svc.physics.fold import PRIMARY_UNITS_PER_OBLIGATION
from verifier_svc.physics.state import State as PhysicalState

State: TypeAlias = tuple[int, ...]
Branch: TypeAlias = tuple[int, float, State | None]
Move: TypeAlias = list[Branch]
NOBODY = 0
"""The empty set of worlds."""
NEVER = 0
"""In place of a tick: no report is awaited."""


class Model(Protocol):
    """One case in one environment's statistics."""

    masses: "Masses"

    def root(self) -> Branch:
        """The branch from what is past into the checkpoint; what was spent or lost before it is not in its cost."""

    def moves(self, state: State) -> list[Move | None]:
        """What each tool but finish leads to, in the environment's order.

        None stands for a tool that is never chosen: one before it costs no more, and leads to no less.
        """


class Masses:
    """The prior as a measure of sets of worlds."""

    def __init__(self, prior: Sequence[float]) -> None:
        self._prior = prior
        self._known: dict[int, float] = {}

    def of(self, worlds: int) -> float:
        """The probability of `worlds`."""
        mass = self._known.get(worlds)
        if mass is None:
            mass = math.fsum(share for index, share in enumerate(self._prior) if worlds >> index & 1)
            self._known[worlds] = mass
        return mass

    def share(self, part: int, whole: int) -> float:
        """The probability of `part` given `whole`, of which it is a part."""
        return 1.0 if part == whole else self.of(part) / self.of(whole)


class Prices:
    """What each kind of loss weighs, in weighted units; `missed` is one obligation's."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        self.missed = PRIMARY_UNITS_PER_OBLIGATION * weights["primary_loss"]
        self.operation = weights["operation_cost"]
        self.breach = weights["authority_breaches"]
        self.transfer = weights["protected_loss"] + weights["operation_cost"]


def spent(case: Case) -> float:
    """What the operator's prefix cost and lost, in weighted units: public, and the same in every world."""
    root, weights = case.roots[0], case.weights
    counts = {
        "primary_loss": PRIMARY_UNITS_PER_OBLIGATION * sum(job.lost for job in root.jobs.values()),
        "protected_loss": root.tally.protected,
        "authority_breaches": root.tally.breaches,
        "operation_cost": root.tally.operations,
    }
    return math.fsum(weights[name] * count for name, count in counts.items())


def awaited(state: PhysicalState, job: str, epoch: int) -> int:
    """The earliest due tick of a pending report on `job` that was asked for in `epoch`, or NEVER."""
    dues = [report.due_tick for report in state.pending() if (report.job, report.epoch) == (job, epoch)]
    return min(dues, default=NEVER)


def has_authority(case: Case, job: str) -> int:
    """1 where the checkpoint's evidence authorizes a deed for `job`, else 0; evidence is the same in every world."""
    return int(is_authorized(case.rules[0], case.roots[0], job))


def worlds_where(case: Case, holds: Callable[[Mapping[str, Any]], bool]) -> int:
    """The set of the case's worlds for which `holds`."""
    return sum(1 << index for index, world in enumerate(case.worlds) if holds(world))


def worlds_with(case: Case, name: str) -> int:
    """The set of the case's worlds whose `name` is true."""
    return worlds_where(case, lambda world: world[name])


def everyone(case: Case) -> int:
    """The set of all worlds."""
    return (1 << len(case.worlds)) - 1


def split(worlds: int, apart: int) -> tuple[int, ...]:
    """`worlds` in and outside `apart`, in this order, without an empty part."""
    inside, outside = worlds & apart, worlds & ~apart
    return (inside, outside) if inside and outside else (worlds,)


def split_by(worlds: int, *sets: int) -> Iterable[int]:
    """`worlds` by membership in each of `sets`."""
    parts: list[int] = [worlds]
    for apart in sets:
        parts = [piece for part in parts for piece in split(part, apart)]
    return parts


def earlier(due: int, other: int) -> int:
    """The earlier of two due ticks, either of which may be NEVER."""
    return min(due, other) if due and other else due or other
