"""Breaking one structural rule of a recorded answer, and knowing which: no such answer may ever be admitted."""

import json
import re
from collections.abc import Callable, Mapping
from random import Random
from types import MappingProxyType
from typing import Any

from tests.exchange_mutations import Members, Spelled, read_tree, write_tree
from tests.stream_mutations import events_of

Break = Callable[[bytes, Random], bytes | None]
"""Gives the broken answer, or None where it has nothing of that kind."""

STOP_MEMBERS = ("finish_reason", "stop_reason", "finishReason", "status")
CALL_LISTS = ("tool_calls", "content", "output", "parts")
CALL_TYPES = ("tool_use", "function_call")


def _holders(tree: Any) -> list[Any]:
    found: list[Any] = []
    children: list[Any] = []
    if isinstance(tree, Members):
        children = [value for _, value in tree.pairs]
        found = [tree] if tree.pairs else []
    elif isinstance(tree, list):
        children = tree
        found = [tree] if tree else []
    for child in children:
        found += _holders(child)
    return found


def _objects(tree: Any) -> list[Members]:
    return [holder for holder in _holders(tree) if isinstance(holder, Members)]


def _changed(body: bytes, rng: Random, change: Callable[[Any], bool]) -> bytes | None:
    tree = read_tree(body)
    return write_tree(tree, rng) if change(tree) else None


def duplicate_key(body: bytes, rng: Random) -> bytes | None:
    """Some key of some object twice, at any depth."""

    def change(tree: Any) -> bool:
        holder = rng.choice(_objects(tree))
        key, value = rng.choice(holder.pairs)
        holder.pairs.insert(rng.randrange(len(holder.pairs) + 1), (key, rng.choice((value, None, 1))))
        return True

    return _changed(body, rng, change)


def no_number(body: bytes, rng: Random) -> bytes | None:
    """Some value replaced by what JSON has not, or by a number that nothing holds."""
    spelled = Spelled(rng.choice(("NaN", "-Infinity", "01", "1.", "1e400", "-1e400", "9" * 100_000, '"\\ud800"')))

    def change(tree: Any) -> bool:
        holder = rng.choice(_holders(tree))
        if isinstance(holder, Members):
            at = rng.randrange(len(holder.pairs))
            holder.pairs[at] = (holder.pairs[at][0], spelled)
        else:
            holder[rng.randrange(len(holder))] = spelled
        return True

    return _changed(body, rng, change)


def too_deep(body: bytes, rng: Random) -> bytes | None:
    """One value too many levels down."""

    def change(tree: Any) -> bool:
        holder = rng.choice(_objects(tree))
        holder.pairs.append(("deep", Spelled("[" * 65 + "]" * 65)))
        return True

    return _changed(body, rng, change)


def trailing_data(body: bytes, rng: Random) -> bytes | None:
    """More after the end of the value."""
    return body + rng.choice((b"{}", b"x", b",", b"\x00", b"]"))


def cut_body(body: bytes, rng: Random) -> bytes | None:
    """The end is missing."""
    return body.rstrip()[: rng.randrange(len(body.rstrip()))]


def no_stop_reason(body: bytes, rng: Random) -> bytes | None:
    """No stop reason, or null, in any object that has one."""
    makes_null = rng.random() < 0.5

    def change(tree: Any) -> bool:
        found = False
        for holder in _objects(tree):
            for name in [name for name, _ in holder.pairs if name in STOP_MEMBERS]:
                found = True
                rest = [(key, value) for key, value in holder.pairs if key != name]
                holder.pairs[:] = [*rest, *([(name, None)] if makes_null else [])]
        return found

    return _changed(body, rng, change)


def second_call(body: bytes, rng: Random) -> bytes | None:
    """The call once more, beside itself."""

    def change(tree: Any) -> bool:
        for holder in _objects(tree):
            for name, value in holder.pairs:
                if name in CALL_LISTS and isinstance(value, list):
                    calls = [item for item in value if name == "tool_calls" or _is_call(item)]
                    if calls:
                        value.append(calls[0])
                        return True
        return False

    return _changed(body, rng, change)


def _is_call(item: Any) -> bool:
    members = dict(item.pairs) if isinstance(item, Members) else {}
    return members.get("type") in CALL_TYPES or "functionCall" in members


def other_model(body: bytes, rng: Random) -> bytes | None:
    """No name, another kind of name, or none at all for the model."""
    value = rng.choice((None, "", 7, [], {}, False))

    def change(tree: Any) -> bool:
        if not isinstance(tree, Members):
            return False
        tree.pairs[:] = [(key, value if key in ("model", "modelVersion") else old) for key, old in tree.pairs]
        return True

    return _changed(body, rng, change)


