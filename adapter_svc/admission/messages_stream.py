"""The body that the events of a messages stream make (design/admission.md, Streams; docs/formats.md, Opaque items).

An answer is: `message_start`; for each block, in the order of `index` from 0, `content_block_start`, deltas and
`content_block_stop`; `message_delta`, once or more; `message_stop`; end of input. Decided here, each pinned by a
test:

- `ping` and events of a type that is not known are skipped before the end: the provider documents that new ones may
  come, and what makes up the answer is in the events above. Their data must still be strict JSON that names its type.
- An event that may come once (for a block: once for its index) and comes again the same says nothing; another one is
  `STREAM_CONTRADICTION`. After `message_stop` nothing comes but the same again, else `STREAM_CONTRADICTION`.
- An event whose name or type is `error` is `PROVIDER_ERROR` wherever it comes, whatever else it says.
- An event out of its order, for a block that is not open, or of a delta that does not fit its block is
  `STREAM_CONTRADICTION`. A stream that ends, or says that it ends, with something still missing (`message_stop`, a
  block's end, a `message_delta`) is `STREAM_INCOMPLETE`. A `message_delta` without a reason is `MISSING_STOP_REASON`,
  as in a body. After one no block begins or grows.
- Blocks may be open at the same time: their index tells them apart.
- Counts of `usage` are cumulative: a later one replaces an earlier one.
- A block that had no delta came whole and keeps its bytes. Deltas of a block that the rules refuse anyway are not
  read.
- Argument text that is not strict JSON becomes a JSON string, which the rules refuse as `MALFORMED_ARGUMENTS` in
  their order.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from adapter_svc.admission.limits import Limits
from adapter_svc.admission.messages import CALL, OPAQUE_BLOCKS, TEXT
from adapter_svc.admission.raw_json import compose_array, items, members
from adapter_svc.admission.repeats import SAYS_NOTHING, Kept, same_json, sorted_object
from adapter_svc.admission.rules import JsonObject
from adapter_svc.admission.server_sent_events import StreamEvent, after_last
from adapter_svc.admission.strict_json import JsonValue, read_strict
from adapter_svc.admission.verdict import Inadmissible, Reason
from countersign.kit.canonical import canonical_json

_READ_BLOCKS = OPAQUE_BLOCKS | {TEXT, CALL}
_DELTAS: Mapping[str, tuple[str, str, str]] = MappingProxyType(
    {
        "text_delta": (TEXT, "text", "text"),
        "citations_delta": (TEXT, "citation", "citations"),
        "thinking_delta": ("thinking", "thinking", "thinking"),
        "signature_delta": ("thinking", "signature", "signature"),
        "input_json_delta": (CALL, "partial_json", "input"),
    }
)
"""By a delta's type: the type of the block that it fits, its own member, and the block's member that it adds to."""
_REPEATABLE = frozenset({"content_block_delta", "message_delta"})
_ERROR = "error"
_CITATIONS = "citations"
_ARGUMENTS = "input"
_SPACE = " \t\r\n"


@dataclass(slots=True)
class _Block:
    """A block as it was begun, and what its deltas added, by member."""

    raw: bytes
    value: JsonValue
    pieces: dict[str, list[str]] = field(default_factory=dict)
    citations: list[bytes] = field(default_factory=list)
    open: bool = True

    @property
    def kind(self) -> str:
        kind = self.value.get("type") if isinstance(self.value, dict) else None
        return kind if isinstance(kind, str) else ""

    def own(self, member: str) -> JsonValue:
        return self.value.get(member) if isinstance(self.value, dict) else None


@dataclass(slots=True)
class _Answer:
    """What the events so far make. `message` and `usage` are members as their own bytes; no message, no start."""

    limits: Limits
    message: Kept = field(default_factory=Kept)
    usage: dict[str, bytes] | None = None
    blocks: list[_Block] = field(default_factory=list)
    said: dict[tuple[str, str], JsonObject] = field(default_factory=dict)
    concluded: bool = False
    stopped: bool = False


def assemble(events: Sequence[StreamEvent], limits: Limits) -> bytes:
    """The unary body. Raises Inadmissible where the stream is incomplete, carries an error or contradicts itself."""
    answer = _Answer(limits)
    for event in events:
        kind, value = _read(event, limits)
        step = _STEPS.get(kind)
        if answer.stopped and kind != "message_stop":
            raise _contradiction(event)
        if step is None or _is_repeat(answer, event, kind, value):
            continue
        if bool(answer.message.raw) == (kind == "message_start"):
            raise _contradiction(event)
        step(answer, event, value)
    if not answer.stopped:
        raise Inadmissible(Reason.STREAM_INCOMPLETE, after_last(events))
    return _body(answer)


def _contradiction(event: StreamEvent) -> Inadmissible:
    return Inadmissible(Reason.STREAM_CONTRADICTION, event.where)


def _read(event: StreamEvent, limits: Limits) -> tuple[str, JsonObject]:
    """The event's type, which its name must not contradict, and its data."""
    if event.name == _ERROR:
        raise Inadmissible(Reason.PROVIDER_ERROR, event.where)
    value = event.json(limits)
    if not isinstance(value, dict):
        raise Inadmissible(Reason.MALFORMED_JSON, event.where)
    kind = value.get("type")
    if kind == _ERROR:
        raise Inadmissible(Reason.PROVIDER_ERROR, event.where)
    if not isinstance(kind, str) or event.name not in ("", kind):
        raise _contradiction(event)
    return kind, value


