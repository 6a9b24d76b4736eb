"""Flat schemas, checked without an interpreter of schemas: an object of a few scalars, closed to other fields.

The tools of the environments have no others (`adapter_svc/cases/tools.py`), and most tools elsewhere neither. What is
checked here gets the answer that Draft 2020-12 gives: a schema with any keyword beyond these is not flat.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from adapter_svc.admission.strict_json import JsonValue

Check = Callable[[dict[str, JsonValue]], bool]
"""Whether arguments satisfy one schema."""

_ScalarCheck = Callable[[JsonValue], bool]

_ANNOTATIONS = frozenset({"title", "description"})
_OBJECT_KEYWORDS = _ANNOTATIONS | {"type", "properties", "required", "additionalProperties"}
_SCALAR_KEYWORDS = _ANNOTATIONS | {"type"}
_ENUM_KEYWORDS = _SCALAR_KEYWORDS | {"enum"}


def flat_check(schema: Mapping[str, JsonValue]) -> Check | None:
    """The check of a flat schema, which must be known to be valid as a schema; None where it is not flat."""
    if schema.get("type") != "object" or not schema.keys() <= _OBJECT_KEYWORDS:
        return None
    listed, needed = schema.get("properties", {}), schema.get("required", [])
    if schema.get("additionalProperties", False) is not False or not isinstance(listed, dict):
        return None
    scalars: dict[str, _ScalarCheck] = {}
    for name, described in listed.items():
        check = _scalar_check(described)
        if check is None:
            return None
        scalars[name] = check
    required = frozenset(name for name in needed if isinstance(name, str)) if isinstance(needed, list) else frozenset()

    def satisfies(arguments: dict[str, JsonValue]) -> bool:
        for name, value in arguments.items():
            check = scalars.get(name)
            if check is None or not check(value):
                return False
        return arguments.keys() >= required

    return satisfies


def _scalar_check(schema: JsonValue) -> _ScalarCheck | None:
    if not isinstance(schema, dict):
        return None
    kind = schema.get("type")
    if schema.keys() <= _SCALAR_KEYWORDS:
        return _SCALARS.get(kind) if isinstance(kind, str) else None
    texts = schema.get("enum")
    if kind != "string" or not schema.keys() <= _ENUM_KEYWORDS or not isinstance(texts, list):
        return None
    allowed = frozenset(text for text in texts if isinstance(text, str))
    return lambda value: isinstance(value, str) and value in allowed


def _is_integer(value: JsonValue) -> bool:
    """Draft 2020-12 has 1.0 for an integer, and no boolean."""
    return not isinstance(value, bool) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))


_SCALARS: Mapping[str, _ScalarCheck] = MappingProxyType(
    {
        "string": lambda value: isinstance(value, str),
        "boolean": lambda value: isinstance(value, bool),
        "integer": _is_integer,
        "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    }
)
