"""Server-sent events as the HTML standard has them, read strictly (design/admission.md, Streams).

Departures from a browser's reader, all towards refusing: the text is UTF-8 without a byte-order mark, and an event that
no blank line ends makes the stream incomplete instead of being dropped. So does the first half of a CR LF at the end,
in a stream that has others: it was cut there. Events without data are not dispatched,
comments and unknown fields are skipped, as the standard says.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from adapter_svc.admission.limits import Limits
from adapter_svc.admission.strict_json import JsonValue, read_strict
from adapter_svc.admission.verdict import Inadmissible, Reason

_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\n|\r")


class StreamEvent(Struct, frozen=True):
    """One dispatched event: its number from 1, its name (empty where it has none) and its data's bytes."""

    number: int
    name: str
    data: bytes

    @property
    def where(self) -> str:
        """How a verdict names this event."""
        return f"event {self.number}"

    def json(self, limits: Limits) -> JsonValue:
        """The data as strict JSON; Inadmissible at this event where it is not."""
        return read_strict(self.data, limits, self.where)


def read_events(body: bytes, limits: Limits) -> list[StreamEvent]:
    """Every event of a complete stream.

    Raises Inadmissible: `LIMIT_EXCEEDED` for a body over the limit, `MALFORMED_JSON` for one that is not plain UTF-8,
    `STREAM_INCOMPLETE` where the input ends inside an event.
    """
    if len(body) > limits.body_bytes:
        raise Inadmissible(Reason.LIMIT_EXCEEDED, "")
    if body.startswith(_BOM) or not _is_utf8(body):
        raise Inadmissible(Reason.MALFORMED_JSON, "")
    events: list[StreamEvent] = []
    name, data = "", []
    lines = _LINE_END.split(body)
    for line in lines[:-1]:
        if line:
            field, value = _field(line)
            if field == b"data":
                data.append(value)
            elif field == b"event":
                name = value.decode("utf-8")
            continue
        if data:
            events.append(StreamEvent(len(events) + 1, name, b"\n".join(data)))
        name, data = "", []
    if lines[-1] or data or name:
        raise Inadmissible(Reason.STREAM_INCOMPLETE, after_last(events))
    if body.endswith(b"\r") and b"\r\n" in body:
        raise Inadmissible(Reason.STREAM_INCOMPLETE, f"event {len(events)}")
    return events


def after_last(events: Sequence[StreamEvent]) -> str:
    """How a verdict names the event that should have come after these."""
    return f"event {len(events) + 1}"


def _field(line: bytes) -> tuple[bytes, bytes]:
    name, _, value = line.partition(b":")
    return name, value.removeprefix(b" ")


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
