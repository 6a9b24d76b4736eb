"""Spoilt answers: whatever comes, the decoder gives a verdict, and only a whole stream is ever admitted."""

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exchange_mutations import read_tree, write_tree
from tests.verifier_svc.receipts import bodies
from tests.verifier_svc.receipts.recorded import Exchange, load, read
from tests.verifier_svc.receipts.responses import TOOLS, text_response, tool_call, tool_response
from tests.verifier_svc.receipts.streaming import streamed
from verifier_svc.receipts.decode import decode
from verifier_svc.receipts.verdicts import Action, Decoded, Reason, TechnicalUnknown, TextFinish
from verifier_svc.receipts.wire import Answer, WireFormat

CHAT, MESSAGES, RESPONSES, GENERATE = WireFormat
ANSWERS: list[tuple[WireFormat, Any]] = [
    (CHAT, text_response("Done. é")),
    (CHAT, tool_response(tool_call("finish", '{"claim":"saved"}'), reasoning="hm")),
    (MESSAGES, bodies.message({"type": "thinking", "thinking": "hm", "signature": "s"}, bodies.text_block())),
    (MESSAGES, bodies.calling(bodies.text_block(), bodies.tool_use("finish", {"claim": "saved"}))),
    (RESPONSES, bodies.response({"type": "reasoning", "summary": []}, bodies.said("Done."))),
    (RESPONSES, bodies.response(bodies.function_call("finish", '{"claim":"saved"}'))),
    (GENERATE, bodies.generated({"text": "hm", "thought": True}, {"text": "Done."})),
    (GENERATE, bodies.generated({"text": "So."}, bodies.called("finish", args={"claim": "saved"}))),
]
ODD: Sequence[Any] = (
    *(None, True, False, 0, 1, -1, 1.5, "", "x", [], {}, [None], [{}], {"a": 1}, "error", "stop", "STOP", "end_turn"),
    *("tool_use", "completed", "assistant", "model", "text", "function_call", "wait", "é", 2**70),
)


def judged(wire: WireFormat, body: bytes, is_streamed: bool) -> Decoded:
    return decode(Answer(wire, body, 200, is_streamed), TOOLS, ())


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inside for place in places(item, (*path, key)))]


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(ANSWERS), st.data())
def test_one_odd_value_anywhere_is_judged_alike_in_both_forms(answer: tuple[WireFormat, Any], data: Any) -> None:
    """An answer with something odd in it cannot always be sent as a stream; where it can, the verdicts are one."""
    wire, body = answer
    path = data.draw(st.sampled_from(places(body)), label="path")
    spoilt = replaced(body, path, data.draw(st.sampled_from(ODD), label="value"))
    unary = judged(wire, json.dumps(spoilt).encode(), False)
    assert isinstance(unary.verdict, Action | TextFinish | TechnicalUnknown)
    try:
        stream = judged(wire, streamed(wire.value, spoilt), True).verdict
    except (AttributeError, KeyError, TypeError, ValueError):
        return
    if isinstance(stream, TechnicalUnknown):
        assert isinstance(unary.verdict, TechnicalUnknown) or stream.reason in STREAM_ONLY
    else:
        assert stream == unary.verdict


STREAM_ONLY = (Reason.STREAM_CONTRADICTION, Reason.STREAM_INCOMPLETE, Reason.INVALID_MESSAGE, Reason.PROVIDER_ERROR)
"""What the events themselves can be refused for, though the answer that they were made of is admissible."""


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(ANSWERS), st.data())
def test_a_stream_with_events_lost_repeated_or_moved_admits_nothing_else(
    answer: tuple[WireFormat, Any], data: Any
) -> None:
    wire, body = answer
    events = streamed(wire.value, body).split(b"\n\n")[:-1]
    honest = judged(wire, streamed(wire.value, body), True).verdict
    at = data.draw(st.integers(0, len(events) - 1), label="at")
    kind = data.draw(st.sampled_from(("lost", "repeated", "moved")), label="kind")
    rest = [*events[:at], *events[at + 1 :]]
    to = data.draw(st.integers(0, len(rest)), label="to") if kind == "moved" else at
    spoilt = rest if kind == "lost" else [*rest[:to], events[at], *rest[to:]]
    spoilt = [*events[: at + 1], *events[at:]] if kind == "repeated" else spoilt
    verdict = judged(wire, b"".join(event + b"\n\n" for event in spoilt), True).verdict
    if isinstance(honest, Action) and isinstance(verdict, Action):
        assert verdict == honest
    assert isinstance(verdict, TechnicalUnknown | type(honest))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(list(WireFormat)), st.booleans(), st.binary(max_size=60))
def test_any_bytes_get_a_verdict(wire: WireFormat, is_streamed: bool, body: bytes) -> None:
    assert isinstance(judged(wire, body, is_streamed).verdict, TechnicalUnknown)


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(list(WireFormat)),
    st.lists(st.sampled_from(["data: ", "event: error", "\n", "\n\n", "{}", "[DONE]", '{"type":"message_stop"}', "{"])),
)
def test_any_events_get_a_verdict(wire: WireFormat, pieces: list[str]) -> None:
    assert isinstance(judged(wire, "".join(pieces).encode(), True).verdict, TechnicalUnknown)


@pytest.fixture(scope="module")
def streams(shared_data: Path) -> list[Exchange]:
    return [each for each in load(shared_data) if each.streamed and len(each.body) < 20_000]


@pytest.mark.parametrize("seed", range(4))
def test_spoilt_recorded_streams_get_a_verdict(streams: list[Exchange], seed: int) -> None:
    """Any byte changed, any event spoilt in its structure: a verdict, and a call only to an offered tool."""
    rng = Random(seed)
    found = set()
    for _ in range(150):
        exchange = rng.choice(streams)
        verdict = read(exchange, spoilt_stream(exchange.text, rng)).verdict
        found.add(verdict.reason if isinstance(verdict, TechnicalUnknown) else type(verdict))
        assert not isinstance(verdict, Action) or verdict.tool in exchange.tools
    assert len(found) > 5


def spoilt_stream(body: bytes, rng: Random) -> bytes:
    if rng.random() < 0.5:
        at = rng.randrange(len(body))
        return body[:at] + rng.choice((b"", b"x", b'"', b"\n\n", b"\xff", b"{")) + body[at + rng.choice((0, 1, 9)) :]
    events = body.replace(b"\r\n", b"\n").split(b"\n\n")
    at = rng.randrange(len(events))
    name, marker, data = events[at].partition(b"data: ")
    try:
        tree = read_tree(data)
    except ValueError:
        return b"\n\n".join(events)
    inside = [holder for holder in holders(tree) if holder]
    entries = rng.choice(inside)
    entries[rng.randrange(len(entries))] = rng.choice(entries)
    return b"\n\n".join([*events[:at], name + marker + write_tree(tree, rng), *events[at + 1 :]])


def holders(tree: Any) -> list[list[Any]]:
    entries = tree.pairs if hasattr(tree, "pairs") else tree if isinstance(tree, list) else []
    values = [entry[1] if isinstance(entry, tuple) else entry for entry in entries]
    return [entries, *(holder for value in values for holder in holders(value))]
