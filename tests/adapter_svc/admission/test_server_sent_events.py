"""Server-sent events, read strictly (design/admission.md, Streams)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapter_svc.admission.limits import DEFAULT_LIMITS, Limits
from adapter_svc.admission.server_sent_events import StreamEvent, after_last, read_events
from adapter_svc.admission.verdict import Inadmissible, Reason


def read(body: bytes) -> list[tuple[str, bytes]]:
    events = read_events(body, DEFAULT_LIMITS)
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    return [(event.name, event.data) for event in events]


def refusal(body: bytes, limits: Limits = DEFAULT_LIMITS) -> tuple[Reason, str]:
    with pytest.raises(Inadmissible) as caught:
        read_events(body, limits)
    return caught.value.reason, caught.value.where


@pytest.mark.parametrize(
    ("body", "events"),
    [
        (b"", []),
        (b"\n\n", []),
        (b"data: 1\n\n", [("", b"1")]),
        (b"data:1\n\n", [("", b"1")]),
        (b"data:  1 \n\n", [("", b" 1 ")]),
        (b"data\n\n", [("", b"")]),
        (b"event: a\ndata: 1\n\ndata: 2\n\n", [("a", b"1"), ("", b"2")]),
        (b"data: 1\nevent: a\nevent: b\n\n", [("b", b"1")]),
        (b"data: 1\ndata: 2\n\n", [("", b"1\n2")]),
        (b": ping\n\ndata: 1\n: more\n\n", [("", b"1")]),
        (b"id: 7\nretry: 5\nfoo: bar\ndata: 1\n\n", [("", b"1")]),
        (b"event: lost\n\ndata: 1\n\n", [("", b"1")]),
        (b"data: a:b\n\n", [("", b"a:b")]),
        (b"data: 1\r\n\r\ndata: 2\r\n\r\n", [("", b"1"), ("", b"2")]),
        (b"data: 1\r\rdata: 2\r\r", [("", b"1"), ("", b"2")]),
        (b"data: 1\n\r\ndata: 2\n\n", [("", b"1"), ("", b"2")]),
        ("data: \u2028\u0085\n\n".encode(), [("", "\u2028\u0085".encode())]),
        (b"DATA: 1\n\n", []),
    ],
)
def test_events_are_those_of_the_standard(body: bytes, events: list[tuple[str, bytes]]) -> None:
    assert read(body) == events


@pytest.mark.parametrize(
    ("body", "number"),
    [
        (b"data: 1", 1),
        (b"data: 1\n", 1),
        (b"data: 1\r\n", 1),
        (b"data: 1\n\ndata: 2\n", 2),
        (b"data: 1\n\nevent: a\n", 2),
        (b"data: 1\n\n:", 2),
        (b"data: 1\n\nd", 2),
        (b"data: 1\r\n\r", 1),
        (b"data: 1\r\n\r\ndata: 2\r\n\r", 2),
    ],
)
def test_an_end_inside_an_event_is_incomplete(body: bytes, number: int) -> None:
    assert refusal(body) == (Reason.STREAM_INCOMPLETE, f"event {number}")


@pytest.mark.parametrize("body", [b"\xef\xbb\xbfdata: 1\n\n", b"data: \xff\n\n", b"data: \xed\xa0\x80\n\n"])
def test_only_plain_utf_8_is_read(body: bytes) -> None:
    assert refusal(body) == (Reason.MALFORMED_JSON, "")


def test_the_size_is_limited() -> None:
    assert refusal(b"data: 1\n\n", Limits(body_bytes=8)) == (Reason.LIMIT_EXCEEDED, "")
    assert len(read_events(b"data: 1\n\n", Limits(body_bytes=9))) == 1


def test_data_is_strict_json_at_its_event() -> None:
    assert StreamEvent(3, "", b'{"a": 1}').json(DEFAULT_LIMITS) == {"a": 1}
    with pytest.raises(Inadmissible) as caught:
        StreamEvent(3, "", b'{"a": 1, "a": 2}').json(DEFAULT_LIMITS)
    assert (caught.value.reason, caught.value.where) == (Reason.DUPLICATE_KEY, "event 3")


def test_what_should_have_come_is_named_by_its_number() -> None:
    assert after_last([]) == "event 1"
    assert after_last([StreamEvent(1, "", b""), StreamEvent(2, "", b"")]) == "event 3"


@given(st.lists(st.sampled_from([b"data: 1", b"event: a", b": c", b"\n", b"\r\n", b"\r", b"data", b"x"])))
def test_what_is_cut_off_is_refused_or_leaves_the_events_before_it(pieces: list[bytes]) -> None:
    body = b"".join(pieces)
    try:
        whole = read_events(body, DEFAULT_LIMITS)
    except Inadmissible:
        return
    for end in range(len(body)):
        try:
            found = read_events(body[:end], DEFAULT_LIMITS)
        except Inadmissible:
            continue
        assert found == whole[: len(found)]
