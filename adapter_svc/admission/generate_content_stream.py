"""The body that the chunks of a generate_content stream make (design/admission.md, Streams; docs/formats.md, Opaque
items).

Each event is an answer of the unary form with some of the parts. The stream is complete with the chunk that gives the
`finishReason` (or says that the prompt was blocked) and the end of the input. Decided here, each pinned by a test:

- `error`, or an event of that name whatever its data, is `PROVIDER_ERROR` wherever it comes. Any other event after
  the last chunk is `STREAM_CONTRADICTION`, a repeat too: its parts would be further parts. Without a last chunk the
  stream is `STREAM_INCOMPLETE`.
- What must be the same in every chunk that gives it: the model, the answer's id, the prompt's feedback, the role.
  Another value is `STREAM_CONTRADICTION`.
- Counts are the last chunk's: earlier ones are of what was written until then, and a final one leaves some out.
- The first report of a provider-run tool that is not empty goes into the body, so that the rules find it.
- A second candidate, and content of another form, go into the body as they came: the rules refuse them in their
  order.
- Members that no rule reads are left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from adapter_svc.admission.limits import Limits
from adapter_svc.admission.raw_json import compose_array, items, members
from adapter_svc.admission.repeats import Kept, sorted_object
from adapter_svc.admission.rules import JsonObject
from adapter_svc.admission.server_sent_events import StreamEvent, after_last
from adapter_svc.admission.strict_json import JsonValue
from adapter_svc.admission.verdict import Inadmissible, Reason

_SAME_IN_ALL = ("modelVersion", "responseId", "promptFeedback")
_REPORTS = ("groundingMetadata", "urlContextMetadata")


@dataclass(slots=True)
class _Answer:
    """What the chunks so far make: members, parts and other candidates, each as its own bytes."""

    limits: Limits
    body: Kept = field(default_factory=Kept)
    candidate: Kept = field(default_factory=Kept)
    content: Kept | None = None
    parts: list[bytes] = field(default_factory=list)
    others: list[bytes] = field(default_factory=list)
    finished: bool = False


def assemble(events: Sequence[StreamEvent], limits: Limits) -> bytes:
    """The unary body. Raises Inadmissible where the stream is incomplete, carries an error or contradicts itself."""
    answer = _Answer(limits)
    for event in events:
        if event.name == "error":
            raise Inadmissible(Reason.PROVIDER_ERROR, event.where)
        value = event.json(limits)
        if not isinstance(value, dict):
            raise Inadmissible(Reason.MALFORMED_JSON, event.where)
        if value.get("error") is not None:
            raise Inadmissible(Reason.PROVIDER_ERROR, event.where)
        if answer.finished:
            raise Inadmissible(Reason.STREAM_CONTRADICTION, event.where)
        _add(answer, event, value)
    if not answer.finished:
        raise Inadmissible(Reason.STREAM_INCOMPLETE, after_last(events))
    return _body(answer)


def _add(answer: _Answer, event: StreamEvent, chunk: JsonObject) -> None:
    raw = members(event.data)
    answer.body.add(raw, answer.limits, event.where, _SAME_IN_ALL)
    answer.body.raw.pop("usageMetadata", None)
    if "usageMetadata" in raw:
        answer.body.raw["usageMetadata"] = raw["usageMetadata"]
    feedback = chunk.get("promptFeedback")
    answer.finished = isinstance(feedback, dict) and feedback.get("blockReason") is not None
    candidates = chunk.get("candidates")
    if not isinstance(candidates, list):
        answer.others += [raw["candidates"]] if candidates is not None else []
        return
    for position, one in enumerate(items(raw["candidates"])):
        _add_candidate(answer, event, one, candidates[position], first=position == 0)


def _add_candidate(answer: _Answer, event: StreamEvent, raw: bytes, value: JsonValue, *, first: bool) -> None:
    if not isinstance(value, dict) or not first or not _is_first(value.get("index")):
        answer.others.append(raw)
        return
    given = members(raw)
    answer.candidate.add(given, answer.limits, event.where, ("finishReason", "index"))
    answer.finished = answer.finished or value.get("finishReason") is not None
    for name in _REPORTS:
        if value.get(name) not in (None, {}):
            answer.candidate.raw.setdefault(name, given[name])
    if value.get("content") is not None:
        _add_content(answer, event, given["content"], value["content"])


def _is_first(index: JsonValue) -> bool:
    return index is None or (type(index) is int and index == 0)


def _add_content(answer: _Answer, event: StreamEvent, raw: bytes, value: JsonValue) -> None:
    parts = value.get("parts") if isinstance(value, dict) else ()
    if not isinstance(parts, list | None):
        answer.candidate.raw["content"] = raw
        return
    if answer.content is None:
        answer.content = Kept()
    given = members(raw)
    answer.content.add(given, answer.limits, event.where, ("role",))
    if parts:
        answer.parts += items(given["parts"])


def _body(answer: _Answer) -> bytes:
    candidate = answer.candidate.raw
    if answer.content is not None and "content" not in candidate:
        candidate["content"] = sorted_object({**answer.content.raw, "parts": compose_array(answer.parts)})
    candidates = ([sorted_object(candidate)] if candidate else []) + answer.others
    return sorted_object({**answer.body.raw, "candidates": compose_array(candidates)})
