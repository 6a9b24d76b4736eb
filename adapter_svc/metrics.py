"""What the adapter's metrics count (docs/observability.md)."""

from adapter_svc.admission import Admission, TechnicalUnknown, TextFinish, WireFormat
from countersign.kit.observability.metrics import counter, gauge, histogram

ATTEMPTS_IN_FLIGHT = gauge(
    "countersign_adapter_attempts_in_flight",
    "Paid turns under way, from before the reservation to the receipt or hold.",
)
ADMISSIONS = counter(
    "countersign_adapter_admissions",
    "Responses that were judged: action, text_finish or technical_unknown, the last with its reason.",
    "format",
    "verdict",
    "reason",
)
PROVIDER_SECONDS = histogram(
    "countersign_adapter_provider_seconds",
    "How long requests to providers took, by how they ended: the answer's class of status, or no_answer.",
    "format",
    "ended",
)
TRANSPORT_FAILURES = counter(
    "countersign_adapter_transport_failures",
    "Requests without an answer, by how far they got and what ended them.",
    "progress",
    "category",
)


def judged(wire_format: WireFormat, admission: Admission) -> Admission:
    """Count a verdict; gives the admission as it is."""
    verdict = admission.verdict
    if isinstance(verdict, TechnicalUnknown):
        ADMISSIONS.add(1, wire_format.value, "technical_unknown", verdict.reason.value)
    else:
        ADMISSIONS.add(1, wire_format.value, "text_finish" if isinstance(verdict, TextFinish) else "action", "")
    return admission
