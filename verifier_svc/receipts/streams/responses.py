"""A streamed response: the last event holds the whole of it (design/admission.md, Streams).

Decided by analogy:
- An event is what its data's `type` says; a name that says otherwise is a contradiction. `error` is PROVIDER_ERROR.
- `response.completed`, `.incomplete`, `.failed` and `.cancelled` end the stream with the response, whose status must be
  the same; an event after it is a contradiction, but for an equal repeat and a router's `[DONE]`.
- What was said before about texts and calls must be in that response, in its order: the finished items' texts and
  calls, and the joined deltas. Opaque items and ids of items are not compared; providers spell them anew.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from verifier_svc.receipts.rules import member_of
from verifier_svc.receipts.slices import raw_slice
from verifier_svc.receipts.streams.events import Event, contradiction, event_object, incomplete, reported_error
from verifier_svc.receipts.strict import Limits
from verifier_svc.receipts.verdicts import Inadmissible, Reason

_ENDS = {f"response.{status}": status for status in ("completed", "incomplete", "failed", "cancelled")}
_CALL_MEMBERS = ("call_id", "name", "arguments")


def assemble_response(events: Sequence[Event], limits: Limits) -> bytes:
    """The body that the unary form would have had; raises Inadmissible where the stream is cut or contradictory."""
    said_before = _SaidBefore()
    final: bytes | None = None
    for event in events:
        if event.is_done and final is not None:
            continue
        said = event_object(event, limits)
        kind = said.get("type")
        if kind == "error":
            raise reported_error(event)
        if event.name and event.name != kind:
            raise contradiction(event)
        if final is not None and (kind not in _ENDS or json.loads(final) != said.get("response")):
            raise contradiction(event)
        if final is None and isinstance(kind, str) and kind in _ENDS:
            final = _final(said, _ENDS[kind], event)
            said_before.check(said["response"], event)
        elif final is None:
            said_before.add(kind, said)
    if final is None:
        raise incomplete(events)
    return final


def _final(said: dict[str, Any], status: str, event: Event) -> bytes:
    response, raw = said.get("response"), raw_slice(event.data, ("response",))
    if raw is None or not isinstance(response, dict):
        raise Inadmissible(Reason.INVALID_MESSAGE, event.place)
    if response.get("status") not in (None, status):
        raise contradiction(event)
    return raw


@dataclass(slots=True)
class _SaidBefore:
    """Texts and calls of the events before the last, and how far the pieces of each have come."""

    items: list[Any] = field(default_factory=list)
    texts: dict[tuple[int, int], list[str]] = field(default_factory=dict)
    arguments: dict[tuple[int, int], list[str]] = field(default_factory=dict)

    def add(self, kind: Any, said: dict[str, Any]) -> None:
        if kind == "response.output_item.done":
            self.items.append(said.get("item"))
        elif kind == "response.output_text.delta":
            _keep(self.texts, said)
        elif kind == "response.function_call_arguments.delta":
            _keep(self.arguments, said)

    def check(self, response: dict[str, Any], event: Event) -> None:
        """Compare with the response that the last event holds; raises Inadmissible."""
        output = response.get("output")
        items = output if isinstance(output, list) else []
        texts, calls = _texts(items), _calls(items)
        if self.items and (_texts(self.items), _calls(self.items)) != (texts, calls):
            raise contradiction(event)
        if self.texts and _joined(self.texts) != texts:
            raise contradiction(event)
        if self.arguments and _joined(self.arguments) != [call[-1] for call in calls if call[-1] != ""]:
            raise contradiction(event)


def _keep(pieces: dict[tuple[int, int], list[str]], said: dict[str, Any]) -> None:
    item, part = (
        index if isinstance(index, int) else 0 for index in (said.get("output_index"), said.get("content_index"))
    )
    delta = said.get("delta")
    pieces.setdefault((item, part), []).append(delta if isinstance(delta, str) else "")


def _joined(pieces: dict[tuple[int, int], list[str]]) -> list[str]:
    """Every text that is not empty, in the order of the output."""
    return [text for text in ("".join(pieces[key]) for key in sorted(pieces)) if text]


def _texts(items: list[Any]) -> list[Any]:
    """Every text of the messages that is not empty, part by part."""
    found = []
    for item in items:
        content = member_of(item, "content") if member_of(item, "type") == "message" else None
        for part in content if isinstance(content, list) else ():
            if member_of(part, "type") == "output_text" and part.get("text") != "":
                found.append(part.get("text"))
    return found


def _calls(items: list[Any]) -> list[list[Any]]:
    return [
        [member_of(item, name) for name in _CALL_MEMBERS]
        for item in items
        if member_of(item, "type") == "function_call"
    ]
