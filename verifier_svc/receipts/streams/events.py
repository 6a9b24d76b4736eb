"""Server-sent events out of bytes (HTML Living Standard, 9.2.6, Interpreting an event stream).

Stricter than a browser: the whole is UTF-8 and has no byte-order mark. The end of the input inside an event, or inside
the CR LF that ends one in a stream that has others, is a cut. Both are found before any event is looked at.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from verifier_svc.receipts.rules import read_object
from verifier_svc.receipts.strict import Limits
from verifier_svc.receipts.verdicts import Inadmissible, Reason

_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\n|\r")
DONE = b"[DONE]"
"""The data that ends a stream of chat completions."""


@dataclass(frozen=True, slots=True)
class Event:
    """One dispatched event: its number from 1, its name ("" where it has none) and its data."""

    number: int
    name: str
    data: bytes

    @property
    def place(self) -> str:
        """Where it stands, as a technical unknown names it."""
        return f"event {self.number}"

    @property
    def is_done(self) -> bool:
        """Whether it is the end marker of a stream of chat completions."""
        return self.data == DONE


def read_events(body: bytes, limits: Limits) -> list[Event]:
    """The events of a whole stream; raises Inadmissible where it is longer than a body may be, no text or cut."""
    if len(body) > limits.max_bytes:
        raise Inadmissible(Reason.LIMIT_EXCEEDED)
    if body.startswith(_BOM) or not _is_text(body):
        raise Inadmissible(Reason.MALFORMED_JSON)
    events: list[Event] = []
    name, data = b"", list[bytes]()
    *lines, rest = _LINE_END.split(body)
    for line in lines:
        if not line:
            if data:
                events.append(Event(len(events) + 1, name.decode("utf-8", "replace"), b"\n".join(data)))
            name, data = b"", []
            continue
        field, _colon, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value
    if rest or data or name:
        raise incomplete(events)
    if body.endswith(b"\r") and b"\r\n" in body:
        raise Inadmissible(Reason.STREAM_INCOMPLETE, f"event {len(events)}")
    return events


def _is_text(body: bytes) -> bool:
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def event_object(event: Event, limits: Limits) -> dict[str, Any]:
    """The strict JSON object in an event's data; raises Inadmissible with the event as the place.

    An event named `error` reports one, whatever its data.
    """
    if event.name == "error":
        raise reported_error(event)
    try:
        return read_object(event.data, limits)
    except Inadmissible as fault:
        raise Inadmissible(fault.unknown.reason, event.place) from None


def incomplete(events: Sequence[Event]) -> Inadmissible:
    """The stream ended too early, after these events: the place is the event that should have come."""
    return Inadmissible(Reason.STREAM_INCOMPLETE, f"event {len(events) + 1}")


def contradiction(event: Event) -> Inadmissible:
    """This event says otherwise than an earlier one."""
    return Inadmissible(Reason.STREAM_CONTRADICTION, event.place)


def reported_error(event: Event) -> Inadmissible:
    """This event reports an error."""
    return Inadmissible(Reason.PROVIDER_ERROR, event.place)
