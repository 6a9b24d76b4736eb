"""Sufficient statistics of each environment (docs/comparators.md)."""

from verifier_svc.comparator.case import Case
from verifier_svc.comparator.models.event import EventModel
from verifier_svc.comparator.models.pending import PendingModel
from verifier_svc.comparator.models.probe import ProbeModel
from verifier_svc.comparator.models.queue import QueueModel
from verifier_svc.comparator.models.shared import Model

__all__ = ["Model", "model_of"]


def model_of(case: Case) -> Model:
    """The statistics of the case's environment."""
    match case.environment:
        case "event":
            return EventModel(case)
        case "queue":
            return QueueModel(case)
        case "pending":
            return PendingModel(case)
        case _:
            return ProbeModel(case)
