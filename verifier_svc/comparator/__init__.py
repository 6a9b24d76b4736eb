"""Exact comparators: the best achievable expected loss with the same information (design/environments.md, Exact
comparators; docs/comparators.md)."""

from verifier_svc.comparator.budget import DEFAULT_STATE_LIMIT, MAX_STATE_LIMIT, Budget
from verifier_svc.comparator.case import Case, read_case
from verifier_svc.comparator.certificate import Certificate
from verifier_svc.comparator.errors import SolverFault, StateLimitExceeded, Stopped
from verifier_svc.comparator.solve import RAW_HISTORIES, SUFFICIENT_STATISTICS, Comparator, solve

__all__ = [
    "DEFAULT_STATE_LIMIT",
    "MAX_STATE_LIMIT",
    "RAW_HISTORIES",
    "SUFFICIENT_STATISTICS",
    "Budget",
    "Case",
    "Certificate",
    "Comparator",
    "SolverFault",
    "StateLimitExceeded",
    "Stopped",
    "read_case",
    "solve",
]
