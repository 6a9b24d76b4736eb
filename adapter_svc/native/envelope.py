"""The terminal envelope of the envelope contract, neither sought nor mended (design/native-harness.md, section 4)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012, SchemaRegistry

from adapter_svc.admission.limits import Limits
from adapter_svc.admission.strict_json import JsonValue, read_strict
from adapter_svc.admission.verdict import Inadmissible
from adapter_svc.native.ecma_json import stringify
from adapter_svc.native.verdict import ImageInvalid, Malformed, SemanticUnknown
from countersign.kit.canonical import canonical_json, sha256
from countersign.kit.image import ImageBundle

UNKNOWN_STATUS: Final = "unknown"
MAX_ENVELOPE_BYTES: Final = 1024 * 1024
MAX_REFERENCES: Final = 16
"""How often a reference may lead to another one."""
_LIMITS: Final = Limits(body_bytes=MAX_ENVELOPE_BYTES)
_NOTHING_FETCHED: Final[SchemaRegistry] = Registry()


@dataclass(frozen=True, slots=True)
class Envelope:
    """What the last line says, and the text without it."""

    text: str
    semantic_status: str
    canonical: bytes
    digest: bytes


class TerminalContract:
    """What an image asks of the end of a run. Raises ImageInvalid where its terminal schema is unusable."""

    def __init__(self, image: ImageBundle, argv: Sequence[str]) -> None:
        self._schema_id = image.terminal_schema_id
        self._argv = list(argv)
        schema = _read_schema(image.terminal_schema)
        self._validator = Draft202012Validator(schema, registry=_NOTHING_FETCHED)
        self._requires_argv = _requires_argv(schema)

    def recover(self, text: str) -> Envelope:
        """The envelope at the end of all assistant texts.

        Raises Malformed where the last line is no envelope of the image, SemanticUnknown where it says that it does not
        know, ImageInvalid where the schema turns out to be unusable on it.
        """
        body, line = _split(text)
        envelope = _read(line)
        self._require_valid(envelope)
        status = envelope.get("semanticStatus")
        if not isinstance(status, str):
            raise Malformed("the envelope has no semantic status")
        if status == UNKNOWN_STATUS:
            raise SemanticUnknown("the envelope says that the status is unknown")
        canonical = canonical_json(envelope)
        return Envelope(body, status, canonical, sha256(canonical))

    def _require_valid(self, envelope: dict[str, JsonValue]) -> None:
        try:
            valid = self._validator.is_valid(envelope)
        except (Unresolvable, RecursionError, OverflowError, re.error):
            raise ImageInvalid("the terminal schema cannot be used") from None
        if not valid:
            raise Malformed("the envelope does not satisfy the terminal schema")
        if envelope.get("schema") != self._schema_id:
            raise Malformed("the envelope is of another schema than the image's")
        task = envelope.get("task")
        if self._requires_argv and (task.get("argv") if isinstance(task, dict) else None) != self._argv:
            raise Malformed("the envelope is of another invocation")


def _split(text: str) -> tuple[str, str]:
    """The text before the last line that is not blank, and that line untrimmed; only a line feed ends a line."""
    lines = text.split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise Malformed("no line that could be an envelope")
    return "\n".join(lines[:-1]), lines[-1]


def _read(line: str) -> dict[str, JsonValue]:
    try:
        value = read_strict(line.encode(), _LIMITS)
    except Inadmissible:
        raise Malformed("the last line is not strict JSON") from None
    if not isinstance(value, dict):
        raise Malformed("the last line is not a JSON object")
    if stringify(value) != line:
        raise Malformed("the last line is not compact JSON")
    return value


def _read_schema(text: bytes) -> dict[str, Any]:
    try:
        schema = read_strict(text, _LIMITS)
        if not isinstance(schema, dict):
            raise ImageInvalid("the terminal schema is not an object")
        Draft202012Validator.check_schema(schema)
    except (Inadmissible, SchemaError, RecursionError, re.error):
        raise ImageInvalid("the terminal schema cannot be used") from None
    return schema


def _requires_argv(schema: dict[str, Any]) -> bool:
    resolver = _NOTHING_FETCHED.resolver_with_root(DRAFT202012.create_resource(schema))
    task = _member(_member(schema, "properties"), "task")
    for _ in range(MAX_REFERENCES):
        reference = _member(task, "$ref")
        if reference is None:
            break
        try:
            task = resolver.lookup(str(reference)).contents
        except Unresolvable:
            raise ImageInvalid("the terminal schema refers to what is not in it") from None
    return _names(schema, "task") and _names(task, "argv")


def _names(schema: Any, member: str) -> bool:
    required = _member(schema, "required")
    return isinstance(required, list) and member in required


def _member(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None
