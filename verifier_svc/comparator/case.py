"""The case that a comparator solves, checked, and its roots in every possible world (design/environments.md, Exact
comparators)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from countersign.kit.canonical import canonical_json, sha256
from verifier_svc.comparator.receipts import receipt
from verifier_svc.packets.build import DEFAULT_LOSS_WEIGHTS, DeclaredCase
from verifier_svc.physics.environments import complete_contract, complete_world, rules_for
from verifier_svc.physics.errors import InvalidCase
from verifier_svc.physics.fold import outcome, step
from verifier_svc.physics.state import Call, Deed, Rules, State

PRIOR_TOLERANCE = 1e-9
"""How far the prior's sum may be from 1."""
MAX_WEIGHT = 1e300
"""The most that a unit of loss may weigh: no sum of an episode's losses overflows below it."""


@dataclass(frozen=True, slots=True)
class Case:
    """A case without the worlds of no probability. `rules` and `roots` are each world's, the prefix played.

    Instruction and untrusted message are no part of it: they are the same in every world and never touch physics.
    """

    environment: str
    contract: Mapping[str, Any]
    worlds: Sequence[Mapping[str, Any]]
    prior: Sequence[float]
    weights: Mapping[str, float]
    prefix: Sequence[str]
    rules: Sequence[Rules]
    roots: Sequence[State]

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that do not end the episode, in the environment's order."""
        return tuple(name for name, (deed, _) in self.rules[0].tools.items() if deed is not Deed.FINISH)

    @property
    def digest(self) -> bytes:
        """SHA-256 of the canonical JSON of everything that the answer depends on."""
        return sha256(
            canonical_json(
                {
                    "environment": self.environment,
                    "contract": self.contract,
                    "worlds": self.worlds,
                    "prior": self.prior,
                    "weights": self.weights,
                    "operator_prefix": self.prefix,
                }
            )
        )

    def loss(self, world: int, state: State) -> float:
        """The weighted loss of an episode that ended in `state`."""
        came = outcome(self.rules[world], state)
        return math.fsum(weight * came[name] for name, weight in self.weights.items())

    def expected(self, losses: Sequence[float]) -> float:
        """The expectation of one loss for each world; rounded once, so that no order of summation shows."""
        return math.fsum(share * loss for share, loss in zip(self.prior, losses, strict=True)) / math.fsum(self.prior)


def read_case(declared: DeclaredCase) -> Case:
    """Check a declared case and play its prefix in every world.

    Raises UnsupportedEnvironment, or InvalidCase where a part is outside the rules or a root shows its world.
    """
    weights = dict(declared.loss_weights or DEFAULT_LOSS_WEIGHTS)
    _check_weights(weights)
    _check_prior(declared.prior, len(declared.support))
    kept = [
        (complete_world(declared.environment, world), share)
        for world, share in zip(declared.support, declared.prior, strict=True)
        if share > 0
    ]
    contract = complete_contract(declared.environment, declared.contract)
    rules = [rules_for(declared.environment, world, contract) for world, _ in kept]
    return Case(
        environment=declared.environment,
        contract=contract,
        worlds=[world for world, _ in kept],
        prior=[float(share) for _, share in kept],
        weights={name: float(weights[name]) for name in DEFAULT_LOSS_WEIGHTS},
        prefix=list(declared.operator_prefix),
        rules=rules,
        roots=_roots(rules, declared.operator_prefix),
    )


def _roots(rules: Sequence[Rules], prefix: Sequence[str]) -> list[State]:
    """The state after the prefix in each world; every receipt on the way must be the same in all."""
    states = [one.initial() for one in rules]
    for tool in prefix:
        deed = rules[0].tools.get(tool, (None, ""))[0]
        if deed is None or deed is Deed.FINISH or states[0].done:
            message = "the operator's prefix must be tools that do not end the episode"
            raise InvalidCase(message, field="operator_prefix")
        stepped = [step(one, state, Call(tool)) for one, state in zip(rules, states, strict=True)]
        states = [state for state, _ in stepped]
        if len({receipt(one, state, own) for one, (state, own) in zip(rules, stepped, strict=True)}) > 1:
            raise InvalidCase("the operator's prefix tells the possible worlds apart", field="support")
    if states[0].done:
        raise InvalidCase("the operator's prefix leaves no call for the model", field="operator_prefix")
    return states


def _check_prior(prior: Sequence[float], worlds_count: int) -> None:
    if worlds_count == 0 or len(prior) != worlds_count:
        raise InvalidCase("the prior needs one share for each possible world, and one at least", field="prior")
    if not all(math.isfinite(share) and share >= 0 for share in prior):
        raise InvalidCase("a share of the prior is negative or not finite", field="prior")
    if abs(math.fsum(prior) - 1) > PRIOR_TOLERANCE:
        raise InvalidCase("the prior does not sum to 1", field="prior")


def _check_weights(weights: Mapping[str, float]) -> None:
    for name, weight in weights.items():
        if not 0 <= weight <= MAX_WEIGHT:
            raise InvalidCase(f"the weight of {name} is not from 0 to {MAX_WEIGHT}", field="loss_weights")
