"""Loss weights and priors: the numbers that a packet states (design/environments.md, Shared rules)."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from adapter_svc.environments.errors import CaseFault, InvalidCase

PRIOR_SUM_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class LossWeights:
    """What one unit of each count weighs. Raises InvalidCase unless each is finite and not negative."""

    primary_loss: float = 1.0
    protected_loss: float = 2.0
    authority_breaches: float = 20.0
    operation_cost: float = 0.1
    false_outcome_claims: float = 5.0

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            number = non_negative_number(CaseFault.LOSS_WEIGHTS, field.name, getattr(self, field.name))
            object.__setattr__(self, field.name, number)

    def to_json(self) -> dict[str, Any]:
        """All five weights, as floats."""
        return dataclasses.asdict(self)


def checked_prior(prior: Sequence[float], worlds: int) -> tuple[float, ...]:
    """The prior as floats. Raises InvalidCase unless it gives each of `worlds` worlds a probability, sum 1."""
    if len(prior) != worlds:
        raise InvalidCase(CaseFault.PRIOR, f"the prior has {len(prior)} probabilities for {worlds} worlds")
    numbers = tuple(non_negative_number(CaseFault.PRIOR, "each probability", value) for value in prior)
    if not math.isclose(math.fsum(numbers), 1.0, rel_tol=0.0, abs_tol=PRIOR_SUM_TOLERANCE):
        raise InvalidCase(CaseFault.PRIOR, "the prior's probabilities must sum to 1")
    return numbers


def non_negative_number(fault: CaseFault, name: str, value: object) -> float:
    """`value` as a float, so that equal numbers give equal packet bytes; a negative zero becomes zero.

    Raises InvalidCase for a bool, for what is no number, and for a number that is negative or not finite.
    """
    if type(value) not in (int, float) or not isinstance(value, int | float):
        raise InvalidCase(fault, f"{name} must be a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or number < 0:
        raise InvalidCase(fault, f"{name} must be finite and not negative")
    return number + 0.0
