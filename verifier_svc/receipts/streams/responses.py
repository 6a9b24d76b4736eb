"""A streamed response: the last event holds the whole of it (design/admission.md, Streams).

Decided by analogy:
- An event is what its data's `type` says; a name that says otherwise is a contradiction, no type at all
  INVALID_MESSAGE. The name or type `error` and an `error` that is not null are PROVIDER_ERROR.
- `response.completed`, `.incomplete`, `.failed` and `.cancelled` end the stream with the response; a status in it that
  ends otherwise is a contradiction, another one is for the rules. After it only a router's `[DONE]`, which before it
  is STREAM_INCOMPLETE.
- Numbers rise by one from the first; the response's id and model do not change.
- What was said before about items, texts and calls must be in that response (`said_before`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from verifier_svc.receipts.rules import member_of
from verifier_svc.receipts.slices import raw_slice
from verifier_svc.receipts.streams.events import Event, contradiction, event_object, incomplete, reported_error
from verifier_svc.receipts.streams.said_before import SaidBefore
from verifier_svc.receipts.strict import Limits
from verifier_svc.receipts.verdicts import Inadmissible, Reason

_ENDS = {f"response.{status}": status for status in ("completed", "incomplete", "failed", "cancelled")}
_STEADY = ("id", "model")


def assemble_response(events: Sequence[Event], limits: Limits) -> bytes:
    """The body that the unary form would have had; raises Inadmissible where the stream is cut or contradictory."""
    order, said_before = _Order(), SaidBefore()
    final: bytes | None = None
    for event in events:
        if event.is_done and event.name != "error":
            if final is None:
                raise Inadmissible(Reason.STREAM_INCOMPLETE, event.place)
            continue
        said = event_object(event, limits)
        kind = _kind(said, event)
        if final is not None:
            raise contradiction(event)
        order.check(said, event)
        if kind in _ENDS:
            final = _final(said, _ENDS[kind], event)
            said_before.check(said["response"], event)
        else:
            said_before.add(kind, said, event)
    if final is None:
        raise incomplete(events)
    return final


def _kind(said: dict[str, Any], event: Event) -> str:
    kind = said.get("type")
    if kind == "error" or said.get("error") is not None:
        raise reported_error(event)
    if not isinstance(kind, str):
        raise Inadmissible(Reason.INVALID_MESSAGE, event.place)
    if event.name not in ("", kind):
        raise contradiction(event)
    return kind


def _final(said: dict[str, Any], status: str, event: Event) -> bytes:
    response, raw = said.get("response"), raw_slice(event.data, ("response",))
    if raw is None or not isinstance(response, dict):
        raise Inadmissible(Reason.INVALID_MESSAGE, event.place)
    if response.get("status") in tuple(_ENDS.values()) and response["status"] != status:
        raise contradiction(event)
    return raw


@dataclass(slots=True)
class _Order:
    """The number of the last event that had one, and the names that the response was given."""

    last: int | None = None
    names: dict[str, Any] = field(default_factory=dict)

    def check(self, said: dict[str, Any], event: Event) -> None:
        number, response = said.get("sequence_number"), said.get("response")
        if number is not None:
            if type(number) is not int or self.last not in (None, number - 1):
                raise contradiction(event)
            self.last = number
        for name in _STEADY:
            value = member_of(response, name)
            if value not in (None, "") and self.names.setdefault(name, value) != value:
                raise contradiction(event)
