"""The selected policy as a tree keyed by receipts, found by executing it in every world with the verifier's physics."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from verifier_svc.comparator.case import Case
from verifier_svc.comparator.receipts import receipt
from verifier_svc.physics.fold import step
from verifier_svc.physics.state import Call, State

N = TypeVar("N")
Group = tuple[tuple[int, State], ...]


@dataclass(frozen=True, slots=True)
class Execution:
    """The tree that was walked, and the weighted loss in each world, in the case's order."""

    tree: dict[str, Any]
    losses: tuple[float, ...]


def execute(
    case: Case, start: N, choose: Callable[[N, Group], Call], follow: Callable[[N, Call, Group], N]
) -> Execution:
    """Play in all worlds at once what `choose` says of each node; `follow` is the node after one class of receipts.

    Worlds part company only where their receipts do, so that what is played never depends on what nobody was told.
    """
    losses = [0.0] * len(case.worlds)

    def walk(node: N, group: Group) -> dict[str, Any]:
        call = choose(node, group)
        after: dict[str, Any] = {}
        for key, members in _by_receipt(case, group, call).items():
            if members[0][1].done:
                after[key] = None
                for world, state in members:
                    losses[world] = case.loss(world, state)
            else:
                after[key] = walk(follow(node, call, members), members)
        return {"tool": call.tool, "claim": call.claim, "after": after}

    tree = walk(start, tuple(enumerate(case.roots)))
    return Execution(tree, tuple(losses))


def _by_receipt(case: Case, group: Group, call: Call) -> dict[str, Group]:
    found: dict[str, Group] = {}
    for world, state in group:
        later, own = step(case.rules[world], state, call)
        key = receipt(case.rules[world], later, own)
        found[key] = (*found.get(key, ()), (world, later))
    return found
