"""Tool arguments against the schema that was offered: Draft 2020-12, no extra fields, nothing fetched.

"No extra fields" (design/admission.md, Order of checks, 8): an object whose schema lists properties admits
no others, at every level, unless that schema speaks of `additionalProperties` or `unevaluatedProperties`
itself.
"""

import re
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012, SchemaRegistry

from adapter_svc.admission.errors import InvalidToolSchema
from adapter_svc.admission.flat_schemas import Check, flat_check
from adapter_svc.admission.limits import DEFAULT_LIMITS
from adapter_svc.admission.request import OfferedTool
from adapter_svc.admission.strict_json import JsonValue, read_strict
from adapter_svc.admission.verdict import Inadmissible

_VALUE_KEYWORDS = frozenset({"items", "contains", "additionalProperties", "unevaluatedProperties", "unevaluatedItems"})
"""Keywords whose one schema describes another value: that value's object is closed in its own right."""
_VALUE_LISTS = frozenset({"prefixItems"})
_VALUE_MAPS = frozenset({"properties", "patternProperties"})
_SAME_VALUE_KEYWORDS = frozenset({"not", "if", "then", "else", "propertyNames"})
"""Keywords whose schema describes the same value, or a name: closed by the schema around them, if at all."""
_SAME_VALUE_LISTS = frozenset({"allOf", "anyOf", "oneOf"})
_SAME_VALUE_MAPS = frozenset({"$defs", "definitions", "dependentSchemas"})
_LISTS_PROPERTIES = frozenset({"properties", "$ref", "$dynamicRef", "allOf", "anyOf", "oneOf"})
_SPEAKS_OF_OTHERS = frozenset({"additionalProperties", "unevaluatedProperties"})
_REFERENCES = ("$ref", "$dynamicRef")
_NOTHING_FETCHED: SchemaRegistry = Registry()


@lru_cache(maxsize=256)
def require_usable(tools: tuple[OfferedTool, ...]) -> None:
    """Refuse tools that cannot be judged against.

    Raises InvalidToolSchema for a name given twice and for a schema that is not strict JSON of an
    object, not Draft 2020-12, or refers to anything outside itself.
    """
    names = [tool.name for tool in tools]
    for tool in tools:
        if names.count(tool.name) > 1:
            raise InvalidToolSchema("offer each tool once", tool=tool.name)
        _check(tool)


def arguments_valid(tool: OfferedTool, arguments: dict[str, JsonValue]) -> bool:
    """Whether `arguments` satisfy the tool's schema and have no field beyond it.

    Raises InvalidToolSchema where the schema turns out to be unusable on these arguments.
    """
    return _check(tool)(arguments)


@lru_cache(maxsize=256)
def _check(tool: OfferedTool) -> Check:
    schema = _read_schema(tool)
    try:
        Draft202012Validator.check_schema(schema)
        _require_local_references(schema)
        validator = Draft202012Validator(_closed_value(schema), registry=_NOTHING_FETCHED)
    except (SchemaError, Unresolvable, RecursionError, re.error):
        raise _unusable(tool) from None
    _is_valid(validator, tool, {})
    return flat_check(schema) or partial(_is_valid, validator, tool)


def _read_schema(tool: OfferedTool) -> dict[str, Any]:
    try:
        schema = read_strict(tool.schema, DEFAULT_LIMITS)
    except Inadmissible:
        raise _unusable(tool) from None
    if not isinstance(schema, dict):
        raise _unusable(tool)
    return schema


def _is_valid(validator: Draft202012Validator, tool: OfferedTool, arguments: dict[str, Any]) -> bool:
    try:
        return bool(validator.is_valid(arguments))
    except (Unresolvable, RecursionError, OverflowError, re.error):
        raise _unusable(tool) from None


def _unusable(tool: OfferedTool) -> InvalidToolSchema:
    return InvalidToolSchema(
        "offer a self-contained JSON schema (Draft 2020-12) of an object for each tool", tool=tool.name
    )


def _require_local_references(schema: dict[str, Any]) -> None:
    """Raise Unresolvable for a reference that leaves the schema or leads nowhere in it."""
    resolver = _NOTHING_FETCHED.resolver_with_root(DRAFT202012.create_resource(schema))
    for reference in _references(schema):
        if not reference.startswith("#"):
            raise Unresolvable(ref=reference)
        resolver.lookup(reference)


def _references(schema: Any) -> Iterator[str]:
    if not isinstance(schema, dict):
        return
    yield from (schema[key] for key in _REFERENCES if key in schema)
    for key, value in schema.items():
        if key in _VALUE_MAPS | _SAME_VALUE_MAPS:
            for child in value.values():
                yield from _references(child)
        elif key in _VALUE_LISTS | _SAME_VALUE_LISTS:
            for child in value:
                yield from _references(child)
        elif key in _VALUE_KEYWORDS | _SAME_VALUE_KEYWORDS:
            yield from _references(value)


def _closed_value(schema: Any, *, root: bool = True) -> Any:
    """The schema of one value, with other properties forbidden where it lists some and says nothing of the
    rest.

    The root is closed even where it lists none: a tool without parameters takes no field.
    """
    if not isinstance(schema, dict):
        return schema
    closed = _with_closed_children(schema)
    if _SPEAKS_OF_OTHERS.isdisjoint(schema) and (root or not _LISTS_PROPERTIES.isdisjoint(schema)):
        # Unlike `additionalProperties`, this sees the properties that $ref and the combinators contribute.
        closed["unevaluatedProperties"] = False
    return closed


def _with_closed_children(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    return {key: _closed_keyword(key, value) for key, value in schema.items()}


def _closed_keyword(key: str, value: Any) -> Any:
    if key in _VALUE_KEYWORDS:
        return _closed_value(value, root=False)
    if key in _VALUE_LISTS:
        return [_closed_value(child, root=False) for child in value]
    if key in _VALUE_MAPS:
        return {name: _closed_value(child, root=False) for name, child in value.items()}
    if key in _SAME_VALUE_KEYWORDS:
        return _with_closed_children(value)
    if key in _SAME_VALUE_LISTS:
        return [_with_closed_children(child) for child in value]
    if key in _SAME_VALUE_MAPS:
        return {name: _with_closed_children(child) for name, child in value.items()}
    return value
