"""Recorded streams, cut and disturbed: no part of one runs, and nothing wrong becomes an action (design/admission.md,
Streams).
"""

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from adapter_svc.admission import Action, Reason, TechnicalUnknown, WireFormat
from tests.adapter_svc.admission.recorded import Exchange, admission_of, body_of, read_exchanges

FORMATS = [WireFormat.CHAT_COMPLETIONS, WireFormat.RESPONSES]
STREAMS = {WireFormat.CHAT_COMPLETIONS: 29, WireFormat.RESPONSES: 18}
EVERY_BYTE_UP_TO = 2_500
STEP = 61
"""Longer streams are cut at every so many bytes, and at each of their last ones."""
LAST_BYTES = 120
BLANK_LINE = re.compile(rb"\r?\n\r?\n")


@pytest.fixture(scope="module", params=FORMATS)
def streams(request: pytest.FixtureRequest, shared_data: Path) -> list[Exchange]:
    found = [one for one in read_exchanges(shared_data, request.param) if one["stream"]]
    assert len(found) == STREAMS[request.param]
    return found


def blocks_of(exchange: Exchange) -> list[bytes]:
    """The events with their blank lines, comments beside them."""
    body = body_of(exchange).rstrip(b"\n") + b"\n\n"
    ends = [match.end() for match in BLANK_LINE.finditer(body)]
    return [body[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def places(size: int) -> Iterator[int]:
    step = 1 if size <= EVERY_BYTE_UP_TO else STEP
    yield from range(0, size - LAST_BYTES, step)
    yield from range(max(0, size - LAST_BYTES), size)


def test_a_stream_cut_at_any_event_or_byte_is_never_admitted(streams: list[Exchange]) -> None:
    for exchange in streams:
        blocks = blocks_of(exchange)
        # After a last event, its end mark may be missing where the format has another end.
        last = len(blocks) - (exchange["format"] == "responses" and blocks[-1].startswith(b"data: [DONE]"))
        body = b"".join(blocks[:last])
        ends = {len(b"".join(blocks[:count])) for count in range(last)}
        for end in {*places(len(body)), *ends}:
            verdict = admission_of(exchange, body=body[:end]).verdict
            assert isinstance(verdict, TechnicalUnknown), (exchange["id"], end)
            if body[:end].decode("utf-8", "ignore").encode() == body[:end]:
                assert verdict.reason in (Reason.STREAM_INCOMPLETE, Reason.PROVIDER_ERROR), (exchange["id"], end)


def disturbed(blocks: list[bytes], rng: Random) -> Iterator[list[bytes]]:
    """The events with one of them dropped, given twice, or changed with another, in a few places each."""
    for _ in range(12):
        first, second = rng.randrange(len(blocks)), rng.randrange(len(blocks))
        yield blocks[:first] + blocks[first + 1 :]
        yield blocks[: first + 1] + blocks[first:]
        swapped = list(blocks)
        swapped[first], swapped[second] = swapped[second], swapped[first]
        yield swapped


@pytest.mark.parametrize("seed", range(3))
def test_a_disturbed_stream_never_makes_another_action(streams: list[Exchange], seed: int) -> None:
    for exchange in streams:
        original = admission_of(exchange).verdict
        for blocks in disturbed(blocks_of(exchange), Random(seed)):
            found = admission_of(exchange, body=b"".join(blocks)).verdict
            if not isinstance(found, Action):
                continue
            assert isinstance(original, Action), exchange["id"]
            assert (found.tool, found.tool_call_id) == (original.tool, original.tool_call_id)


def test_a_disturbed_responses_stream_is_the_same_answer_or_none(shared_data: Path) -> None:
    # Its last event repeats everything, so that even a text cannot become another one; chunks of a chat say each
    # piece once, and a piece lost between others cannot be missed.
    for exchange in read_exchanges(shared_data, WireFormat.RESPONSES):
        if not exchange["stream"]:
            continue
        original = admission_of(exchange).verdict
        for blocks in disturbed(blocks_of(exchange), Random(7)):
            found = admission_of(exchange, body=b"".join(blocks)).verdict
            assert isinstance(found, TechnicalUnknown) or found == original


def test_every_stream_is_read_alike_with_any_line_ends(streams: list[Exchange]) -> None:
    for exchange in streams:
        plain = admission_of(exchange)
        for line_end in (b"\r\n", b"\r"):
            other = admission_of(exchange, body=body_of(exchange).replace(b"\n", line_end))
            assert (other.verdict, other.continuation, other.usage) == (
                plain.verdict,
                plain.continuation,
                plain.usage,
            )
