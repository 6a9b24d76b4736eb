"""Checks that worlds, contracts and texts share. A bool is never an integer (design/environments.md, Shared rules)."""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from adapter_svc.environments.errors import CaseFault, InvalidCase

MIN_CONTRACT_INTEGER = 1
MAX_CONTRACT_INTEGER = 100
MAX_UNTRUSTED_MESSAGE_BYTES = 400

T = TypeVar("T")


def require_bool(fault: CaseFault, name: str, value: object) -> None:
    """Raise InvalidCase unless `value` is true or false."""
    if type(value) is not bool:
        raise InvalidCase(fault, f"{name} must be true or false")


def require_contract_integer(name: str, value: object) -> None:
    """Raise InvalidCase unless `value` is an integer from 1 to 100."""
    if type(value) is not int or not MIN_CONTRACT_INTEGER <= value <= MAX_CONTRACT_INTEGER:
        raise InvalidCase(
            CaseFault.CONTRACT, f"{name} must be an integer from {MIN_CONTRACT_INTEGER} to {MAX_CONTRACT_INTEGER}"
        )


def require_text(fault: CaseFault, name: str, value: object, max_bytes: int | None = None) -> None:
    """Raise InvalidCase unless `value` is nonblank Unicode text of at most `max_bytes` UTF-8 bytes."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidCase(fault, f"{name} must be text that is not blank")
    try:
        length_bytes = len(value.encode("utf-8"))
    except UnicodeEncodeError:
        raise InvalidCase(fault, f"{name} must be valid Unicode") from None
    if max_bytes is not None and length_bytes > max_bytes:
        raise InvalidCase(fault, f"{name} is {length_bytes} UTF-8 bytes long; at most {max_bytes} are allowed")


def from_json(fault: CaseFault, cls: type[T], data: object) -> T:
    """Build the dataclass `cls` from a JSON object; absent fields take their defaults.

    Raises InvalidCase for anything but an object, for an unknown field and for a missing field without a default.
    """
    if not isinstance(data, Mapping):
        raise InvalidCase(fault, f"a {fault.value} must be a JSON object")
    fields = _fields_of(cls)
    unknown = sorted(str(key) for key in data if key not in fields)
    if unknown:
        raise InvalidCase(fault, f"a {cls.__name__} has no field {unknown[0]!r}")
    missing = [name for name, field in fields.items() if field.default is dataclasses.MISSING and name not in data]
    if missing:
        raise InvalidCase(fault, f"a {cls.__name__} needs the field {missing[0]!r}")
    return cls(**data)


def _fields_of(cls: Any) -> dict[str, dataclasses.Field[Any]]:
    return {field.name: field for field in dataclasses.fields(cls)}
