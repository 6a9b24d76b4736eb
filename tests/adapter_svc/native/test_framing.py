"""Bytes into records: strict, the same in any pieces, bounded, and never an exception."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapter_svc.native import Completion, Failure, Harness, NativeReader, Opening
from adapter_svc.native.framing import MAX_RECORD_BYTES, MAX_STREAM_BYTES
from tests.adapter_svc.native.helpers import WELL, code_of, judge

START, FINAL = b'{"type":"start"}\n', b'{"type":"final","status":"success"}\n'
TEXT = b'{"type":"text","text":"hi"}\n'


def text_record(size: int) -> bytes:
    """A record of exactly `size` bytes, without its line feed."""
    head, tail = b'{"type":"text","text":"', b'"}'
    return head + b"x" * (size - len(head) - len(tail)) + tail


@pytest.mark.parametrize("good", [START + FINAL, START + TEXT + FINAL, (START + TEXT + FINAL).replace(b"\n", b"\r\n")])
def test_records_end_with_a_line_feed_and_one_carriage_return_is_tolerated(good: bytes) -> None:
    assert code_of(judge(Harness.MOCK, good)) == "complete"


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\r",
        b"  ",
        b'{"type":"text","text":"a"}\r\r',
        b"\xef\xbb\xbf" + TEXT[:-1],
        b'{"type":"text","text":"\xff"}',
        b'{"type":"text","text":"\xed\xa0\x80"}',
        b'{"type":"text","text":"a","text":"a"}',
        b'{"type":"text","text":NaN}',
        b'{"type":"text","text":"a"} x',
        b'{"type":"text","text":"a"}{"type":"text","text":"b"}',
        b'{"type":"text","te{"type":"text","text":"b"}xt":"a"}',
        b'["text"]',
        b'"text"',
        b"7",
        b"null",
        b'{"type":"text","text":1e999}',
        b'{"a":' + b"[" * 70 + b"]" * 70 + b"}",
        text_record(MAX_RECORD_BYTES + 1),
    ],
)
def test_anything_else_is_malformed_at_its_number(line: bytes) -> None:
    found = judge(Harness.MOCK, START + TEXT + line + b"\n" + FINAL)
    assert isinstance(found, Failure)
    assert (found.code.value, found.record) == ("PROTOCOL_MALFORMED", 3)


def test_a_record_may_have_one_mebibyte() -> None:
    largest = text_record(MAX_RECORD_BYTES)
    found = judge(Harness.MOCK, START + largest + b"\n" + FINAL)
    assert isinstance(found, Completion)
    assert found.facts.records == 3
    assert code_of(judge(Harness.MOCK, START + largest + b"\r\n" + FINAL)) == "complete"


@pytest.mark.parametrize("left", [FINAL[:-1], b"{", b"\r", b" ", b"x"])
def test_bytes_without_a_line_feed_truncate_even_where_they_would_parse(left: bytes) -> None:
    for data, record in ((START + left, 2), (START + FINAL + left, 3)):
        found = judge(Harness.MOCK, data)
        assert isinstance(found, Failure)
        assert (found.code.value, found.record) == ("PROTOCOL_TRUNCATED", record)


def test_a_stream_may_have_64_mebibytes() -> None:
    largest = text_record(MAX_RECORD_BYTES - 1) + b"\n"
    full = (MAX_STREAM_BYTES - len(START) - len(FINAL)) // MAX_RECORD_BYTES
    reader = NativeReader(Opening(Harness.MOCK))
    reader.feed(START)
    for _ in range(full):
        reader.feed(largest)
    rest = MAX_STREAM_BYTES - len(START) - len(FINAL) - full * MAX_RECORD_BYTES
    reader.feed(text_record(rest - 1) + b"\n")
    reader.feed(FINAL)
    assert reader.rejected is None
    reader.feed(b"\n")
    found = reader.finish(WELL)
    assert isinstance(found, Failure)
    assert (found.code.value, found.record) == ("PROTOCOL_MALFORMED", full + 4)


@given(st.lists(st.binary(max_size=40), max_size=8), st.sampled_from(list(Harness)))
def test_no_bytes_raise_and_pieces_do_not_matter(pieces: list[bytes], harness: Harness) -> None:
    whole, parts = NativeReader(Opening(harness)), NativeReader(Opening(harness))
    events = whole.feed(b"".join(pieces))
    assert [event for piece in pieces for event in parts.feed(piece)] == events
    found = whole.finish(WELL)
    assert parts.finish(WELL) == found
    assert isinstance(found, Failure)


def test_what_is_not_kept_does_not_grow() -> None:
    """Progress and results of any size leave ids and fingerprints behind; an unfinished record is kept, and no more."""
    reader = NativeReader(Opening(Harness.MOCK))
    reader.feed(START)
    large = b'{"type":"tool_start","id":"%d","tool":"t","arguments":{"a":"' + b"x" * 100_000 + b'"}}\n'
    end = b'{"type":"tool_end","id":"%d","failed":false,"output":"' + b"x" * 100_000 + b'"}\n'
    reader.feed(large % 0 + end % 0)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(1, 200):
        reader.feed(large % number + end % number)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 100_000
    assert reader.pending_bytes == 0
    reader.feed(b'{"type":')
    assert reader.pending_bytes == 8


def test_once_rejected_nothing_more_is_kept() -> None:
    reader = NativeReader(Opening(Harness.MOCK))
    reader.feed(b"x\n")
    assert reader.rejected is not None
    for _ in range(20):
        assert reader.feed(START + b"y" * 100_000) == []
    assert reader.pending_bytes == 0
    found = reader.finish(WELL)
    assert (found.facts.output_bytes, found.facts.records) == (2 + 20 * (100_000 + len(START)), 1)
