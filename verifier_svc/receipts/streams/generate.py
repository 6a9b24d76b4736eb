"""Streamed generated content: every chunk is a response with the parts that are new (design/admission.md, Streams).

Decided by analogy:
- There is no end marker: the chunk whose candidate has a `finishReason` that is not null, the empty text included, or
  that blocks the prompt, is the last one. Any event after it is a contradiction. An `error` that is not null and an
  event named `error` are PROVIDER_ERROR, wherever they come.
- The model, the answer's id, the prompt's feedback, the candidate's role and its reason must not change. The counts are
  the last chunk's, or none. Of grounding and URL metadata the first that is not empty counts.
- The candidate is the first of its chunk and of index 0, if of any. Others, and what has not the form of a chunk, are
  kept as they came, and the unary rules judge them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from verifier_svc.receipts.rules import member_of
from verifier_svc.receipts.slices import raw_elements, raw_members, written_array, written_object
from verifier_svc.receipts.streams.events import Event, contradiction, event_object, incomplete, reported_error
from verifier_svc.receipts.streams.pieces import ObjectPieces
from verifier_svc.receipts.strict import Limits

_STEADY = ("modelVersion", "responseId", "promptFeedback")
_COUNTS = "usageMetadata"
_METADATA = ("groundingMetadata", "urlContextMetadata")


def assemble_generated(events: Sequence[Event], limits: Limits) -> bytes:
    """The body that the unary form would have had; raises Inadmissible where the stream is cut or contradictory."""
    content = _Content()
    for event in events:
        chunk = event_object(event, limits)
        if chunk.get("error") is not None:
            raise reported_error(event)
        if content.is_over:
            raise contradiction(event)
        content.add(chunk, event)
    if not content.is_over:
        raise incomplete(events)
    return content.write()


@dataclass(slots=True)
class _Content:
    steady: ObjectPieces = field(default_factory=ObjectPieces)
    candidate: "_Candidate | None" = None
    odd_candidates: list[bytes] = field(default_factory=list)
    counts: bytes | None = None
    is_over: bool = False

    def add(self, chunk: dict[str, Any], event: Event) -> None:
        members, candidates = raw_members(event.data), chunk.get("candidates")
        for name in _STEADY:
            if name in members:
                self.steady.add(name, members[name], event)
        self.counts = members.get(_COUNTS)
        self.is_over = member_of(chunk.get("promptFeedback"), "blockReason") is not None
        if isinstance(candidates, list):
            for position, raw in enumerate(raw_elements(members["candidates"])):
                self._add_candidate(position, candidates[position], raw, event)
        elif candidates is not None:
            self.odd_candidates.append(members["candidates"])

    def _add_candidate(self, position: int, candidate: Any, raw: bytes, event: Event) -> None:
        index = member_of(candidate, "index")
        is_first = position == 0 and (index is None or (type(index) is int and index == 0))
        if not is_first or not isinstance(candidate, dict):
            self.odd_candidates.append(raw)
            return
        self.candidate = self.candidate or _Candidate()
        self.candidate.add(candidate, raw, event)
        self.is_over |= candidate.get("finishReason") is not None

    def write(self) -> bytes:
        own = [] if self.candidate is None else [self.candidate.write()]
        counts = {} if self.counts is None else {_COUNTS: self.counts}
        listed = written_array([*own, *self.odd_candidates])
        return written_object({**self.steady.members(), **counts, "candidates": listed})


@dataclass(slots=True)
class _Candidate:
    members: ObjectPieces = field(default_factory=ObjectPieces)
    role: ObjectPieces = field(default_factory=ObjectPieces)
    parts: list[bytes] = field(default_factory=list)
    metadata: dict[str, bytes] = field(default_factory=dict)
    has_content: bool = False
    odd_content: bytes | None = None

    def add(self, candidate: dict[str, Any], raw: bytes, event: Event) -> None:
        for name, value in raw_members(raw).items():
            if name == "finishReason":
                self.members.add(name, value, event)
            elif name in _METADATA and candidate[name] not in (None, {}):
                self.metadata.setdefault(name, value)
            elif name == "content" and candidate[name] is not None:
                self._add_content(candidate[name], value, event)

    def _add_content(self, content: Any, raw: bytes, event: Event) -> None:
        parts = member_of(content, "parts")
        if not isinstance(content, dict) or not isinstance(parts, list | None):
            self.odd_content = raw
            return
        self.has_content = True
        members = raw_members(raw)
        if "role" in members:
            self.role.add("role", members["role"], event)
        if parts:
            self.parts.extend(raw_elements(members["parts"]))

    def write(self) -> bytes:
        found = {**self.members.members(), **self.metadata}
        if self.odd_content is not None:
            found["content"] = self.odd_content
        elif self.has_content:
            found["content"] = written_object({**self.role.members(), "parts": written_array(self.parts)})
        return written_object(found)
