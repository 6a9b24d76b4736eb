"""The bytes of a provider request, for every wire format (docs/formats.md, Conversation)."""

from collections.abc import Mapping, Sequence
from typing import Any

from adapter_svc.admission import WireFormat
from adapter_svc.admission.raw_json import compose_object
from adapter_svc.admission.verdict import Inadmissible
from adapter_svc.routes.chat_request import CHAT_FORM
from adapter_svc.routes.errors import ContinuationChanged, InputLimitExceeded
from adapter_svc.routes.generate_request import GENERATE_CONTENT_FORM
from adapter_svc.routes.messages_request import MESSAGES_FORM
from adapter_svc.routes.profile import Route
from adapter_svc.routes.request_form import RequestForm, Turn
from adapter_svc.routes.responses_request import RESPONSES_FORM
from countersign.kit.canonical import canonical_json, sha256

FORMS: Mapping[WireFormat, RequestForm] = {
    WireFormat.CHAT_COMPLETIONS: CHAT_FORM,
    WireFormat.RESPONSES: RESPONSES_FORM,
    WireFormat.MESSAGES: MESSAGES_FORM,
    WireFormat.GENERATE_CONTENT: GENERATE_CONTENT_FORM,
}


def build_request(
    route: Route, system_message: str, packet: bytes, tools: Sequence[Mapping[str, Any]], turns: Sequence[Turn]
) -> bytes:
    """The request's body: canonical JSON but for what came from the model, which goes back byte for byte.

    `packet` is the public packet's canonical JSON; each of `tools` has name, description and parameters.

    Raises InputLimitExceeded where the conversation and the tools together are over the route's limit, and
    ContinuationChanged where a continuation is not what its digest says.
    """
    form = FORMS[route.wire_format]
    shown = {**form.conversation(system_message, packet, turns), "tools": canonical_json(form.tools(tools))}
    measured = len(compose_object(shown))
    if measured > route.input_limit_bytes:
        raise InputLimitExceeded(measured, route.input_limit_bytes)
    settings = {name: canonical_json(value) for name, value in {**route.options, **form.settings(route)}.items()}
    members = {**settings, **shown}
    body = compose_object({name: members[name] for name in sorted(members)})
    _require_unchanged(form, body, turns)
    return body


def _require_unchanged(form: RequestForm, body: bytes, turns: Sequence[Turn]) -> None:
    """Read the finished body again: what a provider will find there must be what it sent (I9)."""
    try:
        returned = [sha256(items) for items in form.returned(body, turns)]
    except Inadmissible:
        raise ContinuationChanged("a continuation is not one JSON value") from None
    if returned != [turn.continuation.digest for turn in turns]:
        raise ContinuationChanged("a continuation's bytes do not match its digest")
