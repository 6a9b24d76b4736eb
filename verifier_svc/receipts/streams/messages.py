"""A streamed message, put together from its blocks (design/admission.md, Streams).

Decided by analogy:
- An event is what its data's `type` says; one without a type, or with another name, is a contradiction. The name or the
  type `error` is PROVIDER_ERROR, whatever else it says. `ping` and unknown kinds are nothing until the end.
- `message_start` comes first, with no content. A block begins at the next index, takes deltas of its own kind until it
  stops, and none begins or grows once there was a `message_delta`. All else, and an event that has not its form, is a
  contradiction. Events that come once may come again, equal as JSON.
- `message_stop` ends the stream; before it every block must have stopped and a `message_delta` come, else it is
  STREAM_INCOMPLETE. After it only equal repeats of it.
- Counts of `message_delta`'s usage take the place of earlier ones, member by member; null and "" say nothing.
- A block that took no delta came whole and keeps its bytes. Of a block of a kind that the rules refuse anyway no delta
  is read.
- A call's `input` is the joined text; what the block was begun with must be a placeholder or equal to it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from countersign.kit.canonical import canonical_json
from verifier_svc.receipts.rules import member_of
from verifier_svc.receipts.schema import equal
from verifier_svc.receipts.slices import raw_elements, raw_members, raw_slice, written_array, written_object
from verifier_svc.receipts.streams.events import Event, contradiction, event_object, reported_error
from verifier_svc.receipts.streams.events import incomplete as incomplete_after
from verifier_svc.receipts.streams.pieces import ObjectPieces
from verifier_svc.receipts.strict import Limits, read
from verifier_svc.receipts.verdicts import Inadmissible, Reason

_DELTAS = {
    "text_delta": ("text", "text", "text"),
    "citations_delta": ("citation", "text", "citations"),
    "thinking_delta": ("thinking", "thinking", "thinking"),
    "signature_delta": ("signature", "thinking", "signature"),
    "input_json_delta": ("partial_json", "tool_use", "input"),
}
"""Each kind of delta: the member that it brings, the kind of block that it belongs to, and that block's member."""
_GROWING_KINDS = ("text", "thinking", "redacted_thinking", "tool_use")
_ONCE = ("message_start", "content_block_start", "content_block_stop", "message_stop")
_SPACE = " \t\r\n"


def assemble_message(events: Sequence[Event], limits: Limits) -> bytes:
    """The body that the unary form would have had; raises Inadmissible where the stream is cut or contradictory."""
    message = _Message(limits)
    once = _Once()
    for event in events:
        said = event_object(event, limits)
        kind = said.get("type")
        if kind == "error":
            raise reported_error(event)
        if not isinstance(kind, str) or event.name not in ("", kind):
            raise contradiction(event)
        if message.has_stopped and kind != "message_stop":
            raise contradiction(event)
        if not once.is_repeat(kind, said, event):
            message.add(kind, said, event)
    if not message.has_stopped:
        raise incomplete_after(events)
    return message.write()


@dataclass(slots=True)
class _Once:
    """The events that may come once, or again the same."""

    known: dict[tuple[str, bytes], dict[str, Any]] = field(default_factory=dict)

    def is_repeat(self, kind: str, said: dict[str, Any], event: Event) -> bool:
        if kind not in _ONCE:
            return False
        earlier = self.known.setdefault((kind, canonical_json(said.get("index"))), said)
        if not equal(earlier, said):
            raise contradiction(event)
        return earlier is not said


@dataclass(slots=True)
class _Block:
    """A block as it was begun, and what its deltas brought: pieces of text by member, and citations."""

    begun: Any
    raw: bytes
    pieces: dict[str, list[str]] = field(default_factory=dict)
    citations: list[bytes] = field(default_factory=list)
    is_open: bool = True

    @property
    def kind(self) -> Any:
        return member_of(self.begun, "type")

    def close(self, limits: Limits, event: Event) -> None:
        """Put the block together; raises Inadmissible where its pieces do not fit what it was begun with."""
        self.is_open = False
        if not self.pieces and not self.citations:
            return
        members = raw_members(self.raw)
        for member, pieces in self.pieces.items():
            if member != "input":
                members[member] = canonical_json("".join([self._own_text(member, event), *pieces]))
            elif any(piece.strip(_SPACE) for piece in pieces):
                members["input"] = self._input("".join(pieces).strip(_SPACE), limits, event)
        if self.citations:
            own = self.begun.get("citations")
            if not isinstance(own, list | None):
                raise contradiction(event)
            members["citations"] = written_array(
                [*(raw_elements(members["citations"]) if own else []), *self.citations]
            )
        self.raw = written_object(members)

    def _own_text(self, member: str, event: Event) -> str:
        own = self.begun.get(member)
        if not isinstance(own, str | None):
            raise contradiction(event)
        return own or ""

    def _input(self, text: str, limits: Limits, event: Event) -> bytes:
        """The input as it came; where that is no strict JSON, as a text, which no tool takes for arguments."""
        raw, own = text.encode("utf-8"), self.begun.get("input")
        try:
            value = read(raw, limits)
        except Inadmissible:
            raw, value = canonical_json(text), text
        if own is not None and own not in ({}, "") and not equal(own, value):
            raise contradiction(event)
        return raw


