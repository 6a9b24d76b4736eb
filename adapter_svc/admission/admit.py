"""`admit`: one provider response, one verdict (design/admission.md). Pure: no I/O, no clock, no state."""

from adapter_svc.admission import chat_completions, evidence
from adapter_svc.admission.errors import UnsupportedWireFormat
from adapter_svc.admission.request import AdmissionRequest, WireFormat
from adapter_svc.admission.schemas import require_usable
from adapter_svc.admission.strict_json import JsonValue, read_strict
from adapter_svc.admission.verdict import (
    Action,
    Admission,
    Continuation,
    Inadmissible,
    Reason,
    ServedIdentity,
    TechnicalUnknown,
    Usage,
    Verdict,
)
from countersign.kit.canonical import sha256

_NO_USAGE = Usage()
_NO_IDENTITY = ServedIdentity()


def admit(request: AdmissionRequest) -> Admission:
    """Judge one response: an action, a text finish, or a technical unknown with the first check that
    failed.

    Raises UnsupportedWireFormat for a format or stream that has no decoder, and
    InvalidToolSchema for tools that cannot be judged against; both before the response is looked at.
    """
    _require_supported(request)
    require_usable(request.tools)
    try:
        body = _read(request)
    except Inadmissible as failure:
        return _unread(request, failure)
    return _judged(request, body)


def _require_supported(request: AdmissionRequest) -> None:
    if request.wire_format is not WireFormat.CHAT_COMPLETIONS or request.streamed:
        raise UnsupportedWireFormat(
            f"only unary {WireFormat.CHAT_COMPLETIONS} responses can be judged",
            wire_format=request.wire_format.value,
            streamed="true" if request.streamed else "false",
        )


def _read(request: AdmissionRequest) -> JsonValue:
    if not 200 <= request.http_status <= 299:
        raise Inadmissible(Reason.HTTP_STATUS, "")
    return read_strict(request.body, request.limits)


def _unread(request: AdmissionRequest, failure: Inadmissible) -> Admission:
    unknown = TechnicalUnknown(failure.reason, failure.where)
    return Admission(unknown, None, _NO_USAGE, None, _NO_IDENTITY, sha256(request.body))


def _judged(request: AdmissionRequest, body: JsonValue) -> Admission:
    known = body if isinstance(body, dict) else {}
    billing = evidence.billing_of(known, request.body, request.limits)
    verdict, continuation = _verdict(request, body)
    return Admission(
        verdict,
        continuation,
        billing.usage,
        billing.reported_cost,
        evidence.read_served(known),
        sha256(request.body),
    )


def _verdict(request: AdmissionRequest, body: JsonValue) -> tuple[Verdict, Continuation | None]:
    try:
        verdict = chat_completions.judge(body, request)
        continuation = evidence.read_continuation(request.body) if isinstance(verdict, Action) else None
    except Inadmissible as failure:
        return TechnicalUnknown(failure.reason, failure.where), None
    return verdict, continuation
