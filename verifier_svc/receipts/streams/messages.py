"""A streamed message, put together from its blocks (design/admission.md, Streams).

Decided by analogy:
- An event is what its data's `type` says; a name that says otherwise is a contradiction. `error` is PROVIDER_ERROR,
  `ping` and unknown kinds are nothing.
- `message_start` comes first, with no content; an equal repeat is fine. A block begins at the next index, takes deltas
  of its own kind until it stops, and none starts or grows once there is a stop reason: all else is a contradiction.
- A delta of an unknown kind is INVALID_MESSAGE: the block cannot be put together.
- `message_stop` ends the stream; a block that has not stopped by then makes it STREAM_INCOMPLETE. After it only pings
  and equal repeats.
- Counts of `message_delta`'s usage take the place of `message_start`'s, member by member.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from countersign.kit.canonical import canonical_json
from verifier_svc.receipts.rules import member_of
from verifier_svc.receipts.slices import raw_elements, raw_members, raw_slice, written_array, written_object
from verifier_svc.receipts.streams.events import Event, contradiction, event_object, incomplete, reported_error
from verifier_svc.receipts.streams.pieces import ObjectPieces
from verifier_svc.receipts.strict import Limits, read
from verifier_svc.receipts.verdicts import Inadmissible, Reason

_BLOCK_TEXTS = frozenset(("text", "thinking", "signature"))
_DELTAS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("signature", "thinking"),
    "citations_delta": ("citation", "text"),
    "input_json_delta": ("partial_json", ""),
}
"""Each kind of delta: the member that it brings, and the kind of block that it belongs to, "" for any with an input."""


def assemble_message(events: Sequence[Event], limits: Limits) -> bytes:
    """The body that the unary form would have had; raises Inadmissible where the stream is cut or contradictory."""
    message = _Message(limits)
    stopped: Event | None = None
    for event in events:
        said = event_object(event, limits)
        kind = said.get("type")
        if kind == "error":
            raise reported_error(event)
        if event.name and event.name != kind:
            raise contradiction(event)
        if stopped is not None and kind not in ("message_stop", "ping"):
            raise contradiction(event)
        if kind == "message_stop" and stopped is None:
            message.check_whole(event)
            stopped = event
        message.add(kind, said, event)
    if stopped is None:
        raise incomplete(events)
    return message.write()


@dataclass(slots=True)
class _Block:
    begun: bytes
    pieces: ObjectPieces
    input_texts: list[str] = field(default_factory=list)
    citations: list[bytes] = field(default_factory=list)
    is_open: bool = True

    def write(self, limits: Limits) -> bytes:
        found, text = self.pieces.members(), "".join(self.input_texts).strip(" \t\n\r")
        if self.citations:
            known = found.get("citations", b"null")
            found["citations"] = written_array([*(raw_elements(known) if known[:1] == b"[" else []), *self.citations])
        return written_object({**found, "input": _input(text, limits)} if text else found)


def _input(text: str, limits: Limits) -> bytes:
    """The input as it came; where that is no strict JSON, as a text, which no tool takes for arguments."""
    try:
        read(text.encode("utf-8"), limits)
    except Inadmissible:
        return canonical_json(text)
    return text.encode("utf-8")


@dataclass(slots=True)
class _Message:
    limits: Limits
    begun: bytes | None = None
    members: ObjectPieces = field(default_factory=lambda: ObjectPieces(frozenset()))
    usage: dict[str, bytes] = field(default_factory=dict)
    blocks: list[_Block] = field(default_factory=list)

    def add(self, kind: Any, said: dict[str, Any], event: Event) -> None:
        if kind == "message_start":
            self._start(said, event)
        elif kind == "content_block_start":
            self._begin(said, event)
        elif kind == "content_block_delta":
            self._grow(said, event)
        elif kind == "content_block_stop":
            self._block(said, event).is_open = False
        elif kind == "message_delta":
            self._end(said, event)

    def check_whole(self, event: Event) -> None:
        """At the end marker: there was a message, and every block of it has stopped."""
        if self.begun is None or any(block.is_open for block in self.blocks):
            raise Inadmissible(Reason.STREAM_INCOMPLETE, event.place)

    def _start(self, said: dict[str, Any], event: Event) -> None:
        message = raw_slice(event.data, ("message",))
        if self.begun is not None and message is not None and json.loads(message) == json.loads(self.begun):
            return
        if self.begun is not None or member_of(said.get("message"), "content") not in (None, []):
            raise contradiction(event)
        if message is None or not isinstance(said["message"], dict):
            raise Inadmissible(Reason.INVALID_MESSAGE, event.place)
        self.begun = message
        for name, raw in raw_members(message).items():
            if name == "usage" and isinstance(said["message"]["usage"], dict):
                self.usage.update(raw_members(raw))
            elif name != "content":
                self.members.add(name, raw, event)

    def _begin(self, said: dict[str, Any], event: Event) -> None:
        index, raw = said.get("index"), raw_slice(event.data, ("content_block",))
        if raw is None or not isinstance(said["content_block"], dict):
            raise Inadmissible(Reason.INVALID_MESSAGE, event.place)
        is_next = type(index) is int and index == len(self.blocks)
        if self.begun is None or (self._is_stopping() and is_next):
            raise contradiction(event)
        if not is_next:
            if json.loads(raw) != json.loads(self._block(said, event).begun):
                raise contradiction(event)
            return
        block = _Block(raw, ObjectPieces(_BLOCK_TEXTS))
        block.pieces.add_all(raw, event)
        self.blocks.append(block)

    def _block(self, said: dict[str, Any], event: Event) -> _Block:
        index = said.get("index")
        if type(index) is not int or not 0 <= index < len(self.blocks):
            raise contradiction(event)
        return self.blocks[index]

    def _grow(self, said: dict[str, Any], event: Event) -> None:
        block, delta = self._block(said, event), said.get("delta")
        kind = member_of(delta, "type")
        known = _DELTAS.get(kind) if isinstance(kind, str) else None
        if not isinstance(delta, dict) or known is None:
            raise Inadmissible(Reason.INVALID_MESSAGE, event.place)
        member, owner = known
        if not block.is_open or self._is_stopping() or not _belongs(block, owner):
            raise contradiction(event)
        raw = raw_slice(event.data, ("delta", member))
        if raw is None or (member != "citation" and not isinstance(delta[member], str)):
            raise Inadmissible(Reason.INVALID_MESSAGE, event.place)
        if member == "partial_json":
            block.input_texts.append(delta[member])
        elif member == "citation":
            block.citations.append(raw)
        else:
            block.pieces.add(member, raw, event)

    def _is_stopping(self) -> bool:
        return self.members.whole.get("stop_reason", b"null") != b"null"

    def _end(self, said: dict[str, Any], event: Event) -> None:
        if self.begun is None:
            raise contradiction(event)
        raws = raw_members(event.data)
        if isinstance(said.get("delta"), dict):
            self.members.add_all(raws["delta"], event)
        if isinstance(said.get("usage"), dict):
            self.usage.update(
                (name, raw) for name, raw in raw_members(raws["usage"]).items() if said["usage"][name] is not None
            )

    def write(self) -> bytes:
        found = {
            **self.members.members(),
            "content": written_array([block.write(self.limits) for block in self.blocks]),
        }
        return written_object({**found, "usage": written_object(self.usage)} if self.usage else found)


def _belongs(block: _Block, owner: str) -> bool:
    kind = block.pieces.whole.get("type")
    return "input" in block.pieces.whole if owner == "" else kind == canonical_json(owner)
