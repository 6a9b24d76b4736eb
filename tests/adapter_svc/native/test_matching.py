"""Argument matching and sameness, as properties."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from adapter_svc.native.matching import arguments_match, fingerprint, same

SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, 1.0, 0.5, "", "null", "1", "true"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
ARGUMENTS = st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4)


def stripped(value: Any) -> Any:
    """`value` without any member that may be left out."""
    if isinstance(value, dict):
        return {key: stripped(item) for key, item in value.items() if item is not None and item != "null"}
    return [stripped(item) for item in value] if isinstance(value, list) else value


@given(ARGUMENTS)
def test_arguments_match_themselves_with_or_without_what_may_be_left_out(declared: dict[str, Any]) -> None:
    assert arguments_match(declared, declared)
    assert arguments_match(stripped(declared), declared)


@given(ARGUMENTS, ARGUMENTS)
def test_what_matches_differs_in_nothing_else(executed: dict[str, Any], declared: dict[str, Any]) -> None:
    if arguments_match(executed, declared):
        assert same(stripped(executed), stripped(declared))
        assert executed.keys() <= declared.keys()


@given(ARGUMENTS, st.sampled_from("xyz"), VALUES)
def test_nothing_may_be_added(declared: dict[str, Any], key: str, value: Any) -> None:
    assert not arguments_match({**declared, key: value}, declared)


@given(VALUES, VALUES)
def test_fingerprints_tell_the_same_apart_as_sameness(first: Any, second: Any) -> None:
    assert (fingerprint(first) == fingerprint(second)) is same(first, second)