def _is_repeat(answer: _Answer, event: StreamEvent, kind: str, value: JsonObject) -> bool:
    """Whether an event that comes once has come before, and the same; another one contradicts it."""
    if kind in _REPEATABLE:
        return False
    key = (kind, repr(value.get("index")))
    if key not in answer.said:
        answer.said[key] = value
        return False
    if not same_json(answer.said[key], value):
        raise _contradiction(event)
    return True


def _object(event: StreamEvent, value: JsonObject, name: str) -> dict[str, bytes]:
    """The members of the event's object `name`, each as its own bytes."""
    if not isinstance(value.get(name), dict):
        raise _contradiction(event)
    return members(members(event.data)[name])


def _start(answer: _Answer, event: StreamEvent, value: JsonObject) -> None:
    given = _object(event, value, "message")
    started = value["message"]
    if not isinstance(started, dict) or started.get("content") not in (None, []):
        raise _contradiction(event)
    if isinstance(started.get("usage"), dict):
        answer.usage = members(given.pop("usage"))
    answer.message = Kept({**given, "content": b"[]"})


def _start_block(answer: _Answer, event: StreamEvent, value: JsonObject) -> None:
    index = value.get("index")
    is_next = type(index) is int and index == len(answer.blocks)
    if answer.concluded or not is_next or "content_block" not in value:
        raise _contradiction(event)
    answer.blocks.append(_Block(members(event.data)["content_block"], value["content_block"]))


def _open_block(answer: _Answer, event: StreamEvent, value: JsonObject) -> _Block:
    index = value.get("index")
    if type(index) is not int or not 0 <= index < len(answer.blocks) or not answer.blocks[index].open:
        raise _contradiction(event)
    return answer.blocks[index]


def _delta(answer: _Answer, event: StreamEvent, value: JsonObject) -> None:
    block, delta = _open_block(answer, event, value), value.get("delta")
    if answer.concluded:
        raise _contradiction(event)
    if block.kind not in _READ_BLOCKS:
        return
    if not isinstance(delta, dict):
        raise _contradiction(event)
    kind = delta.get("type")
    fits, given, member = _DELTAS.get(kind if isinstance(kind, str) else "", ("", "", ""))
    piece = delta.get(given)
    if fits != block.kind:
        raise _contradiction(event)
    if member == _CITATIONS and isinstance(piece, dict):
        block.citations.append(_object(event, value, "delta")[given])
    elif member != _CITATIONS and isinstance(piece, str):
        block.pieces.setdefault(member, []).append(piece)
    else:
        raise _contradiction(event)


def _stop_block(answer: _Answer, event: StreamEvent, value: JsonObject) -> None:
    block = _open_block(answer, event, value)
    block.raw, block.open = _block_bytes(block, answer.limits, event), False


def _conclude(answer: _Answer, event: StreamEvent, value: JsonObject) -> None:
    answer.message.add(_object(event, value, "delta"), answer.limits, event.where)
    answer.concluded = True
    if value.get("usage") is None:
        return
    counts = _object(event, value, "usage")
    said = {name: count for name, count in counts.items() if count not in SAYS_NOTHING}
    answer.usage = {**(answer.usage or {}), **said}


def _stop(answer: _Answer, event: StreamEvent, value: JsonObject) -> None:
    del value
    if not answer.concluded or any(block.open for block in answer.blocks):
        raise Inadmissible(Reason.STREAM_INCOMPLETE, event.where)
    answer.stopped = True


_STEPS: Mapping[str, Callable[[_Answer, StreamEvent, JsonObject], None]] = MappingProxyType(
    {
        "message_start": _start,
        "content_block_start": _start_block,
        "content_block_delta": _delta,
        "content_block_stop": _stop_block,
        "message_delta": _conclude,
        "message_stop": _stop,
    }
)
"""What each event that makes up the answer does to it."""


def _body(answer: _Answer) -> bytes:
    body = {**answer.message.raw, "content": compose_array(block.raw for block in answer.blocks)}
    if answer.usage is not None:
        body["usage"] = sorted_object(answer.usage)
    return sorted_object(body)


def _block_bytes(block: _Block, limits: Limits, event: StreamEvent) -> bytes:
    if not (block.pieces or block.citations):
        return block.raw
    parts = members(block.raw)
    for member, pieces in block.pieces.items():
        joined = "".join(pieces)
        if member != _ARGUMENTS:
            parts[member] = canonical_json(_own_text(block, member, event) + joined)
        elif joined.strip(_SPACE):
            parts[member] = _arguments(block, joined, limits, event)
    if block.citations:
        earlier = block.own(_CITATIONS)
        if not isinstance(earlier, list | None):
            raise _contradiction(event)
        parts[_CITATIONS] = compose_array([*(items(parts[_CITATIONS]) if earlier else []), *block.citations])
    return sorted_object(parts)


def _own_text(block: _Block, member: str, event: StreamEvent) -> str:
    """The first piece of a text: what the block was begun with."""
    own = block.own(member)
    if not isinstance(own, str | None):
        raise _contradiction(event)
    return own or ""


def _arguments(block: _Block, joined: str, limits: Limits, event: StreamEvent) -> bytes:
    """The joined text's bytes, trimmed; what the block was begun with must be a placeholder, or the same."""
    text, own = joined.strip(_SPACE).encode("utf-8"), block.own(_ARGUMENTS)
    value: JsonValue = joined
    try:
        value = read_strict(text, limits)
    except Inadmissible:
        text = canonical_json(joined)
    if own not in (None, {}, "") and not same_json(own, value):
        raise _contradiction(event)
    return text
