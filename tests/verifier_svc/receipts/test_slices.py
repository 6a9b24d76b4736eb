"""Bytes are found as they stand."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.verifier_svc.receipts.test_strict import VALUES
from verifier_svc.receipts.slices import raw_elements, raw_slice


def test_spelling_order_and_space_survive() -> None:
    message = b'{ "z": [ ], "a" : 1.50e+01 , "\\u0062":"\\u00e9]}\\"" }'
    text = b' {"x": {"k": [0 , ' + message + b' , null]}, "cost": 0.10 } '
    assert raw_slice(text, ("x", "k", 1)) == message
    assert raw_slice(text, ("x", "k", 1, "b")) == b'"\\u00e9]}\\""'
    assert raw_slice(text, ("x", "k", 1, "z")) == b"[ ]"
    assert raw_slice(text, ("cost",)) == b"0.10"
    assert raw_slice(text, ("x", "k", 2)) == b"null"


def test_what_is_not_there_is_none() -> None:
    text = b'{"a":[1],"b":2}'
    for path in (("c",), ("a", 1), ("a", "x"), ("b", 0), ("b", "c", "d"), (0,)):
        assert raw_slice(text, path) is None


def test_elements_of_an_array() -> None:
    assert raw_elements(b'[ 1 , [2,[3]] , {"a":[]} ]') == [b"1", b"[2,[3]]", b'{"a":[]}']
    assert raw_elements(b"[ ]") == []


@given(VALUES, st.sampled_from([None, 1]))
def test_every_part_is_found_by_its_path(value: Any, indent: int | None) -> None:
    text = json.dumps(value, indent=indent).encode()
    for path, part in parts(value, ()):
        found = raw_slice(text, path)
        assert found is not None
        assert json.loads(found) == part


def parts(value: Any, path: tuple[str | int, ...]) -> list[tuple[tuple[str | int, ...], Any]]:
    inside: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        inside = list(value.items())
    elif isinstance(value, list):
        inside = list(enumerate(value))
    return [(path, value), *(found for key, item in inside for found in parts(item, (*path, key)))]
