"""Arguments against offered schemas: no extra fields, nothing fetched, unusable schemas are the caller's fault."""

import json
from typing import Any

import grpc
import pytest

from adapter_svc.admission import InvalidToolSchema, OfferedTool, require_usable
from adapter_svc.admission.schemas import arguments_valid

CITY = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def valid(schema: dict[str, Any], arguments: dict[str, Any]) -> bool:
    return arguments_valid(OfferedTool.of("t", schema), arguments)


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        ({}, {"x": 1}),
        ({"type": "object"}, {"x": 1}),
        (CITY, {"name": "Paris", "x": 1}),
        ({"properties": {"city": CITY}}, {"city": {"name": "Paris", "x": 1}}),
        ({"properties": {"cities": {"items": CITY}}}, {"cities": [{"name": "Paris"}, {"name": "Rome", "x": 1}]}),
        ({"properties": {"pair": {"prefixItems": [CITY]}}}, {"pair": [{"name": "Paris", "x": 1}]}),
        (
            {"$defs": {"City": CITY}, "properties": {"city": {"$ref": "#/$defs/City"}}},
            {"city": {"name": "Paris", "x": 1}},
        ),
        ({"properties": {"city": {"anyOf": [CITY, {"type": "null"}]}}}, {"city": {"name": "Paris", "x": 1}}),
        ({"allOf": [CITY, {"properties": {"age": {}}}]}, {"name": "Paris", "age": 3, "x": 1}),
        ({**CITY, "unevaluatedProperties": False}, {"name": "Paris", "x": 1}),
    ],
)
def test_a_field_beyond_the_listed_ones_is_refused_at_every_level(
    schema: dict[str, Any], arguments: dict[str, Any]
) -> None:
    without = json.loads(json.dumps(arguments))
    for holder in [without, *[value for value in without.values() if isinstance(value, dict)]]:
        holder.pop("x", None)
    for holder in [item for value in without.values() if isinstance(value, list) for item in value]:
        holder.pop("x", None)
    assert valid(schema, without)
    assert not valid(schema, arguments)


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        ({**CITY, "additionalProperties": True}, {"name": "Paris", "x": 1}),
        ({**CITY, "additionalProperties": {"type": "integer"}}, {"name": "Paris", "x": 1}),
        ({**CITY, "unevaluatedProperties": True}, {"name": "Paris", "x": 1}),
        ({"properties": {"free": {"type": "object"}}}, {"free": {"x": 1}}),
        ({**CITY, "patternProperties": {"^x": {}}}, {"name": "Paris", "x": 1}),
        ({"properties": {"$ref": {"type": "string"}}}, {"$ref": "x"}),
        ({"properties": {"n": {"type": "integer"}}}, {"n": 1.0}),
        ({"$defs": {"City": CITY}, "$ref": "#/$defs/City"}, {"name": "Paris"}),
        ({"properties": {"x": {"default": {"$ref": "https://x.invalid"}}}}, {"x": 1}),
    ],
)
def test_what_the_schema_speaks_of_is_admitted(schema: dict[str, Any], arguments: dict[str, Any]) -> None:
    assert valid(schema, arguments)


def test_an_extra_field_must_still_satisfy_what_the_schema_says_of_it() -> None:
    assert not valid({**CITY, "additionalProperties": {"type": "integer"}}, {"name": "Paris", "x": "1"})


@pytest.mark.parametrize(
    "schema",
    [
        b"",
        b"[]",
        b"true",
        b"null",
        b'{"type":"object","type":"object"}',
        b'{"type":"nope"}',
        b'{"properties":[]}',
        b'{"properties":{"a":{"pattern":"("}}}',
        b'{"$ref":"https://x.invalid/schema"}',
        b'{"$ref":"file:///schema"}',
        b'{"$ref":"other.json"}',
        b'{"properties":{"a":{"$ref":"https://json-schema.org/draft/2020-12/schema"}}}',
        b'{"properties":{"a":{"items":{"$dynamicRef":"https://x.invalid/a"}}}}',
        b'{"properties":{"a":{"$ref":"#/$defs/nowhere"}}}',
        b'{"$ref":"#"}',
        b'{"$id":"https://x.invalid/","$ref":"https://x.invalid/#/$defs/a","$defs":{"a":{}}}',
    ],
)
def test_an_unusable_schema_is_refused_before_any_arguments(schema: bytes) -> None:
    with pytest.raises(InvalidToolSchema) as caught:
        require_usable((OfferedTool("t", schema),))
    assert caught.value.reason == "INVALID_TOOL_SCHEMA"
    assert caught.value.status is grpc.StatusCode.INVALID_ARGUMENT
    assert caught.value.metadata == {"tool": "t"}


def test_a_reference_that_never_ends_is_the_schemas_fault() -> None:
    tool = OfferedTool.of("t", {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}})
    with pytest.raises(InvalidToolSchema):
        arguments_valid(tool, {"a": 1})


def test_a_recursive_schema_of_finite_values_is_usable() -> None:
    tree = {
        "$defs": {"Tree": {"properties": {"kids": {"items": {"$ref": "#/$defs/Tree"}}}}},
        "properties": {"tree": {"$ref": "#/$defs/Tree"}},
    }
    assert valid(tree, {"tree": {"kids": [{"kids": []}]}})
    assert not valid(tree, {"tree": {"kids": [{"kids": [], "x": 1}]}})


def test_a_name_offered_twice_is_refused() -> None:
    with pytest.raises(InvalidToolSchema):
        require_usable((OfferedTool.of("t", {}), OfferedTool.of("t", {"type": "object"})))
