"""Server-sent events as the HTML Living Standard reads them."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verifier_svc.receipts.streams.events import Event, event_object, read_events
from verifier_svc.receipts.strict import Limits
from verifier_svc.receipts.verdicts import Inadmissible, Reason, TechnicalUnknown


def events(body: bytes) -> list[tuple[int, str, bytes]]:
    return [(event.number, event.name, event.data) for event in read_events(body, Limits())]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"data: a\n\n", [(1, "", b"a")]),
        (b"data: a\r\n\r\n", [(1, "", b"a")]),
        (b"data: a\r\r", [(1, "", b"a")]),
        (b"data:a\n\ndata:  b\n\n", [(1, "", b"a"), (2, "", b" b")]),
        (b"data: a\ndata: b\n\n", [(1, "", b"a\nb")]),
        (b"event: x\ndata: a\n\ndata: b\n\n", [(1, "x", b"a"), (2, "", b"b")]),
        (b"event: x\n\ndata: b\n\n", [(1, "", b"b")]),
        (b": note\n\ndata: a\n: note\nid: 7\nretry: 1\nodd\n\n", [(1, "", b"a")]),
        (b"data\n\n", [(1, "", b"")]),
        (b"\n\n\n", []),
        (b'{"error":{}}\n', []),
        (b" data: a\n\n", []),
        (b"data: a\r\n\r\n: note\r\n", [(1, "", b"a")]),
        (b"", []),
    ],
)
def test_the_standards_rules(body: bytes, expected: list[tuple[int, str, bytes]]) -> None:
    assert events(body) == expected


@pytest.mark.parametrize(
    ("body", "reason", "where"),
    [
        (b"\xef\xbb\xbfdata: a\n\n", Reason.MALFORMED_JSON, ""),
        (b"data: \xff\n\n", Reason.MALFORMED_JSON, ""),
        (b"data: a\n", Reason.STREAM_INCOMPLETE, "event 1"),
        (b"data: a", Reason.STREAM_INCOMPLETE, "event 1"),
        (b"data: a\n\ndata: b\n", Reason.STREAM_INCOMPLETE, "event 2"),
        (b"data: a\n\nevent: x\n", Reason.STREAM_INCOMPLETE, "event 2"),
        (b"data: a\n\n: no", Reason.STREAM_INCOMPLETE, "event 2"),
        (b"data: a\r\n\r", Reason.STREAM_INCOMPLETE, "event 1"),
    ],
)
def test_what_is_no_text_or_was_cut_is_told_before_any_event(body: bytes, reason: Reason, where: str) -> None:
    with pytest.raises(Inadmissible) as caught:
        events(body)
    assert caught.value.unknown == TechnicalUnknown(reason, where)


def test_a_stream_longer_than_a_body_may_be() -> None:
    assert len(read_events(b"data: a\n\n", Limits(max_bytes=9))) == 1
    with pytest.raises(Inadmissible) as caught:
        read_events(b"data: a\n\n", Limits(max_bytes=8))
    assert caught.value.unknown == TechnicalUnknown(Reason.LIMIT_EXCEEDED, "")


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (Event(3, "", b"{"), TechnicalUnknown(Reason.MALFORMED_JSON, "event 3")),
        (Event(3, "", b"\xff"), TechnicalUnknown(Reason.MALFORMED_JSON, "event 3")),
        (Event(3, "", b"[]"), TechnicalUnknown(Reason.MALFORMED_JSON, "event 3")),
        (Event(2, "", b'{"a":1,"a":1}'), TechnicalUnknown(Reason.DUPLICATE_KEY, "event 2")),
        (Event(9, "error", b"overloaded"), TechnicalUnknown(Reason.PROVIDER_ERROR, "event 9")),
    ],
)
def test_an_event_that_cannot_be_read_is_named_by_its_number(event: Event, expected: TechnicalUnknown) -> None:
    with pytest.raises(Inadmissible) as caught:
        event_object(event, Limits())
    assert caught.value.unknown == expected


@settings(deadline=None)
@given(st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])), max_size=8))
def test_what_was_sent_is_what_is_read(texts: list[str]) -> None:
    body = "".join(f"data: {text}\n\n" for text in texts).encode()
    assert [event.data.decode() for event in read_events(body, Limits())] == texts


@given(
    st.lists(st.sampled_from([b"data: {}", b"\n", b"\r", b"\r\n", b"event: x", b":", b"data", b"\n\n"]), max_size=20)
)
def test_the_events_of_a_cut_stream_are_the_first_of_the_whole(parts: list[bytes]) -> None:
    whole = b"".join(parts) + b"\n\n"
    found = events(whole)
    for at in range(len(whole)):
        if whole[at - 1 : at + 1] != b"\r\n":
            with suppress(Inadmissible):
                cut = events(whole[:at])
                assert cut == found[: len(cut)]
