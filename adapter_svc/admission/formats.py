"""The table of wire formats: what is particular to each, behind one shape (design/admission.md, Wire formats)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from adapter_svc.admission import (
    chat_completions,
    chat_evidence,
    chat_stream,
    generate_content,
    generate_content_evidence,
    generate_content_stream,
    messages,
    messages_evidence,
    messages_stream,
    responses,
    responses_evidence,
    responses_stream,
)
from adapter_svc.admission.billing import NO_BILLING, Billing
from adapter_svc.admission.errors import UnsupportedWireFormat
from adapter_svc.admission.limits import DEFAULT_LIMITS, Limits
from adapter_svc.admission.request import AdmissionRequest, WireFormat
from adapter_svc.admission.rules import JsonObject
from adapter_svc.admission.server_sent_events import StreamEvent, read_events
from adapter_svc.admission.strict_json import JsonValue, read_strict
from adapter_svc.admission.verdict import Action, Continuation, Inadmissible, ServedIdentity, TextFinish


@dataclass(frozen=True, slots=True)
class Format:
    """One wire format.

    - `judge` judges a body that was read as strict JSON; raises Inadmissible with the first check that fails.
    - `billing` reads tokens and cost of a body, given its members and its bytes.
    - `served` reads the names that a body gives for itself.
    - `continuation` cuts what must go back out of an admitted body's bytes.
    - `assemble` makes the unary body of a stream's events, opaque parts as they came; raises Inadmissible for a stream
      that is incomplete, carries an error or contradicts itself. None where the format's streams are not read.
    """

    judge: Callable[[JsonValue, AdmissionRequest], Action | TextFinish]
    billing: Callable[[JsonObject, bytes, Limits], Billing]
    served: Callable[[JsonObject], ServedIdentity]
    continuation: Callable[[bytes], Continuation]
    assemble: Callable[[Sequence[StreamEvent], Limits], bytes] | None


FORMATS: Mapping[WireFormat, Format] = MappingProxyType(
    {
        WireFormat.CHAT_COMPLETIONS: Format(
            judge=chat_completions.judge,
            billing=chat_evidence.billing_of,
            served=chat_evidence.read_served,
            continuation=chat_evidence.read_continuation,
            assemble=chat_stream.assemble,
        ),
        WireFormat.RESPONSES: Format(
            judge=responses.judge,
            billing=responses_evidence.billing_of,
            served=responses_evidence.read_served,
            continuation=responses_evidence.read_continuation,
            assemble=responses_stream.assemble,
        ),
        WireFormat.MESSAGES: Format(
            judge=messages.judge,
            billing=messages_evidence.billing_of,
            served=messages_evidence.read_served,
            continuation=messages_evidence.read_continuation,
            assemble=messages_stream.assemble,
        ),
        WireFormat.GENERATE_CONTENT: Format(
            judge=generate_content.judge,
            billing=generate_content_evidence.billing_of,
            served=generate_content_evidence.read_served,
            continuation=generate_content_evidence.read_continuation,
            assemble=generate_content_stream.assemble,
        ),
    }
)


def format_of(wire_format: WireFormat, *, streamed: bool) -> Format:
    """The format's entry; raises UnsupportedWireFormat where there is none, or none for its streams."""
    entry = FORMATS.get(wire_format)
    if entry is None or (streamed and entry.assemble is None):
        raise UnsupportedWireFormat(
            "responses of this form cannot be judged",
            wire_format=wire_format.value,
            streamed="true" if streamed else "false",
        )
    return entry


def unary_body(entry: Format, body: bytes, limits: Limits, *, streamed: bool) -> bytes:
    """The body that the unary rules judge: as it came, or assembled from its events. Raises Inadmissible."""
    if not streamed or entry.assemble is None:
        return body
    return entry.assemble(read_events(body, limits), limits)


def read_billing(
    raw: bytes, wire_format: WireFormat, *, streamed: bool = False, limits: Limits = DEFAULT_LIMITS
) -> Billing:
    """The billing evidence of a body; empty where it is not read as strict JSON, or as a complete stream: what a
    stream that broke has counted so far is not the bill.
    """
    entry = format_of(wire_format, streamed=streamed)
    try:
        unary = unary_body(entry, raw, limits, streamed=streamed)
        body = read_strict(unary, limits)
    except Inadmissible:
        return NO_BILLING
    return entry.billing(body if isinstance(body, dict) else {}, unary, limits)
