"""The streams of responses: the last event's `response` is the body, and every event before it must agree
(design/admission.md, Streams; docs/formats.md, Opaque items of a streamed answer).

Decided here, each pinned by a test:

- An event of a type that is not in these tables is passed over, its number and item are checked: what it says stands
  in the last event too, or is no part of the answer. An event without a type is `INVALID_MESSAGE`.
- Numbers rise by one from wherever they begin; events may have none.
- Errors (by the event's name, its type, or an `error` member) are the provider's, at any place of the stream.
- An item's own `id` ties its events together. In the body it may be another one for reasoning only (a gateway mints it
  twice), whose encrypted content may be another one too; the body's goes back.
- `[DONE]` may follow the end, and nothing else.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from adapter_svc.admission.limits import Limits
from adapter_svc.admission.raw_json import part
from adapter_svc.admission.responses_pieces import StreamedItems
from adapter_svc.admission.rules import JsonObject
from adapter_svc.admission.server_sent_events import StreamEvent, after_last
from adapter_svc.admission.strict_json import JsonValue
from adapter_svc.admission.verdict import Inadmissible, Reason

_DONE = b"[DONE]"
_ERROR = "error"
_ENDS = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}
"""The types that end a stream, each with the status that its response has."""
_SAME_THROUGHOUT = ("id", "model")
"""Members of `response` that every event gives alike."""


@dataclass(slots=True)
class _Stream:
    """What was seen so far."""

    limits: Limits
    items: StreamedItems = field(default_factory=StreamedItems)
    number: int | None = None
    names: JsonObject = field(default_factory=dict)
    body: bytes | None = None

    def take(self, event: StreamEvent) -> None:
        if event.name == _ERROR:
            raise Inadmissible(Reason.PROVIDER_ERROR, event.where)
        if self.body is not None and event.data == _DONE:
            return
        data = _read(event, self.limits)
        if self.body is not None:
            raise Inadmissible(Reason.STREAM_CONTRADICTION, event.where)
        self._require_next(data.get("sequence_number"), event.where)
        self._require_same_names(data.get("response"), event.where)
        kind = str(data["type"])
        if kind in _ENDS:
            self._end(kind, data.get("response"), event)
        else:
            self.items.take(kind, data, event.where)

    def _require_next(self, number: JsonValue, where: str) -> None:
        if number is None:
            return
        if type(number) is not int or (self.number is not None and number != self.number + 1):
            raise Inadmissible(Reason.STREAM_CONTRADICTION, where)
        self.number = number

    def _require_same_names(self, response: JsonValue, where: str) -> None:
        given = response if isinstance(response, dict) else {}
        for name in _SAME_THROUGHOUT:
            value = given.get(name)
            if value not in (None, "") and self.names.setdefault(name, value) != value:
                raise Inadmissible(Reason.STREAM_CONTRADICTION, where)

    def _end(self, kind: str, response: JsonValue, event: StreamEvent) -> None:
        if not isinstance(response, dict):
            raise Inadmissible(Reason.INVALID_MESSAGE, event.where)
        # A status that no end has is for the rules to name.
        status = response.get("status")
        if status != _ENDS[kind] and status in tuple(_ENDS.values()):
            raise Inadmissible(Reason.STREAM_CONTRADICTION, event.where)
        self.items.require_agreement(response.get("output"), event.where)
        self.body = part(event.data, "response")


def _read(event: StreamEvent, limits: Limits) -> JsonObject:
    if event.data == _DONE:
        raise Inadmissible(Reason.STREAM_INCOMPLETE, event.where)
    data = event.json(limits)
    if not isinstance(data, dict):
        raise Inadmissible(Reason.MALFORMED_JSON, event.where)
    if data.get("type") == _ERROR or data.get("error") is not None:
        raise Inadmissible(Reason.PROVIDER_ERROR, event.where)
    kind = data.get("type")
    if not isinstance(kind, str):
        raise Inadmissible(Reason.INVALID_MESSAGE, event.where)
    if event.name not in ("", kind):
        raise Inadmissible(Reason.STREAM_CONTRADICTION, event.where)
    return data


def assemble(events: Sequence[StreamEvent], limits: Limits) -> bytes:
    """The body that the unary rules judge: the last event's `response`, byte for byte.

    Raises Inadmissible at an event: `PROVIDER_ERROR`, `STREAM_CONTRADICTION`, `INVALID_MESSAGE` for what is no event
    of the format, and `STREAM_INCOMPLETE` at the event that should have come.
    """
    stream = _Stream(limits)
    for event in events:
        stream.take(event)
    if stream.body is None:
        raise Inadmissible(Reason.STREAM_INCOMPLETE, after_last(events))
    return stream.body
