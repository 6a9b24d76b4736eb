"""What the adapter's metrics count (docs/observability.md)."""

from adapter_svc.admission import Admission, TechnicalUnknown, TextFinish, WireFormat
from adapter_svc.native import Completion, Failure, Harness
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
NATIVE_STREAMS = counter(
    "countersign_adapter_native_streams",
    "Streams of agent programs that were read to their end, by the program and the error code, or COMPLETED.",
    "harness",
    "code",
)


def read_to_end(harness: Harness, verdict: Completion | Failure) -> Completion | Failure:
    """Count the verdict on a program's stream; gives it as it is."""
    NATIVE_STREAMS.add(1, harness.value, verdict.code.value if isinstance(verdict, Failure) else "COMPLETED")
    return verdict


def judged(wire_format: WireFormat, admission: Admission) -> Admission:
    """Count a verdict; gives the admission as it is."""
    verdict = admission.verdict
    if isinstance(verdict, TechnicalUnknown):
        ADMISSIONS.add(1, wire_format.value, "technical_unknown", verdict.reason.value)
    else:
        ADMISSIONS.add(1, wire_format.value, "text_finish" if isinstance(verdict, TextFinish) else "action", "")
    return admission
