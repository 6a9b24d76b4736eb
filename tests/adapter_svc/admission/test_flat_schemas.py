"""Flat schemas get the answers of the interpreter of schemas, and nothing else is taken for flat."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from adapter_svc.admission.flat_schemas import flat_check

NAMES = st.sampled_from(["claim", "count", "", "claim ", "é"])
TEXTS = st.sampled_from(["saved", "unknown", "", "Saved", "1"])
ANNOTATIONS = st.fixed_dictionaries({}, optional={"title": TEXTS, "description": TEXTS})
KINDS = st.fixed_dictionaries({"type": st.sampled_from(["string", "boolean", "integer", "number"])})
ENUMS = st.fixed_dictionaries(
    {"type": st.just("string"), "enum": st.lists(st.one_of(TEXTS, st.none(), st.integers(0, 1)), max_size=3)}
)
SCALARS = st.builds(lambda scalar, about: {**scalar, **about}, st.one_of(KINDS, ENUMS), ANNOTATIONS)
FLAT = st.fixed_dictionaries(
    {"type": st.just("object")},
    optional={
        "properties": st.dictionaries(NAMES, SCALARS, max_size=3),
        "required": st.lists(NAMES, unique=True, max_size=2),
        "additionalProperties": st.just(False),
        "description": TEXTS,
    },
)
VALUES = st.one_of(
    TEXTS,
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([10**30, 0.0, -0.0, 1.0, 1.5, 1e300]),
    st.just([]),
    st.just({}),
    st.just(["saved"]),
)
ARGUMENTS = st.dictionaries(NAMES, VALUES, max_size=3)


@settings(deadline=None)
@given(schema=FLAT, arguments=ARGUMENTS)
def test_a_flat_schema_gets_the_interpreters_answer(schema: dict[str, Any], arguments: dict[str, Any]) -> None:
    Draft202012Validator.check_schema(schema)
    check = flat_check(schema)
    assert check is not None
    closed = Draft202012Validator({**schema, "additionalProperties": False})
    assert check(arguments) is closed.is_valid(arguments)


SCALAR = {"type": "string"}


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"properties": {"claim": SCALAR}},
        {"type": ["object"]},
        {"type": "object", "additionalProperties": True},
        {"type": "object", "additionalProperties": {}},
        {"type": "object", "unevaluatedProperties": False},
        {"type": "object", "minProperties": 1},
        {"type": "object", "$defs": {}},
        {"type": "object", "$ref": "#/$defs/a"},
        {"type": "object", "properties": {"claim": True}},
        {"type": "object", "properties": {"claim": {}}},
        {"type": "object", "properties": {"claim": {"type": "null"}}},
        {"type": "object", "properties": {"claim": {"type": ["string"]}}},
        {"type": "object", "properties": {"claim": {"type": "object"}}},
        {"type": "object", "properties": {"claim": {"type": "array"}}},
        {"type": "object", "properties": {"claim": {**SCALAR, "pattern": "s"}}},
        {"type": "object", "properties": {"claim": {**SCALAR, "minLength": 1}}},
        {"type": "object", "properties": {"claim": {"type": "integer", "enum": [1]}}},
        {"type": "object", "properties": {"claim": {"enum": ["saved"]}}},
        {"type": "object", "properties": {"claim": {**SCALAR, "const": "saved"}}},
    ],
)
def test_a_schema_with_anything_more_is_left_to_the_interpreter(schema: dict[str, Any]) -> None:
    assert flat_check(schema) is None
