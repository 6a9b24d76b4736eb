"""`admit`: one provider response, one verdict (design/admission.md). Pure: no I/O, no clock, no state."""

from adapter_svc.admission.billing import NO_BILLING
from adapter_svc.admission.formats import Format, format_of, unary_body
from adapter_svc.admission.request import AdmissionRequest
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
    Verdict,
)
from countersign.kit.canonical import sha256

_NO_IDENTITY = ServedIdentity()


def admit(request: AdmissionRequest) -> Admission:
    """Judge one response: an action, a text finish, or a technical unknown with the first check that failed.

    `where` points into the body; of a stream, into the body that its events make, or it names an event.

    Raises UnsupportedWireFormat for a format or stream that has no decoder, and InvalidToolSchema for tools that
    cannot be judged against; both before the response is looked at.
    """
    entry = format_of(request.wire_format, streamed=request.streamed)
    require_usable(request.tools)
    try:
        if not 200 <= request.http_status <= 299:
            raise Inadmissible(Reason.HTTP_STATUS, "")
        unary = unary_body(entry, request.body, request.limits, streamed=request.streamed)
        body = read_strict(unary, request.limits)
    except Inadmissible as failure:
        return _unread(request, failure)
    return _judged(request, entry, body, unary)


def _unread(request: AdmissionRequest, failure: Inadmissible) -> Admission:
    unknown = TechnicalUnknown(failure.reason, failure.where)
    return Admission(unknown, None, NO_BILLING.usage, None, _NO_IDENTITY, sha256(request.body))


def _judged(request: AdmissionRequest, entry: Format, body: JsonValue, unary: bytes) -> Admission:
    known = body if isinstance(body, dict) else {}
    billing = entry.billing(known, unary, request.limits)
    verdict, continuation = _verdict(request, entry, body, unary)
    return Admission(
        verdict, continuation, billing.usage, billing.reported_cost, entry.served(known), sha256(request.body)
    )


def _verdict(
    request: AdmissionRequest, entry: Format, body: JsonValue, unary: bytes
) -> tuple[Verdict, Continuation | None]:
    try:
        verdict = entry.judge(body, request)
        continuation = entry.continuation(unary) if isinstance(verdict, Action) else None
    except Inadmissible as failure:
        return TechnicalUnknown(failure.reason, failure.where), None
    return verdict, continuation
