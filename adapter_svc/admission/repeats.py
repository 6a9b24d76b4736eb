"""Members that several events of a stream give (docs/formats.md, Opaque items of a streamed answer)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from adapter_svc.admission.limits import Limits
from adapter_svc.admission.raw_json import compose_object
from adapter_svc.admission.strict_json import JsonValue, read_strict
from adapter_svc.admission.verdict import Inadmissible, Reason

NULL = b"null"
SAYS_NOTHING = frozenset({NULL, b'""'})
"""Values that give way to any other for the same member."""


@dataclass(slots=True)
class Kept:
    """Members as their own bytes. A value that is compared is read once, however often it is repeated."""

    raw: dict[str, bytes] = field(default_factory=dict)
    _read: dict[str, JsonValue] = field(default_factory=dict)

    def add(self, given: Mapping[str, bytes], limits: Limits, where: str, names: Iterable[str] | None = None) -> None:
        """Add the members of `given` (those in `names`).

        The first value that says something stays and an equal one is fine; raises Inadmissible `STREAM_CONTRADICTION`
        at `where` for another one. Null gives way to the empty text.
        """
        for name in given if names is None else [name for name in names if name in given]:
            new, old = given[name], self.raw.get(name, NULL)
            if old == NULL or (old in SAYS_NOTHING and new not in SAYS_NOTHING):
                self.raw[name] = new
            elif new not in SAYS_NOTHING and new != old and not self._is(name, read_strict(new, limits), limits):
                raise Inadmissible(Reason.STREAM_CONTRADICTION, where)

    def _is(self, name: str, value: JsonValue, limits: Limits) -> bool:
        if name not in self._read:
            self._read[name] = read_strict(self.raw[name], limits)
        return same_json(self._read[name], value)


def same_json(one: JsonValue, other: JsonValue) -> bool:
    """Whether two values are the same in JSON: 1 is 1.0 and not true."""
    return one == other and _booleans(one) == _booleans(other)


def _booleans(value: JsonValue) -> object:
    if isinstance(value, dict):
        return {name: _booleans(child) for name, child in value.items()}
    if isinstance(value, list):
        return [_booleans(child) for child in value]
    return isinstance(value, bool)


def sorted_object(parts: Mapping[str, bytes]) -> bytes:
    """The object with these members, its keys sorted."""
    return compose_object({name: parts[name] for name in sorted(parts)})