@dataclass(slots=True)
class _Message:
    limits: Limits
    begun: bool = False
    members: ObjectPieces = field(default_factory=ObjectPieces)
    usage: dict[str, bytes] | None = None
    blocks: list[_Block] = field(default_factory=list)
    is_stopping: bool = False
    has_stopped: bool = False

    def add(self, kind: str, said: dict[str, Any], event: Event) -> None:
        if kind == "message_start":
            self._start(said, event)
        elif kind in _ONCE or kind in ("content_block_delta", "message_delta"):
            if not self.begun:
                raise contradiction(event)
            if kind == "content_block_start":
                self._begin(said, event)
            elif kind == "content_block_delta":
                self._grow(said, event)
            elif kind == "content_block_stop":
                self._open_block(said, event).close(self.limits, event)
            elif kind == "message_delta":
                self._end(said, event)
            else:
                self._stop(event)

    def _start(self, said: dict[str, Any], event: Event) -> None:
        message = said.get("message")
        if self.begun or not isinstance(message, dict) or message.get("content") not in (None, []):
            raise contradiction(event)
        self.begun = True
        for name, raw in raw_members(raw_members(event.data)["message"]).items():
            if name == "usage" and isinstance(message["usage"], dict):
                self.usage = raw_members(raw)
            else:
                self.members.add(name, b"[]" if name == "content" else raw, event)
        self.members.add("content", b"[]", event)

    def _begin(self, said: dict[str, Any], event: Event) -> None:
        index, raw = said.get("index"), raw_slice(event.data, ("content_block",))
        if raw is None or self.is_stopping or type(index) is not int or index != len(self.blocks):
            raise contradiction(event)
        self.blocks.append(_Block(said["content_block"], raw))

    def _open_block(self, said: dict[str, Any], event: Event) -> _Block:
        index = said.get("index")
        if type(index) is not int or not 0 <= index < len(self.blocks) or not self.blocks[index].is_open:
            raise contradiction(event)
        return self.blocks[index]

    def _grow(self, said: dict[str, Any], event: Event) -> None:
        block, delta = self._open_block(said, event), said.get("delta")
        if self.is_stopping:
            raise contradiction(event)
        if block.kind not in _GROWING_KINDS:
            return
        kind = member_of(delta, "type")
        brings, owner, member = _DELTAS.get(kind if isinstance(kind, str) else "", ("", "", ""))
        piece = member_of(delta, brings)
        if owner != block.kind or not isinstance(piece, dict if member == "citations" else str):
            raise contradiction(event)
        if member == "citations":
            block.citations.append(raw_members(raw_members(event.data)["delta"])[brings])
        else:
            block.pieces.setdefault(member, []).append(str(piece))

    def _end(self, said: dict[str, Any], event: Event) -> None:
        delta, usage, raws = said.get("delta"), said.get("usage"), raw_members(event.data)
        if not isinstance(delta, dict) or not isinstance(usage, dict | None):
            raise contradiction(event)
        self.members.add_all(raws["delta"], event)
        self.is_stopping = True
        if usage is not None:
            counts = raw_members(raws["usage"])
            said_counts = {name: raw for name, raw in counts.items() if usage[name] not in (None, "")}
            self.usage = {**(self.usage or {}), **said_counts}

    def _stop(self, event: Event) -> None:
        """At the end marker: the message has an end, and every block of it has stopped."""
        if not self.is_stopping or any(block.is_open for block in self.blocks):
            raise Inadmissible(Reason.STREAM_INCOMPLETE, event.place)
        self.has_stopped = True

    def write(self) -> bytes:
        found = {**self.members.members(), "content": written_array([block.raw for block in self.blocks])}
        return written_object(found if self.usage is None else {**found, "usage": written_object(self.usage)})
