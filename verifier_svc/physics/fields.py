"""Reading worlds and contracts: booleans, whole numbers 1 to 100, nothing else (design/environments.md,
Shared rules)."""

from collections.abc import Iterable, Mapping
from typing import Any

from verifier_svc.physics.errors import InvalidCase

MIN_QUANTITY = 1
MAX_QUANTITY = 100
MAX_MESSAGE_BYTES = 400
"""The most UTF-8 bytes of an untrusted message (design/environments.md, Shared rules)."""


def only_known(source: Mapping[str, Any], names: Iterable[str]) -> None:
    """Raise InvalidCase naming the first key of `source` that is not among `names`."""
    known = set(names)
    for key in source:
        if key not in known:
            raise InvalidCase(f"there is no field {key!r} in this environment", field=str(key))


def flag(source: Mapping[str, Any], name: str, default: bool | None = None) -> bool:
    """The boolean `name` of `source`, or `default` where it is absent; raises InvalidCase."""
    value = source.get(name, default)
    if not isinstance(value, bool):
        raise InvalidCase(f"{name} must be true or false", field=name)
    return value


def quantity(source: Mapping[str, Any], name: str, default: int, least: int = MIN_QUANTITY) -> int:
    """The whole number `least` to 100 called `name`, or `default` where it is absent; a bool is not a number.
    Raises InvalidCase."""
    value = source.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MAX_QUANTITY:
        raise InvalidCase(f"{name} must be a whole number from {least} to {MAX_QUANTITY}", field=name)
    return value


def change(source: Mapping[str, Any]) -> tuple[int, bool] | None:
    """The event world's change as (tick from 1, need from then on), or None; raises InvalidCase where half
    of it is missing."""
    tick, need = source.get("change_tick"), source.get("changed_need")
    if tick is None and need is None:
        return None
    if isinstance(tick, bool) or not isinstance(tick, int) or tick < 1:
        raise InvalidCase("change_tick must be a whole number from 1, and stand with changed_need", field="change_tick")
    if not isinstance(need, bool):
        raise InvalidCase("changed_need must be true or false where change_tick is given", field="changed_need")
    return tick, need


def message(body: Any) -> str:
    """The untrusted message: text, not blank, at most 400 UTF-8 bytes; raises InvalidCase."""
    if not isinstance(body, str) or not body.strip():
        raise InvalidCase("the untrusted message must not be blank", field="untrusted_message")
    if any("\ud800" <= character <= "\udfff" for character in body):
        raise InvalidCase("the untrusted message must be Unicode text", field="untrusted_message")
    if len(body.encode("utf-8")) > MAX_MESSAGE_BYTES:
        raise InvalidCase(f"the untrusted message has more than {MAX_MESSAGE_BYTES} bytes", field="untrusted_message")
    return body
