"""The streams of chat_completions: chunks of one choice, merged into the body that the unary form would have had
(design/admission.md, Streams; docs/formats.md, Opaque items of a streamed answer).

Decided here, each pinned by a test:

- An error (the event's name, `object: "error"`, an `error` member of chunk or choice) and a missing end are told before
  a contradiction in what came before them.
- The end is `[DONE]` and then the end of input; a `[DONE]` again is an equal repeat.
- A chunk has no choice (usage, Azure's prompt filter, moderation) or one, of index 0 where it has an index.
- `id`, `model` and `provider` are the same in every chunk that names them. The last `usage` counts: some servers report
  a running total. Every other member of a chunk or choice (`created`, `logprobs`, ...) says nothing of the answer.
- After the chunk that gave a finish reason only empty pieces and equal repeats follow.
- A delta that is neither absent, null nor an object is `INVALID_MESSAGE`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from adapter_svc.admission.chat_pieces import Piece, merge_message, merge_whole
from adapter_svc.admission.limits import Limits
from adapter_svc.admission.raw_json import compose_array, compose_object, members, part
from adapter_svc.admission.rules import JsonObject
from adapter_svc.admission.server_sent_events import StreamEvent, after_last
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

    def take(self, chunk: JsonObject, event: StreamEvent) -> None:
        raw = members(event.data, event.where)
        _collect(self.body, (*_SAME_THROUGHOUT, "usage"), chunk, raw, event)
        choices = chunk.get("choices")
        if choices is None or choices == []:
            return
        choice = _only_choice(choices, event.where)
        self.chosen = True
        raw_choice = members(part(raw["choices"], 0), event.where)
        _collect(self.choice, _REASONS, choice, raw_choice, event)
        delta = choice.get("delta")
        if not isinstance(delta, dict | None):
            raise Inadmissible(Reason.INVALID_MESSAGE, event.where)
        if delta is not None:
            _collect(self.message, tuple(delta), delta, members(raw_choice["delta"], event.where), event)

    def finished_at(self) -> int | None:
        """The number of the first event that gave a finish reason."""
        return next((piece.number for piece in self.choice.get("finish_reason", []) if piece.says), None)


def _collect(
    pieces: Pieces, names: Sequence[str], values: JsonObject, raw: dict[str, bytes], event: StreamEvent
) -> None:
    for name in names:
        if name in values:
            pieces.setdefault(name, []).append(Piece(values[name], raw[name], event.number))


def _only_choice(choices: object, where: str) -> JsonObject:
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        raise Inadmissible(Reason.INVALID_CHOICES, where)
    choice: JsonObject = choices[0]
    index = choice.get("index")
    if index is not None and (type(index) is not int or index != 0):
        raise Inadmissible(Reason.INVALID_CHOICES, where)
    return choice


def assemble(events: Sequence[StreamEvent], limits: Limits) -> bytes:
    """The body that the unary rules judge, its members sorted and every value that is not joined in its own bytes.

    Raises Inadmissible at an event: `PROVIDER_ERROR`, `STREAM_CONTRADICTION`, `INVALID_CHOICES` and `INVALID_MESSAGE`
    for a chunk of another shape, and `STREAM_INCOMPLETE` at the event that should have come.
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
    body = {name: merge_whole(chunks.body[name]) for name in _SAME_THROUGHOUT if name in chunks.body}
    body["choices"] = compose_array([_choice(chunks)] if chunks.chosen else [])
    if "usage" in chunks.body:
        usages = chunks.body["usage"]
        body["usage"] = next((piece.raw for piece in reversed(usages) if piece.says), usages[0].raw)
    return compose_object({name: body[name] for name in sorted(body)})


def _choice(chunks: _Chunks) -> bytes:
    choice = {name: merge_whole(pieces) for name, pieces in chunks.choice.items()}
    if chunks.message:
        choice["message"] = merge_message(chunks.message, chunks.finished_at())
    return compose_object({name: choice[name] for name in sorted(choice)})
