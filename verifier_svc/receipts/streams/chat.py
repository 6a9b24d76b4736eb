"""A streamed chat completion, put together from the deltas of its choices (design/admission.md, Streams).

Decided by analogy:
- The end marker is `[DONE]`, repeated or not; anything after it is a contradiction. An event named `error`, a chunk
  with an `error` that is not null, at the top or in a choice, and a chunk of the kind `error` are PROVIDER_ERROR.
- An error and a missing end are told before a contradiction in what came before them; of several contradictions the
  first one.
- `id`, `model`, `provider`, the reasons and every member of a delta that does not come in pieces must not change.
- After a reason to stop, native or not, nothing grows and no member appears. Usage is the last that was stated.
- A tool call without an `index`, or with null there, is a call of its own and keeps its bytes: fragments are never put
  together by guessing. An index that is no whole number from 0 is a contradiction.
- A choice that is not the one of index 0, and what has not the form of a delta, is kept as it came, and the unary rules
  judge it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from countersign.kit.canonical import canonical_json
from verifier_svc.receipts.rules import member_of
from verifier_svc.receipts.slices import raw_elements, raw_members, written_array, written_object
from verifier_svc.receipts.streams.events import Event, contradiction, event_object, incomplete, reported_error
from verifier_svc.receipts.streams.pieces import ObjectPieces
from verifier_svc.receipts.strict import Limits
from verifier_svc.receipts.verdicts import Inadmissible

_STEADY = ("id", "model", "provider")
_REASONS = ("finish_reason", "native_finish_reason")
_LEFT_OUT = "channel"
_GROWING = frozenset(("content", "reasoning", "reasoning_content", "refusal"))
_MESSAGE_TEXTS = frozenset(("reasoning", "reasoning_content", "refusal"))
_DETAIL_TEXTS = frozenset(("text", "summary", "data", "signature"))
_ARGUMENTS = frozenset(("arguments",))


def assemble_chat(events: Sequence[Event], limits: Limits) -> bytes:
    """The body that the unary form would have had; raises Inadmissible where the stream is cut or contradictory."""
    completion, fault = _Completion(), None
    is_done = False
    for event in events:
        if event.name == "error":
            raise reported_error(event)
        if event.is_done:
            is_done = True
            continue
        chunk = event_object(event, limits)
        _check_error(chunk, event)
        if is_done:
            raise contradiction(event)
        try:
            if fault is None:
                completion.add(chunk, event)
        except Inadmissible as found:
            fault = found
    if not is_done:
        raise incomplete(events)
    if fault is not None:
        raise fault
    return completion.write()


def _check_error(chunk: dict[str, Any], event: Event) -> None:
    if chunk.get("error") is not None or chunk.get("object") == "error":
        raise reported_error(event)
    choices = chunk.get("choices")
    if any(member_of(choice, "error") is not None for choice in (choices if isinstance(choices, list) else ())):
        raise reported_error(event)


@dataclass(slots=True)
class _Completion:
    steady: ObjectPieces = field(default_factory=ObjectPieces)
    choice: "_Choice | None" = None
    odd_choices: list[bytes] = field(default_factory=list)
    last: dict[str, bytes] = field(default_factory=dict)

    def add(self, chunk: dict[str, Any], event: Event) -> None:
        members = raw_members(event.data)
        for name in _STEADY:
            if name in members:
                self.steady.add(name, members[name], event)
        if chunk.get("usage") not in (None, ""):
            self.last["usage"] = members["usage"]
        choices = chunk.get("choices")
        if isinstance(choices, list):
            for choice, raw in zip(choices, raw_elements(members["choices"]), strict=True):
                self._add_choice(choice, raw, event)
        elif choices is not None:
            self.last["choices"] = members["choices"]

    def _add_choice(self, choice: Any, raw: bytes, event: Event) -> None:
        index = member_of(choice, "index")
        if isinstance(choice, dict) and (index is None or (type(index) is int and index == 0)):
            self.choice = self.choice or _Choice()
            self.choice.add(choice, raw, event)
        else:
            self.odd_choices.append(raw)

    def write(self) -> bytes:
        choices = [] if self.choice is None else [self.choice.write()]
        found = {"choices": written_array([*choices, *self.odd_choices]), **self.last}
        return written_object({**self.steady.members(), **found})


@dataclass(slots=True)
class _Choice:
    reasons: ObjectPieces = field(default_factory=ObjectPieces)
    message: "_Message" = field(default_factory=lambda: _Message())
    odd_message: bytes | None = None
    said: set[str] = field(default_factory=set)
    arrays: set[str] = field(default_factory=set)
    over_at: int | None = None

    def add(self, choice: dict[str, Any], raw: bytes, event: Event) -> None:
        members, delta = raw_members(raw), choice.get("delta")
        if isinstance(delta, dict):
            if any(self._adds(name, value, event) for name, value in delta.items()):
                raise contradiction(event)
            self.message.add(delta, members["delta"], event)
        elif delta is not None:
            self.odd_message = members["delta"]
        for name in _REASONS:
            if name in members:
                self.reasons.add(name, members[name], event)
                if self.over_at is None and choice[name] not in (None, ""):
                    self.over_at = event.number

    def _adds(self, name: str, value: Any, event: Event) -> bool:
        """Whether a member brings something after the end: a piece more, or what was not said by then."""
        if isinstance(value, list):
            self.arrays.add(name)
        if self.over_at is None or event.number <= self.over_at:
            self.said |= {name} if value not in (None, "") else set()
            return False
        grows = name in _GROWING or name in self.arrays or name not in self.said
        return grows and name != _LEFT_OUT and value not in (None, "", [])

    def write(self) -> bytes:
        message = self.odd_message or self.message.write()
        return written_object({**self.reasons.members(), **({"message": message} if message else {})})


@dataclass(slots=True)
class _Message:
    pieces: ObjectPieces = field(default_factory=lambda: ObjectPieces(_MESSAGE_TEXTS, grows_arrays=True))
    content: list[str | bytes] = field(default_factory=list)
    calls: dict[int, "_Call"] = field(default_factory=dict)
    whole_calls: list[bytes] = field(default_factory=list)
    details: dict[Any, ObjectPieces | bytes] = field(default_factory=dict)
    arrays: set[str] = field(default_factory=set)
    taken: set[str] = field(default_factory=set)

    def add(self, delta: dict[str, Any], raw: bytes, event: Event) -> None:
        self.arrays |= {name for name, value in delta.items() if isinstance(value, list)}
        for name, value in raw_members(raw).items():
            if isinstance(delta[name], list) or (name == "content" and isinstance(delta[name], str) and delta[name]):
                self.taken.add(name)
            if name == "content" and isinstance(delta[name], str):
                self.content.append(delta[name])
            elif name == "content" and isinstance(delta[name], list):
                self.content.extend(raw_elements(value))
            elif name == "tool_calls" and isinstance(delta[name], list):
                self._add_calls(delta[name], raw_elements(value), event)
            elif name == "reasoning_details" and isinstance(delta[name], list):
                self._add_details(delta[name], raw_elements(value), event)
            elif name != _LEFT_OUT:
                self.pieces.add(name, value, event)
            if name in self.taken and not self.pieces.is_silent(name):
                raise contradiction(event)

    def _add_calls(self, calls: list[Any], raws: list[bytes], event: Event) -> None:
        for call, raw in zip(calls, raws, strict=True):
            index = member_of(call, "index")
            if index is None:
                self.whole_calls.append(raw)
            elif type(index) is int and index >= 0:
                self.calls.setdefault(index, _Call()).add(call, raw, event)
            else:
                raise contradiction(event)

    def _add_details(self, details: list[Any], raws: list[bytes], event: Event) -> None:
        for detail, raw in zip(details, raws, strict=True):
            index, kind = member_of(detail, "index"), member_of(detail, "type")
            if not isinstance(index, int) or isinstance(index, bool) or not isinstance(kind, str):
                self.details[len(self.details), None] = raw
                continue
            pieces = self.details.setdefault((index, kind), ObjectPieces(_DETAIL_TEXTS))
            if isinstance(pieces, ObjectPieces):
                pieces.add_all(raw, event)

    def write(self) -> bytes:
        """The message so far, nothing where no delta had a member."""
        found = self.pieces.members()
        said = {name: raw for name, raw in found.items() if not self.pieces.is_silent(name)}
        message = {**found, **self._grown(), **said}
        return written_object(message) if message else b""

    def _grown(self) -> dict[str, bytes]:
        grown: dict[str, bytes] = {}
        if self.content or "content" in self.arrays:
            grown["content"] = _written_content(self.content, "content" in self.arrays)
        if "tool_calls" in self.arrays:
            indexed = [self.calls[key].write() for key in sorted(self.calls)]
            grown["tool_calls"] = written_array([*indexed, *self.whole_calls])
        if "reasoning_details" in self.arrays:
            details = self.details.values()
            grown["reasoning_details"] = written_array(
                [detail if isinstance(detail, bytes) else detail.write() for detail in details]
            )
        return grown


@dataclass(slots=True)
class _Call:
    pieces: ObjectPieces = field(default_factory=ObjectPieces)
    function: ObjectPieces | None = None

    def add(self, call: dict[str, Any], raw: bytes, event: Event) -> None:
        for name, value in raw_members(raw).items():
            if name == "function" and isinstance(call[name], dict):
                self.function = self.function or ObjectPieces(_ARGUMENTS)
                self.function.add_all(value, event)
            elif name != "index":
                self.pieces.add(name, value, event)
        if self.function is not None and not self.pieces.is_silent("function"):
            raise contradiction(event)

    def write(self) -> bytes:
        found = self.pieces.members()
        return written_object(found if self.function is None else {**found, "function": self.function.write()})


def _written_content(pieces: list[str | bytes], has_parts: bool) -> bytes:
    """One text where only texts came; else the parts in order, texts between them as parts of their own."""
    if not has_parts:
        return canonical_json("".join(piece for piece in pieces if isinstance(piece, str)))
    parts: list[bytes] = []
    text = ""
    for piece in [*pieces, b""]:
        if isinstance(piece, str):
            text += piece
            continue
        if text:
            parts.append(canonical_json({"text": text, "type": "text"}))
        text = ""
        if piece:
            parts.append(piece)
    return written_array(parts)
