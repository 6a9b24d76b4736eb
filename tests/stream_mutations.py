"""Spoiling a recorded stream: its events dropped, repeated, moved, cut or changed inside, from a seed."""

import re
from collections.abc import Callable
from random import Random

from tests.exchange_mutations import change_anywhere, read_tree, write_tree

Change = Callable[[list[bytes], Random], list[bytes]]
_BLANK = re.compile(rb"(?<=\r\n\r\n)|(?<=\n\n)|(?<=\r\r)")


def events_of(body: bytes) -> list[bytes]:
    """The stream's events, each with the blank line that ends it."""
    return [event for event in _BLANK.split(body) if event]


def spoil_stream(body: bytes, rng: Random, spoil_data: Callable[[bytes, Random], bytes]) -> bytes:
    """`body` with one to three changes; `spoil_data` changes the data of one event."""
    events = events_of(body)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        change = rng.choice((*_CHANGES, *(spoil_event(spoil_data),) * 5))
        events = change(events, rng) if events else events
    spoilt = b"".join(events)
    kind = rng.randrange(40)
    if kind == 0:
        return spoilt[: rng.randrange(len(spoilt) + 1)]
    if kind == 1:
        return spoilt.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    if kind == 2:
        return spoilt + rng.choice(
            (b"data", b"data: x", b"\r", b"\n", b": end\n", b"event: x\n", b"id: 1\n", b"\xff\n\n")
        )
    return spoilt


def spoil_event(spoil_data: Callable[[bytes, Random], bytes]) -> Change:
    """A change of one event's data."""

    def change(events: list[bytes], rng: Random) -> list[bytes]:
        at = rng.randrange(len(events))
        lines = [line for line in events[at].splitlines() if line.startswith(b"data:")]
        if len(lines) != 1:
            return events
        data = spoil_data(lines[0][5:].strip(), rng).replace(b"\n", b" ").replace(b"\r", b" ")
        return [*events[:at], events[at].replace(lines[0], b"data: " + data), *events[at + 1 :]]

    return change


def change_member(data: bytes, rng: Random) -> bytes:
    """An event's data with one member changed somewhere."""
    try:
        tree = read_tree(data)
    except ValueError:
        return data
    return write_tree(change_anywhere(tree, rng), rng)


def _drop(events: list[bytes], rng: Random) -> list[bytes]:
    at = rng.randrange(len(events))
    return [*events[:at], *events[at + rng.choice((1, 1, 1, 2, 5)) :]]


def _repeat(events: list[bytes], rng: Random) -> list[bytes]:
    at, to = rng.randrange(len(events)), rng.randrange(len(events) + 1)
    to = at if rng.random() < 0.5 else to
    return [*events[:to], events[at], *events[to:]]


def _swap(events: list[bytes], rng: Random) -> list[bytes]:
    one = rng.randrange(len(events))
    other = min(one + 1, len(events) - 1) if rng.random() < 0.5 else rng.randrange(len(events))
    swapped = list(events)
    swapped[one], swapped[other] = events[other], events[one]
    return swapped


def _cut(events: list[bytes], rng: Random) -> list[bytes]:
    return events[: rng.randrange(len(events) + 1)]


def _insert(events: list[bytes], rng: Random) -> list[bytes]:
    at = rng.randrange(len(events) + 1)
    return [*events[:at], rng.choice(_STRANGERS), *events[at:]]


def _rename(events: list[bytes], rng: Random) -> list[bytes]:
    at = rng.randrange(len(events))
    name = rng.choice((b"event: error\n", b"event: ping\n", b"event: message_stop\n", b"event:\n", b"id: 7\n"))
    return [*events[:at], name + events[at], *events[at + 1 :]]


_STRANGERS = (
    *(b"data: [DONE]\n\n", b"data: {}\n\n", b"data: []\n\n", b"data: null\n\n", b"data:\n\n", b": comment\n\n"),
    *(b'data: {"type":"ping"}\n\n', b"event: error\ndata: no json\n\n", b'data: {"type":"error"}\n\n'),
    *(b'data: {"error":{"message":"m"}}\n\n', b'data: {"type":"response.new"}\n\n', b'data: {"choices":[]}\n\n'),
    *(b'data: {"type":"message_stop"}\n\n', b'data: {"type":"message_stop","x":1}\n\n', b"data: {\ndata: }\n\n"),
    *(b'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}\n\n', b"data: [DONE] \n\n"),
    *(b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n', b'data: {"candidates":[{"index":1}]}\n\n'),
    *(b'data: {"choices":[{"index":1,"delta":{"content":"x"}}]}\n\n', b'data: {"usage":null,"choices":null}\n\n'),
    *(b'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":" "}}]}}]}\n\n', b"event: x\n\n"),
    *(b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}\n\n', b"\r"),
)
"""Events that belong to some stream, or to none."""

_CHANGES: tuple[Change, ...] = (_drop, _drop, _repeat, _repeat, _swap, _swap, _cut, _insert, _insert, _rename)
