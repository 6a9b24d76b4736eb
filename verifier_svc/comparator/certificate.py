"""What shows that a policy has the value that is claimed for it (docs/comparators.md)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from countersign.kit.canonical import canonical_json, sha256
from verifier_svc.comparator.case import Case
from verifier_svc.comparator.errors import SolverFault
from verifier_svc.comparator.policy import Execution

AGREES_WITHIN = 1e-9
"""How far the solver's value and the executed policy's may differ, relative where the value is above 1."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """The policy and the certificate, each as canonical JSON."""

    policy: bytes
    statement: bytes

    @property
    def digest(self) -> bytes:
        """SHA-256 of the certificate."""
        return sha256(self.statement)


def certify(case: Case, execution: Execution, solved_loss: float, states_count: int, method: str) -> Certificate:
    """State that executing the policy in every world reproduces the value; raises SolverFault where it does not."""
    executed_loss = case.expected(execution.losses)
    if abs(executed_loss - solved_loss) > AGREES_WITHIN * max(1.0, executed_loss):
        raise SolverFault("executing the policy does not reproduce its value")
    policy = canonical_json(execution.tree)
    statement: Mapping[str, Any] = {
        "case_digest": case.digest.hex(),
        "expected_loss": executed_loss,
        "losses": list(execution.losses),
        "method": method,
        "policy_digest": sha256(policy).hex(),
        "prior": list(case.prior),
        "states_count": states_count,
    }
    return Certificate(policy, canonical_json(statement))
