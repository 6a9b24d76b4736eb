"""The streams of chat_completions: chunks of one choice, merged into the body that the unary form would have had
(design/admission.md, Streams; docs/formats.md, Opaque items of a streamed answer).

Decided here, each pinned by a test:

- An error (the event's name, `object: "error"`, an `error` member of chunk or choice) and a missing end are told before
  a contradiction in what came before them.
- The end is `[DONE]` and then the end of input; a `[DONE]` again is an equal repeat.
- A chunk has no choice (usage, Azure's prompt filter, moderation) or one, of index 0 where it has an index. Other
  choices, and a delta that is neither absent, null nor an object, go into the body as they came: the rules refuse them
  in their order.
- `id`, `model` and `provider` are the same in every chunk that names them. The last `usage` counts: some servers report
  a running total. Every other member of a chunk or choice (`created`, `logprobs`, ...) says nothing of the answer.
- After the chunk that gave a reason (the gateway's or the native one) only empty pieces and equal repeats follow.
- Of several contradictions the earliest event's is told.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from adapter_svc.admission.chat_pieces import Piece, earliest, merge_message, merge_whole
from adapter_svc.admission.limits import Limits
from adapter_svc.admission.raw_json import compose_array, items, members
from adapter_svc.admission.repeats import sorted_object
from adapter_svc.admission.rules import JsonObject
from adapter_svc.admission.server_sent_events import StreamEvent, after_last
from adapter_svc.admission.strict_json import JsonValue
from adapter_svc.admission.verdict import Inadmissible, Reason

_DONE = b"[DONE]"
_ERROR = "error"
_SAME_THROUGHOUT = ("id", "model", "provider")
_REASONS = ("finish_reason", "native_finish_reason")

Pieces = dict[str, list[Piece]]


@dataclass(slots=True)
class _Chunks:
    """The pieces of every member that matters, in the order of the events."""

    body: Pieces = field(default_factory=dict)
    choice: Pieces = field(default_factory=dict)
    message: Pieces = field(default_factory=dict)
    chosen: bool = False
    odd_delta: bytes | None = None
    odd_choices: list[bytes] = field(default_factory=list)
    odd_list: bytes | None = None

    def take(self, chunk: JsonObject, event: StreamEvent) -> None:
        raw = members(event.data, event.where)
        _collect(self.body, (*_SAME_THROUGHOUT, "usage"), chunk, raw, event)
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            self.odd_list = raw["choices"] if choices is not None else self.odd_list
            return
        for choice, raw_choice in zip(choices, items(raw["choices"], event.where), strict=True):
            if isinstance(choice, dict) and _is_first(choice.get("index")):
                self._take_choice(choice, members(raw_choice, event.where), event)
            else:
                self.odd_choices.append(raw_choice)

    def _take_choice(self, choice: JsonObject, raw: dict[str, bytes], event: StreamEvent) -> None:
        self.chosen = True
        _collect(self.choice, _REASONS, choice, raw, event)
        delta = choice.get("delta")
        if isinstance(delta, dict):
            _collect(self.message, tuple(delta), delta, members(raw["delta"], event.where), event)
        elif delta is not None:
            self.odd_delta = raw["delta"]

    def finished_at(self) -> int | None:
        """The number of the first event that gave a reason."""
        given = [piece.number for name in _REASONS for piece in self.choice.get(name, []) if piece.says]
        return min(given, default=None)


def _collect(
    pieces: Pieces, names: Sequence[str], values: JsonObject, raw: dict[str, bytes], event: StreamEvent
) -> None:
    for name in names:
        if name in values:
            pieces.setdefault(name, []).append(Piece(values[name], raw[name], event.number))


def _is_first(index: JsonValue) -> bool:
    return index is None or (type(index) is int and index == 0)


def assemble(events: Sequence[StreamEvent], limits: Limits) -> bytes:
    """The body that the unary rules judge, its members sorted and every value that is not joined in its own bytes.

    Raises Inadmissible at an event: `PROVIDER_ERROR`, `STREAM_CONTRADICTION`, and `STREAM_INCOMPLETE` at the event that
    should have come.
    """
    chunks, ended = _Chunks(), False
    for event in events:
        if event.name == _ERROR:
            raise Inadmissible(Reason.PROVIDER_ERROR, event.where)
        if event.data == _DONE:
            ended = True
            continue
        chunk = _read(event, limits)
        if ended:
            raise Inadmissible(Reason.STREAM_CONTRADICTION, event.where)
        chunks.take(chunk, event)
    if not ended:
        raise Inadmissible(Reason.STREAM_INCOMPLETE, after_last(events))
    return _body(chunks)


def _read(event: StreamEvent, limits: Limits) -> JsonObject:
    chunk = event.json(limits)
    if not isinstance(chunk, dict):
        raise Inadmissible(Reason.MALFORMED_JSON, event.where)
    choices = chunk.get("choices")
    holders = [chunk, *(choices if isinstance(choices, list) else [])]
    failed = any(isinstance(holder, dict) and holder.get("error") is not None for holder in holders)
    if failed or chunk.get("object") == _ERROR:
        raise Inadmissible(Reason.PROVIDER_ERROR, event.where)
    return chunk


def _body(chunks: _Chunks) -> bytes:
    steady = {name: partial(merge_whole, chunks.body[name]) for name in _SAME_THROUGHOUT if name in chunks.body}
    made = earliest({**steady, "choice": partial(_choice, chunks)})
    choices = [made.pop("choice")] if chunks.chosen else []
    body = {name: raw for name, raw in made.items() if name != "choice"}
    body["choices"] = chunks.odd_list or compose_array([*choices, *chunks.odd_choices])
    if "usage" in chunks.body:
        usages = chunks.body["usage"]
        body["usage"] = next((piece.raw for piece in reversed(usages) if piece.says), usages[0].raw)
    return sorted_object(body)


def _choice(chunks: _Chunks) -> bytes:
    jobs = {name: partial(merge_whole, pieces) for name, pieces in chunks.choice.items()}
    if chunks.message:
        jobs["message"] = partial(merge_message, chunks.message, chunks.finished_at())
    made = earliest(jobs)
    return sorted_object(made if chunks.odd_delta is None else {**made, "message": chunks.odd_delta})
