"""Arguments against a tool's schema, no extra fields."""

from typing import Any

import pytest

from verifier_svc.receipts.schema import UnsupportedToolSchema, accepts


def typed(kind: Any, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": {"type": kind, **more}}, "required": ["a"]}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (typed("string"), ["", "x"], [1, None, True, []]),
        (typed("integer"), [0, -3, 2.0, 1e300], [1.5, True, "1", None]),
        (typed("number"), [0, 1.5], [False, "1"]),
        (typed("boolean"), [True], [0, "true"]),
        (typed("null"), [None], [False, 0]),
        (typed("array", items={"type": "integer"}, minItems=1, maxItems=2), [[1], [1, 2]], [[], [1, 2, 3], ["x"], "x"]),
        (typed(["string", "null"]), ["x", None], [1]),
        (typed("string", enum=["x", "y"]), ["x"], ["z", ""]),
        ({"properties": {"a": {"const": 1}}}, [1, 1.0], [True, 2]),
        ({"properties": {"a": {"enum": [{"b": [1]}, False]}}}, [{"b": [1.0]}, False], [{"b": [True]}, 0, {"b": []}]),
        (typed("integer", minimum=1, maximum=3), [1, 3], [0, 4]),
        (typed("number", exclusiveMinimum=1, exclusiveMaximum=3), [2, 1.1], [1, 3]),
        (typed("string", minLength=1, maxLength=2), ["x", "éé"], ["", "xxx"]),
        (typed("string", pattern="^a+$"), ["aa"], ["b", "ba"]),
        ({"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}, ["x", None], [1]),
        ({"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "integer"}}}, [1], ["x"]),
        ({"properties": {"a": True}}, [1, "x", []], []),
        ({"properties": {"a": False}}, [], [1]),
        (typed("object", properties={"b": {}}), [{}, {"b": 1}], [{"c": 1}, {"b": 1, "c": 1}]),
        (typed("object"), [{}, {"anything": 1}], [[]]),
        (typed("object", additionalProperties={"type": "integer"}), [{"x": 1}], [{"x": "y"}]),
    ],
)
def test_values_fit_or_do_not(schema: dict[str, Any], good: list[Any], bad: list[Any]) -> None:
    for value in good:
        assert accepts(schema, {"a": value}), value
    for value in bad:
        assert not accepts(schema, {"a": value}), value


def test_required_fields_are_required() -> None:
    assert not accepts(typed("string"), {})
    assert accepts({"type": "object", "properties": {"a": {}}}, {})


def test_extra_fields_are_refused_unless_the_schema_speaks_of_them() -> None:
    assert not accepts({"type": "object", "properties": {"a": {}}}, {"b": 1})
    assert not accepts({"type": "object"}, {"b": 1})
    assert not accepts({}, {"b": 1})
    assert accepts({"type": "object", "additionalProperties": True}, {"b": 1})
    assert not accepts({"type": "object", "additionalProperties": False}, {"b": 1})
    shared = {"$ref": "#/$defs/T", "$defs": {"T": {"type": "object", "properties": {"b": {}}}}}
    assert accepts(shared, {"b": 1})
    assert not accepts(shared, {"c": 1})


def test_references_may_recur_through_values_but_not_in_a_circle() -> None:
    node = {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/N"}, {"type": "null"}]}}}
    tree = {"$ref": "#/$defs/N", "$defs": {"N": node}}
    assert accepts(tree, {"next": {"next": {"next": None}}})
    assert not accepts(tree, {"next": {"next": {"other": None}}})
    with pytest.raises(UnsupportedToolSchema):
        accepts({"$ref": "#/$defs/N", "$defs": {"N": {"$ref": "#/$defs/N"}}}, {})
    with pytest.raises(UnsupportedToolSchema):
        accepts({"$ref": "#/$defs/Missing"}, {})


@pytest.mark.parametrize(
    ("schema", "keyword"),
    [
        ({"properties": {"a": {"oneOf": []}}}, "oneOf"),
        ({"patternProperties": {}}, "patternProperties"),
        ({"properties": {"a": {"items": {"not": {}}}}}, "not"),
        ({"$defs": {"A": {"if": {}}}}, "if"),
        ({"type": "objekt"}, "type"),
        ({"required": "a"}, "required"),
        ({"$ref": "https://example.org/schema"}, "$ref"),
        ({"properties": {"a": {"pattern": "("}}}, "pattern"),
        ({"properties": {"a": 7}}, "schema"),
        (True, "schema"),
    ],
)
def test_a_keyword_that_is_not_judged_is_named(schema: Any, keyword: str) -> None:
    with pytest.raises(UnsupportedToolSchema) as refusal:
        accepts(schema, {})
    assert refusal.value.metadata == {"keyword": keyword}
    assert refusal.value.reason == "INVALID_TOOL_SCHEMA"
