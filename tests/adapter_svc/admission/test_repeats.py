"""Members that several events give: the first value that says something stays (docs/formats.md, Opaque items)."""

import pytest

from adapter_svc.admission.limits import DEFAULT_LIMITS
from adapter_svc.admission.repeats import Kept, same_json, sorted_object
from adapter_svc.admission.verdict import Inadmissible, Reason


def kept(*given: dict[str, bytes], names: tuple[str, ...] | None = None) -> dict[str, bytes]:
    found = Kept()
    for one in given:
        found.add(one, DEFAULT_LIMITS, "event 7", names)
    return found.raw


@pytest.mark.parametrize(
    ("first", "second", "stays"),
    [
        (b"1", b"1.0", b"1"),
        (b'{"a":1,"b":2}', b'{ "b":2, "a":1 }', b'{"a":1,"b":2}'),
        (b"null", b"7", b"7"),
        (b'""', b'"x"', b'"x"'),
        (b'"x"', b'""', b'"x"'),
        (b'"x"', b"null", b'"x"'),
        (b'"\\u0078"', b'"x"', b'"\\u0078"'),
        (b"null", b'""', b'""'),
        (b'""', b"null", b'""'),
    ],
)
def test_an_equal_value_or_one_that_says_nothing_is_fine(first: bytes, second: bytes, stays: bytes) -> None:
    assert kept({"a": first}, {"a": second}) == {"a": stays}


@pytest.mark.parametrize(
    ("first", "second"),
    [(b"1", b"2"), (b"1", b"true"), (b"[0]", b"[false]"), (b'{"a":0}', b'{"a":false}'), (b"[]", b"{}")],
)
def test_another_value_is_a_contradiction(first: bytes, second: bytes) -> None:
    with pytest.raises(Inadmissible) as caught:
        kept({"a": first}, {"a": second})
    assert (caught.value.reason, caught.value.where) == (Reason.STREAM_CONTRADICTION, "event 7")


def test_only_the_named_members_are_kept() -> None:
    assert kept({"a": b"1", "b": b"2"}, {"b": b"3", "c": b"4"}, names=("a", "c")) == {"a": b"1", "c": b"4"}


def test_true_is_not_one() -> None:
    assert same_json([1, {"a": 1.0}], [1.0, {"a": 1}])
    assert not same_json([1], [True])


def test_keys_are_sorted_and_values_kept() -> None:
    assert sorted_object({"b": b"1.0", "a": b"[ ]"}) == b'{"a":[ ],"b":1.0}'
