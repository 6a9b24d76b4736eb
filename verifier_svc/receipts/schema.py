"""A small validator of tool-call arguments against a tool's JSON schema (JSON Schema 2020-12, the part
named here).

Stricter than the standard in one thing: an object whose schema lists properties takes no others unless the schema
speaks of `additionalProperties` itself (design/admission.md, step 8: no extra fields).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import grpc

from countersign.kit.errors import CountersignError

Schema = Mapping[str, Any] | bool

_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: _is_number(value),
    "integer": lambda value: _is_number(value) and value == int(value),
}
_NOT_JUDGED = frozenset(
    (
        *("allOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependentRequired", "prefixItems"),
        *("contains", "minContains", "maxContains", "patternProperties", "propertyNames", "unevaluatedItems"),
        *("multipleOf", "uniqueItems", "minProperties", "maxProperties", "unevaluatedProperties"),
        *("$dynamicRef", "$dynamicAnchor", "$anchor", "$vocabulary"),
    )
)
"""The standard's keywords that could reject arguments and that this validator does not know."""
_MAX_REFERENCES = 64
"""References followed one after another before a schema counts as circular."""


class UnsupportedToolSchema(CountersignError):
    """An offered tool's schema that this validator cannot judge; its metadata names the keyword."""

    reason: ClassVar[str] = "INVALID_TOOL_SCHEMA"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.INVALID_ARGUMENT


def accepts(schema: Schema, arguments: Mapping[str, Any]) -> bool:
    """Whether `arguments` fit `schema` with no extra fields; raises UnsupportedToolSchema."""
    if isinstance(schema, bool):
        raise UnsupportedToolSchema("a tool's schema must be an object", keyword="schema")
    check_supported(schema)
    closed = {"properties": {}, **schema} if _is_plain_object(schema) else schema
    return _Validator(schema).fits(closed, dict(arguments))


def check_supported(schema: Any) -> None:
    """Raise UnsupportedToolSchema at the first keyword, anywhere in `schema`, that this validator does not judge.

    A keyword that the standard does not have is an annotation and rejects nothing (JSON Schema 2020-12, 6.5).
    """
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping):
        raise UnsupportedToolSchema("a schema must be an object or a boolean", keyword="schema")
    for keyword, operand in schema.items():
        if keyword in _NOT_JUDGED:
            raise UnsupportedToolSchema("this verifier does not judge that keyword", keyword=keyword)
        if keyword in _OPERANDS and not _OPERANDS[keyword](operand):
            raise UnsupportedToolSchema("the keyword has no usable operand", keyword=keyword)
    for sub in _subschemas(schema):
        check_supported(sub)


def _subschemas(schema: Mapping[str, Any]) -> list[Any]:
    found: list[Any] = []
    for keyword in ("properties", "$defs", "definitions"):
        named = schema.get(keyword, {})
        found.extend(named.values() if isinstance(named, Mapping) else [named])
    found.extend(schema.get("anyOf", []))
    found.extend(schema[keyword] for keyword in ("items", "additionalProperties") if keyword in schema)
    return found


def _is_plain_object(schema: Mapping[str, Any]) -> bool:
    return "$ref" not in schema and "anyOf" not in schema


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_pattern(value: Any) -> bool:
    try:
        re.compile(value)
    except (re.error, TypeError):
        return False
    return isinstance(value, str)


def _is_type(value: Any) -> bool:
    names = value if isinstance(value, list) else [value]
    return bool(names) and all(isinstance(name, str) and name in _TYPES for name in names)


_OPERANDS: Mapping[str, Callable[[Any], bool]] = {
    "type": _is_type,
    "properties": lambda value: isinstance(value, Mapping),
    "required": _is_names,
    "enum": lambda value: isinstance(value, list),
    "const": lambda value: True,
    "additionalProperties": lambda value: isinstance(value, Mapping | bool),
    "items": lambda value: isinstance(value, Mapping | bool),
    "anyOf": lambda value: isinstance(value, list) and bool(value),
    "$ref": lambda value: isinstance(value, str) and value.startswith("#"),
    "minimum": _is_number,
    "maximum": _is_number,
    "exclusiveMinimum": _is_number,
    "exclusiveMaximum": _is_number,
    "minLength": _is_count,
    "maxLength": _is_count,
    "minItems": _is_count,
    "maxItems": _is_count,
    "pattern": _is_pattern,
}


@dataclass(frozen=True, slots=True)
class _Validator:
    root: Mapping[str, Any]

    def fits(self, schema: Any, value: Any, references: int = 0) -> bool:
        if isinstance(schema, bool):
            return schema
        return (
            _has_type(schema, value)
            and ("const" not in schema or equal(schema["const"], value))
            and ("enum" not in schema or any(equal(option, value) for option in schema["enum"]))
            and _in_range(schema, value)
            and _text_fits(schema, value)
            and self._array_fits(schema, value)
            and self._object_fits(schema, value)
            and self._one_fits(schema.get("anyOf", [True]), value, references)
            and ("$ref" not in schema or self._reference_fits(schema["$ref"], value, references))
        )

    def _one_fits(self, options: list[Any], value: Any, references: int) -> bool:
        return any(self.fits(option, value, references) for option in options)

    def _array_fits(self, schema: Mapping[str, Any], value: Any) -> bool:
        if not isinstance(value, list):
            return True
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            return False
        return all(self.fits(schema.get("items", True), item) for item in value)

    def _object_fits(self, schema: Mapping[str, Any], value: Any) -> bool:
        if not isinstance(value, dict):
            return True
        if any(name not in value for name in schema.get("required", [])):
            return False
        listed = schema.get("properties", {})
        rest = schema.get("additionalProperties", "properties" not in schema)
        return all(self.fits(listed.get(name, rest), item) for name, item in value.items())

    def _reference_fits(self, pointer: str, value: Any, references: int) -> bool:
        if references >= _MAX_REFERENCES:
            raise UnsupportedToolSchema("the schema's references run in a circle", keyword="$ref")
        return self.fits(self._resolve(pointer), value, references + 1)

    def _resolve(self, pointer: str) -> Any:
        target: Any = self.root
        for part in pointer.removeprefix("#").split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(target, Mapping) or name not in target:
                raise UnsupportedToolSchema("the schema has no such part", keyword="$ref")
            target = target[name]
        check_supported(target)
        return target


def _has_type(schema: Mapping[str, Any], value: Any) -> bool:
    if "type" not in schema:
        return True
    names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return any(_TYPES[name](value) for name in names)


def _in_range(schema: Mapping[str, Any], value: Any) -> bool:
    if not _is_number(value):
        return True
    return (
        schema.get("minimum", value) <= value <= schema.get("maximum", value)
        and ("exclusiveMinimum" not in schema or value > schema["exclusiveMinimum"])
        and ("exclusiveMaximum" not in schema or value < schema["exclusiveMaximum"])
    )


def _text_fits(schema: Mapping[str, Any], value: Any) -> bool:
    if not isinstance(value, str):
        return True
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        return False
    return "pattern" not in schema or re.search(schema["pattern"], value) is not None


def equal(left: Any, right: Any) -> bool:
    """Equality of JSON values: 1 is 1.0, but true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(item, right[name]) for name, item in left.items())
    return bool(left == right)
