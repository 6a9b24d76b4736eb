"""A streamed chat completion, put together from the deltas of its choices (design/admission.md, Streams).

Decided by analogy:
- The end marker is `[DONE]`, repeated or not; anything after it is a contradiction. An event named `error`, a chunk
  with an `error` that is not null, at the top or in a choice, and a chunk of the kind `error` are PROVIDER_ERROR.
- `id`, `model`, `provider`, the reasons and every member of a delta that does not come in pieces must not change.
- Text, a refusal or a call after a reason to stop is a contradiction. Usage is the last that was stated.
- A tool-call delta without a whole-number `index` is a call of its own: fragments are never put together by guessing.
- What has not the form of a delta is kept as it came, and the unary rules judge it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from countersign.kit.canonical import canonical_json
from verifier_svc.receipts.rules import member_of
from verifier_svc.receipts.slices import raw_elements, raw_members, written_array, written_object
from verifier_svc.receipts.streams.events import Event, contradiction, event_object, incomplete, reported_error
from verifier_svc.receipts.streams.pieces import ObjectPieces
from verifier_svc.receipts.strict import Limits

_STEADY = ("id", "model", "provider")
_REASONS = ("finish_reason", "native_finish_reason")
_LEFT_OUT = "channel"
_ENDED_BY_A_REASON = ("content", "refusal", "tool_calls", "function_call")
_MESSAGE_TEXTS = frozenset(("reasoning", "reasoning_content", "refusal"))
_DETAIL_TEXTS = frozenset(("text", "summary", "data", "signature"))
_ARGUMENTS = frozenset(("arguments",))


def assemble_chat(events: Sequence[Event], limits: Limits) -> bytes:
    """The body that the unary form would have had; raises Inadmissible where the stream is cut or contradictory."""
    completion = _Completion()
    is_done = False
    for event in events:
        if event.is_done:
            is_done = True
            continue
        chunk = event_object(event, limits)
        _check_error(chunk, event)
        if is_done:
            raise contradiction(event)
        completion.add(chunk, event)
    if not is_done:
        raise incomplete(events)
    return completion.write()


def _check_error(chunk: dict[str, Any], event: Event) -> None:
    if chunk.get("error") is not None or chunk.get("object") == "error":
        raise reported_error(event)
    choices = chunk.get("choices")
    if any(member_of(choice, "error") is not None for choice in (choices if isinstance(choices, list) else ())):
        raise reported_error(event)


@dataclass(slots=True)
class _Completion:
    steady: ObjectPieces = field(default_factory=lambda: ObjectPieces(frozenset()))
    choices: dict[int, "_Choice"] = field(default_factory=dict)
    odd_choices: list[bytes] = field(default_factory=list)
    last: dict[str, bytes] = field(default_factory=dict)

    def add(self, chunk: dict[str, Any], event: Event) -> None:
        members = raw_members(event.data)
        for name in _STEADY:
            if name in members:
                self.steady.add(name, members[name], event)
        if chunk.get("usage") is not None:
            self.last["usage"] = members["usage"]
        choices = chunk.get("choices")
        if isinstance(choices, list):
            for choice, raw in zip(choices, raw_elements(members["choices"]), strict=True):
                self._add_choice(choice, raw, event)
        elif choices is not None:
            self.last["choices"] = members["choices"]

    def _add_choice(self, choice: Any, raw: bytes, event: Event) -> None:
        index = member_of(choice, "index") or 0
        if isinstance(choice, dict) and isinstance(index, int):
            self.choices.setdefault(int(index), _Choice()).add(choice, raw, event)
        else:
            self.odd_choices.append(raw)

    def write(self) -> bytes:
        choices = [self.choices[index].write() for index in sorted(self.choices)]
        found = {"choices": written_array([*choices, *self.odd_choices]), **self.last}
        return written_object({**self.steady.members(), **found})


@dataclass(slots=True)
class _Choice:
    reasons: ObjectPieces = field(default_factory=lambda: ObjectPieces(frozenset()))
    message: "_Message" = field(default_factory=lambda: _Message())
    odd_message: bytes | None = None

    def add(self, choice: dict[str, Any], raw: bytes, event: Event) -> None:
        members, delta = raw_members(raw), choice.get("delta")
        is_over = any(json.loads(reason) not in (None, "") for reason in self.reasons.whole.values())
        if isinstance(delta, dict):
            if is_over and any(delta.get(name) for name in _ENDED_BY_A_REASON):
                raise contradiction(event)
            self.message.add(delta, members["delta"], event)
        elif delta is not None:
            self.odd_message = members["delta"]
        for name in _REASONS:
            if name in members:
                self.reasons.add(name, members[name], event)

    def write(self) -> bytes:
        message = self.odd_message or self.message.write()
        return written_object({**self.reasons.members(), "message": message})


@dataclass(slots=True)
class _Message:
    pieces: ObjectPieces = field(default_factory=lambda: ObjectPieces(_MESSAGE_TEXTS, grows_arrays=True))
    content: list[str | bytes] = field(default_factory=list)
    calls: dict[tuple[bool, int], "_Call"] = field(default_factory=dict)
    details: dict[Any, ObjectPieces | bytes] = field(default_factory=dict)
    legacy: "_Call" = field(default_factory=lambda: _Call())
    arrays: set[str] = field(default_factory=set)

    def add(self, delta: dict[str, Any], raw: bytes, event: Event) -> None:
        self.arrays |= {name for name, value in delta.items() if isinstance(value, list)}
        for name, value in raw_members(raw).items():
            if name == "content" and isinstance(delta[name], str):
                self.content.append(delta[name])
            elif name == "content" and isinstance(delta[name], list):
                self.content.extend(raw_elements(value))
            elif name == "tool_calls" and isinstance(delta[name], list):
                self._add_calls(delta[name], raw_elements(value), event)
            elif name == "reasoning_details" and isinstance(delta[name], list):
                self._add_details(delta[name], raw_elements(value), event)
            elif name == "function_call" and isinstance(delta[name], dict):
                self.legacy.pieces.add_all(value, event)
            elif name != _LEFT_OUT:
                self.pieces.add(name, value, event)

    def _add_calls(self, calls: list[Any], raws: list[bytes], event: Event) -> None:
        for call, raw in zip(calls, raws, strict=True):
            index = member_of(call, "index")
            is_numbered = isinstance(index, int) and not isinstance(index, bool)
            key = (False, index) if is_numbered else (True, len(self.calls))
            self.calls.setdefault(key, _Call()).add(call, raw, event)

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
        """A member that also came as a value of another kind keeps that value; null gives way."""
        found = self.pieces.members()
        whole = {name: raw for name, raw in found.items() if raw != b"null"}
        return written_object({**found, **self._grown(), **whole})

    def _grown(self) -> dict[str, bytes]:
        grown: dict[str, bytes] = {}
        if self.content or "content" in self.arrays:
            grown["content"] = _written_content(self.content, "content" in self.arrays)
        if "tool_calls" in self.arrays:
            grown["tool_calls"] = written_array([self.calls[key].write() for key in sorted(self.calls)])
        if "reasoning_details" in self.arrays:
            details = self.details.values()
            grown["reasoning_details"] = written_array(
                [detail if isinstance(detail, bytes) else detail.write() for detail in details]
            )
        legacy = self.legacy.pieces.members()
        return {**grown, "function_call": written_object(legacy)} if legacy else grown


@dataclass(slots=True)
class _Call:
    pieces: ObjectPieces = field(default_factory=lambda: ObjectPieces(_ARGUMENTS))
    function: ObjectPieces = field(default_factory=lambda: ObjectPieces(_ARGUMENTS))
    odd: bytes | None = None

    def add(self, call: Any, raw: bytes, event: Event) -> None:
        if not isinstance(call, dict):
            self.odd = raw
            return
        for name, value in raw_members(raw).items():
            if name == "function" and isinstance(call[name], dict):
                self.function.add_all(value, event)
            elif name != "index":
                self.pieces.add(name, value, event)

    def write(self) -> bytes:
        if self.odd is not None:
            return self.odd
        found, function = self.pieces.members(), self.function.members()
        if function and found.get("function", b"null") == b"null":
            found["function"] = written_object(function)
        return written_object(found)


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