def other_role(body: bytes, rng: Random) -> bytes | None:
    """A message that is not the assistant's."""
    value = rng.choice((None, "user", "", 1))

    def change(tree: Any) -> bool:
        holders = [holder for holder in _objects(tree) if any(name == "role" for name, _ in holder.pairs)]
        for holder in holders:
            holder.pairs[:] = [(key, value if key == "role" else old) for key, old in holder.pairs]
        return bool(holders)

    return _changed(body, rng, change)


def duplicate_argument(body: bytes, rng: Random) -> bytes | None:
    """A key twice in the arguments of a call that has them as a text."""

    def change(tree: Any) -> bool:
        found = False
        for holder in _objects(tree):
            for at, (name, value) in enumerate(holder.pairs):
                if name == "arguments" and isinstance(value, str):
                    holder.pairs[at] = (name, rng.choice(('{"a":1,"a":1}', '{"x":{"b":1,"b":2}}', "{}{}", '{"a":NaN}')))
                    found = True
        return found

    return _changed(body, rng, change)


def error_inside(body: bytes, rng: Random) -> bytes | None:
    """An error beside the answer."""

    def change(tree: Any) -> bool:
        if isinstance(tree, Members):
            tree.pairs[:] = [pair for pair in tree.pairs if pair[0] != "error"]
            tree.pairs.append(("error", rng.choice(("x", {}, [], {"message": "m"}, 0))))
        return isinstance(tree, Members)

    return _changed(body, rng, change)


BODY_BREAKS: Mapping[str, Break] = MappingProxyType(
    {
        one.__name__: one
        for one in (
            *(duplicate_key, no_number, too_deep, trailing_data, cut_body, no_stop_reason, second_call, other_model),
            *(other_role, duplicate_argument, error_inside),
        )
    }
)
"""By the name of the rule that is broken."""


def cut_stream(body: bytes, rng: Random) -> bytes | None:
    """The last event that says something is missing, or more before it too."""
    events = events_of(body)
    # A router's mark after the end of responses is not what ends the stream.
    marks = (b"data: {", b"data:{") if b'"response.completed"' in body else (b"data:",)
    last = max(at for at, event in enumerate(events) if any(mark in event for mark in marks))
    return b"".join(events[: rng.randrange(last + 1) if rng.random() < 0.5 else last])


def cut_inside(body: bytes, rng: Random) -> bytes | None:
    """The stream ends inside an event."""
    events = events_of(body)
    at = max(number for number, event in enumerate(events) if b"data:" in event)
    return b"".join(events[:at]) + events[at].rstrip()[: rng.randrange(1, len(events[at].rstrip()))]


def error_event(body: bytes, rng: Random) -> bytes | None:
    """An event that reports an error, anywhere."""
    events = events_of(body)
    at = rng.randrange(len(events) + 1)
    return b"".join([*events[:at], rng.choice(_ERRORS), *events[at:]])


def broken_event(body: bytes, rng: Random) -> bytes | None:
    """An event whose data is no strict JSON object."""
    events = events_of(body)
    at = rng.choice([number for number, event in enumerate(events) if re.search(rb"data: ?{", event)])
    # A field may stand before the data or after it; the data of what was recorded is one line.
    (line,) = [line for line in events[at].splitlines() if line.startswith(b"data:")]
    fault = rng.choice((duplicate_key, no_number, too_deep, trailing_data))(line[5:].strip(), rng)
    broken = events[at].replace(line, b"data: " + (fault or b"x").replace(b"\n", b" "))
    return b"".join([*events[:at], broken, *events[at + 1 :]])


def other_model_later(body: bytes, rng: Random) -> bytes | None:
    """Every event names another model, or none."""
    name = rng.choice((b'"model":""', b'"model":7', b'"model":null'))
    spoilt = re.sub(
        rb'"model(Version)?"\s*:\s*"[^"]*"', lambda found: name.replace(b"model", b"model" + (found[1] or b"")), body
    )
    return spoilt if spoilt != body else None


_ERRORS = (
    b"event: error\ndata: overloaded\n\n",
    b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error"}}\n\n',
)
STREAM_BREAKS: Mapping[str, Break] = MappingProxyType(
    {one.__name__: one for one in (cut_stream, cut_inside, error_event, broken_event, other_model_later)}
)
"""By the name of the rule that is broken."""


def is_breakable(body: bytes, *, streamed: bool) -> bool:
    """Whether there is a structure to break."""
    if streamed:
        return re.search(rb"data: ?{", body) is not None
    try:
        return isinstance(json.loads(body), dict)
    except ValueError:
        return False
