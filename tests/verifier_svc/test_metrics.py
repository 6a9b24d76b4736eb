"""Verdicts are counted by the kind of what differs: turns, indices and names below a field are left out."""

import pytest

from tests.countersign.kit.observability.recording import recording
from verifier_svc import metrics
from verifier_svc.analysis import Fault
from verifier_svc.metrics import KINDS, OTHER, Subject, kind_of


@pytest.mark.parametrize(
    ("field", "kind"),
    [
        ("outcome.expired", "outcome"),
        ("calls/turn_3/cost_text", "calls"),
        ("turn_12/request", "turn"),
        ("turn_1", "turn"),
        ("status", "status"),
        ("start_tick", "start_tick"),
        ("differs", "differs"),
        ("", OTHER),
        ("a name that a record brought", OTHER),
        ("statuses", OTHER),
        ("7", OTHER),
    ],
)
def test_the_kind_of_a_field(field: str, kind: str) -> None:
    assert kind_of(field) == kind


def test_every_fault_of_an_analysis_is_a_kind() -> None:
    assert {fault.value.lower() for fault in Fault} <= KINDS


def test_verdicts_and_differences_are_counted() -> None:
    with recording() as recorded:
        metrics.verified(Subject.EPISODE, [])
        metrics.verified(Subject.EPISODE, ["turn_1/state", "turn_2/state", "status"])
        metrics.verified(Subject.STUDY, ["differs"])
        assert recorded.values("countersign_verifier_verifications_total") == {
            ("episode", "true"): 1,
            ("episode", "false"): 1,
            ("study", "false"): 1,
        }
        assert recorded.values("countersign_verifier_disagreements_total") == {
            ("episode", "turn"): 2,
            ("episode", "status"): 1,
            ("study", "differs"): 1,
        }
