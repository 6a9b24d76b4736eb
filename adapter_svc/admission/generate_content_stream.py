"""The body that the chunks of a generate_content stream make (design/admission.md, Streams; docs/formats.md, Opaque
items).

Each event is an answer of the unary form with some of the parts. The stream is complete with the chunk that gives the
`finishReason` (or says that the prompt was blocked) and the end of the input. Decided here, each pinned by a test:

- `error`, or an event of that name, is `PROVIDER_ERROR` wherever it comes. Any other event after the last chunk is
  `STREAM_CONTRADICTION`, a repeat too: its parts would be further parts. Without a last chunk the stream is
  `STREAM_INCOMPLETE`.
- What must be the same in every chunk that gives it: the model, the answer's id, the prompt's feedback, the role.
  Another value is `STREAM_CONTRADICTION`.
- Counts are the last chunk's: earlier ones are of what was written until then, and a final one leaves some out.
- What a provider-run tool reports is put together from all chunks, so that the rules find it.
- A second candidate, and content of another form, go into the body as they came: the rules refuse them in their
  order.
- Members that no rule reads are left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from adapter_svc.admission.limits import Limits
from adapter_svc.admission.raw_json import compose_array, items, members
from adapter_svc.admission.repeats import keep_first, sorted_object
from adapter_svc.admission.rules import JsonObject
from adapter_svc.admission.server_sent_events import StreamEvent, after_last
from adapter_svc.admission.strict_json import JsonValue
from adapter_svc.admission.verdict import Inadmissible, Reason

_SAME_IN_ALL = ("modelVersion", "responseId", "promptFeedback")
_REPORTS = ("groundingMetadata", "urlContextMetadata")
_EMPTY = frozenset({b"null", b"{}", b"[]", b'""'})


@dataclass(slots=True)
class _Answer:
    """What the chunks so far make: members, parts and other candidates, each as its own bytes."""

    limits: Limits
    body: dict[str, bytes] = field(default_factory=dict)
    candidate: dict[str, bytes] = field(default_factory=dict)
    content: dict[str, bytes] | None = None
    parts: list[bytes] = field(default_factory=list)
    reports: dict[str, dict[str, bytes]] = field(default_factory=dict)
    others: list[bytes] = field(default_factory=list)
    finished: bool = False


def assemble(events: Sequence[StreamEvent], limits: Limits) -> bytes:
    """The unary body. Raises Inadmissible where the stream is incomplete, carries an error or contradicts itself."""
    answer = _Answer(limits)
    for event in events:
        value = event.json(limits)
        if not isinstance(value, dict):
            raise Inadmissible(Reason.MALFORMED_JSON, event.where)
        if value.get("error") is not None or event.name == "error":
            raise Inadmissible(Reason.PROVIDER_ERROR, event.where)
        if answer.finished:
            raise Inadmissible(Reason.STREAM_CONTRADICTION, event.where)
        _add(answer, event, value)
    if not answer.finished:
        raise Inadmissible(Reason.STREAM_INCOMPLETE, after_last(events))
    return _body(answer)


def _add(answer: _Answer, event: StreamEvent, chunk: JsonObject) -> None:
    raw = members(event.data)
    keep_first(answer.body, raw, answer.limits, event.where, _SAME_IN_ALL)
    answer.body.pop("usageMetadata", None)
    if "usageMetadata" in raw:
        answer.body["usageMetadata"] = raw["usageMetadata"]
    feedback = chunk.get("promptFeedback")
    answer.finished = isinstance(feedback, dict) and feedback.get("blockReason") is not None
    candidates = chunk.get("candidates")
    if not isinstance(candidates, list):
        answer.others += [raw["candidates"]] if candidates is not None else []
        return
    for position, one in enumerate(items(raw["candidates"])):
        _add_candidate(answer, event, one, candidates[position], first=position == 0)


def _add_candidate(answer: _Answer, event: StreamEvent, raw: bytes, value: JsonValue, *, first: bool) -> None:
    if not isinstance(value, dict) or not first or value.get("index") not in (None, 0):
        answer.others.append(raw)
        return
    given = members(raw)
    keep_first(answer.candidate, given, answer.limits, event.where, ("finishReason", "index"))
    answer.finished = answer.finished or value.get("finishReason") is not None
    for name in _REPORTS:
        _add_report(answer, name, given.get(name, b"null"), value.get(name))
    if value.get("content") is not None:
        _add_content(answer, event, given["content"], value["content"])


def _add_report(answer: _Answer, name: str, raw: bytes, value: JsonValue) -> None:
    if isinstance(value, dict):
        said = {member: text for member, text in members(raw).items() if text not in _EMPTY}
        answer.reports.setdefault(name, {}).update(said)
    elif value is not None:
        answer.candidate[name] = raw


def _add_content(answer: _Answer, event: StreamEvent, raw: bytes, value: JsonValue) -> None:
    parts = value.get("parts") if isinstance(value, dict) else ()
    if not isinstance(parts, list | None):
        answer.candidate["content"] = raw
        return
    if answer.content is None:
        answer.content = {}
    given = members(raw)
    keep_first(answer.content, given, answer.limits, event.where, ("role",))
    if parts:
        answer.parts += items(given["parts"])


def _body(answer: _Answer) -> bytes:
    candidate = {name: sorted_object(report) for name, report in answer.reports.items()} | answer.candidate
    if answer.content is not None and "content" not in candidate:
        candidate["content"] = sorted_object({**answer.content, "parts": compose_array(answer.parts)})
    candidates = ([sorted_object(candidate)] if candidate else []) + answer.others
    return sorted_object({**answer.body, "candidates": compose_array(candidates)})
