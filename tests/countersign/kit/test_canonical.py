"""One spelling for each value (docs/formats.md)."""

import hashlib
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from countersign.kit.canonical import canonical_json, sha256

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("value", "spelling"),
    [
        ({"b": 1, "a": [True, None, "é\u2028\n"], "B": {}}, '{"B":{},"a":[true,null,"é\u2028\\n"],"b":1}'),
        ({"\U0001f600": 1, "\uffff": 2}, '{"\uffff":2,"\U0001f600":1}'),
        ([1.0, 1e16, 0.1, -0.0, 1e-7, 2**64], "[1.0,1e+16,0.1,-0.0,1e-07,18446744073709551616]"),
        ("\x00\x7f/", '"\\u0000\x7f/"'),
    ],
)
def test_keys_are_sorted_by_code_point_and_nothing_is_escaped_that_need_not_be(value: Any, spelling: str) -> None:
    assert canonical_json(value) == spelling.encode()


@given(VALUES)
def test_what_is_written_reads_back_and_is_written_alike_again(value: Any) -> None:
    data = canonical_json(value)
    assert json.loads(data) == value
    assert canonical_json(json.loads(data)) == data


@given(st.dictionaries(st.text("abAB\u00e9\U0001f600", max_size=3), st.integers(), max_size=6))
def test_the_order_of_members_does_not_matter(value: dict[str, int]) -> None:
    assert canonical_json(dict(reversed(value.items()))) == canonical_json(value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, {"a": [math.nan]}, "\ud800"])
def test_what_json_cannot_hold_is_refused(value: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each fault has its own message
        canonical_json(value)


@pytest.mark.parametrize("value", [{1, 2}, b"bytes", object()])
def test_what_is_no_json_value_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        canonical_json(value)


def test_a_digest_is_that_of_the_bytes() -> None:
    assert sha256(b"") == hashlib.sha256(b"").digest()
    assert sha256(b"").hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
