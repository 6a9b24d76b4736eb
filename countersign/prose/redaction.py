"""Secrets kept out of everything that is written: a known value is replaced wherever it stands in a text."""

import json
from collections.abc import Iterable
from typing import Any, Final

REPLACEMENT: Final = "[redacted]"


class Redactor:
    """Replaces the given values."""

    def __init__(self, secrets: Iterable[str]) -> None:
        # The longest first: one may be a part of another.
        self._secrets = sorted({secret for secret in secrets if secret}, key=lambda one: (-len(one), one))

    def text(self, text: str) -> str:
        """`text` without any of them."""
        for secret in self._secrets:
            text = text.replace(secret, REPLACEMENT)
        return text

    def value(self, value: Any) -> Any:
        """A JSON value without any of them, all the way down, members' names too."""
        match value:
            case str():
                return self.text(value)
            case dict():
                return {self.text(key): self.value(member) for key, member in value.items()}
            case list():
                return [self.value(item) for item in value]
            case _:
                return value

    def record(self, line: bytes) -> bytes | None:
        """A JSON line without any of them: the same bytes where none stands in it; None where it is no JSON.

        Each of a repeated member is looked at, and where one must be replaced all are kept.
        """
        try:
            pairs = json.loads(line, object_pairs_hook=_Pairs, parse_float=_Number, parse_int=_Number)
            return self._spelled(pairs).encode() if self._found(pairs) else line
        except (ValueError, RecursionError):
            return None

    def _found(self, value: Any) -> bool:
        match value:
            case _Number():
                return False
            case str():
                return self.text(value) != value
            case _Pairs():
                return any(self._found(key) or self._found(member) for key, member in value)
            case list():
                return any(map(self._found, value))
            case _:
                return False

    def _spelled(self, value: Any) -> str:
        match value:
            case _Number():
                return str(value)
            case str():
                return json.dumps(self.text(value))
            case _Pairs():
                members = (f"{json.dumps(self.text(key))}:{self._spelled(member)}" for key, member in value)
                return "{" + ",".join(members) + "}"
            case list():
                return "[" + ",".join(map(self._spelled, value)) + "]"
            case _:
                return json.dumps(value)


class _Number(str):
    """A number as it was spelled."""

    __slots__ = ()


class _Pairs(list[tuple[str, Any]]):
    """An object's members in order, repeated ones too."""
