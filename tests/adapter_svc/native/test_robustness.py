"""Whatever a record holds: a verdict, never an exception, and the same in pieces."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapter_svc import native_service
from adapter_svc.native import Completion, NativeReader
from tests.adapter_svc.native.helpers import WELL, captured, lines, opening_of, records_of
from tests.adapter_svc.native.test_mutations import GOOD, leaves, with_leaf

ODD = st.sampled_from(
    [
        None,
        True,
        False,
        0,
        -1,
        1.5,
        10**18,
        10**30,
        -(10**30),
        1e308,
        "",
        "x",
        "x" * 600,
        "\u2028",
        [],
        [[]],
        {},
        {"a": 1},
    ]
)
ANYTHING = ODD | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def insides(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The places of all members and items, whatever they hold."""
    found = [path] if path else []
    for leaf in leaves(value):
        found += [leaf[:length] for length in range(1, len(leaf) + 1)]
    return found


@pytest.mark.parametrize("path", GOOD)
@given(data=st.data())
def test_a_changed_record_gives_a_verdict_that_can_be_sent(path: str, data: st.DataObject) -> None:
    records = records_of(captured(path))
    at = data.draw(st.integers(0, len(records) - 1))
    place = data.draw(st.sampled_from(insides(records[at])))
    records[at] = with_leaf(records[at], place, lambda _: data.draw(ANYTHING))
    stream = lines(records)
    cut = data.draw(st.integers(0, len(stream)))
    whole, halves = NativeReader(opening_of(path)), NativeReader(opening_of(path))
    events = whole.feed(stream)
    assert halves.feed(stream[:cut]) + halves.feed(stream[cut:]) == events
    found = whole.finish(WELL)
    assert halves.finish(WELL) == found
    assert native_service.write_verdict(found).ByteSize() > 0


@pytest.mark.parametrize("path", GOOD)
@given(data=st.data())
def test_a_member_that_is_missing_gives_a_verdict_too(path: str, data: st.DataObject) -> None:
    records = records_of(captured(path))
    at = data.draw(st.integers(0, len(records) - 1))
    place = data.draw(st.sampled_from([place for place in insides(records[at]) if isinstance(place[-1], str)]))
    holder: Any = records[at]
    for key in place[:-1]:
        holder = holder[key]
    del holder[place[-1]]
    reader = NativeReader(opening_of(path))
    reader.feed(lines(records))
    assert native_service.write_verdict(reader.finish(WELL)).ByteSize() > 0


@pytest.mark.parametrize("path", GOOD)
@pytest.mark.parametrize("escape", [r"\ud800", r"\udc00", r"\ud83d\ude00", r"\u0000", r"\u001b[2J"])
def test_escapes_in_a_text_give_a_verdict_that_can_be_sent(path: str, escape: str) -> None:
    stream = captured(path)
    for word in (b"FINAL-ANSWER", b"harness-ok", b"fake-model"):
        reader = NativeReader(opening_of(path))
        events = reader.feed(stream.replace(word, escape.encode()))
        found = reader.finish(WELL)
        assert native_service.write_verdict(found).ByteSize() > 0
        assert all(isinstance(json.loads(event.body), dict) for event in events)
        if isinstance(found, Completion):
            assert found.assistant_text.encode()
