"""Streamed generated content: every chunk is a response with the parts that are new (design/admission.md, Streams).

Decided by analogy:
- There is no end marker: the stream is whole where input ends after every candidate had a `finishReason`, or after a
  blocked prompt. An `error` that is not null is PROVIDER_ERROR.
- The model, a candidate's role and its reason must not change; parts with anything in them after the reason are a
  contradiction. Of the rest (usage, feedback, metadata) the last that is not empty counts.
- What has not the form of a chunk is kept as it came, and the unary rules judge it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from verifier_svc.receipts.rules import member_of
from verifier_svc.receipts.slices import raw_elements, raw_members, written_array, written_object
from verifier_svc.receipts.streams.events import Event, contradiction, event_object, incomplete, reported_error
from verifier_svc.receipts.streams.pieces import ObjectPieces
from verifier_svc.receipts.strict import Limits

_STEADY = ("modelVersion", "responseId")
_EMPTY_PART = {"text": ""}


def assemble_generated(events: Sequence[Event], limits: Limits) -> bytes:
    """The body that the unary form would have had; raises Inadmissible where the stream is cut or contradictory."""
    content = _Content()
    for event in events:
        chunk = event_object(event, limits)
        if chunk.get("error") is not None:
            raise reported_error(event)
        content.add(chunk, event)
    if not content.is_whole:
        raise incomplete(events)
    return content.write()


@dataclass(slots=True)
class _Content:
    steady: ObjectPieces = field(default_factory=lambda: ObjectPieces(frozenset()))
    candidates: dict[int, "_Candidate"] = field(default_factory=dict)
    odd_candidates: list[bytes] = field(default_factory=list)
    last: dict[str, bytes] = field(default_factory=dict)
    is_blocked: bool = False

    @property
    def is_whole(self) -> bool:
        if not self.candidates:
            return self.is_blocked
        return all(candidate.is_over for candidate in self.candidates.values())

    def add(self, chunk: dict[str, Any], event: Event) -> None:
        self.is_blocked |= member_of(chunk.get("promptFeedback"), "blockReason") is not None
        for name, raw in raw_members(event.data).items():
            if name in _STEADY:
                self.steady.add(name, raw, event)
            elif name == "candidates" and isinstance(chunk[name], list):
                for candidate, text in zip(chunk[name], raw_elements(raw), strict=True):
                    self._add_candidate(candidate, text, event)
            elif chunk[name]:
                self.last[name] = raw

    def _add_candidate(self, candidate: Any, raw: bytes, event: Event) -> None:
        index = member_of(candidate, "index") or 0
        if isinstance(candidate, dict) and isinstance(index, int):
            self.candidates.setdefault(int(index), _Candidate()).add(candidate, raw, event)
        else:
            self.odd_candidates.append(raw)

    def write(self) -> bytes:
        candidates = [self.candidates[index].write() for index in sorted(self.candidates)]
        listed = written_array([*candidates, *self.odd_candidates])
        return written_object({**self.steady.members(), "candidates": listed, **self.last})


@dataclass(slots=True)
class _Candidate:
    reason: ObjectPieces = field(default_factory=lambda: ObjectPieces(frozenset()))
    role: ObjectPieces = field(default_factory=lambda: ObjectPieces(frozenset()))
    parts: list[bytes] = field(default_factory=list)
    last: dict[str, bytes] = field(default_factory=dict)
    has_content: bool = False

    @property
    def is_over(self) -> bool:
        return self.reason.whole.get("finishReason", b"null") not in (b"null", b'""')

    def add(self, candidate: dict[str, Any], raw: bytes, event: Event) -> None:
        was_over = self.is_over
        for name, value in raw_members(raw).items():
            if name == "finishReason":
                self.reason.add(name, value, event)
            elif name == "content" and isinstance(candidate[name], dict):
                self._add_content(candidate[name], value, was_over, event)
            elif candidate[name]:
                self.last[name] = value

    def _add_content(self, content: dict[str, Any], raw: bytes, was_over: bool, event: Event) -> None:
        self.has_content = True
        members, parts = raw_members(raw), content.get("parts")
        if "role" in members:
            self.role.add("role", members["role"], event)
        if isinstance(parts, list):
            if was_over and any(part != _EMPTY_PART for part in parts):
                raise contradiction(event)
            self.parts.extend(raw_elements(members["parts"]))
        elif parts is not None:
            self.last["content"] = raw

    def write(self) -> bytes:
        found = self.reason.members()
        if self.has_content:
            found["content"] = written_object({**self.role.members(), "parts": written_array(self.parts)})
        return written_object({**found, **self.last})
