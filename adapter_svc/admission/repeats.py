"""Members that several events of a stream give (docs/formats.md, Opaque items of a streamed answer)."""

from collections.abc import Iterable, Mapping

from adapter_svc.admission.limits import Limits
from adapter_svc.admission.raw_json import compose_object
from adapter_svc.admission.strict_json import JsonValue, read_strict
from adapter_svc.admission.verdict import Inadmissible, Reason

SAYS_NOTHING = frozenset({b"null", b'""'})
"""Values that give way to any other for the same member."""


def keep_first(
    kept: dict[str, bytes], given: Mapping[str, bytes], limits: Limits, where: str, names: Iterable[str] | None = None
) -> None:
    """Add the members of `given` (those in `names`) to `kept`, each as its own bytes.

    The first value that says something stays and an equal one is fine; raises Inadmissible `STREAM_CONTRADICTION` at
    `where` for another one.
    """
    for name in given if names is None else [name for name in names if name in given]:
        new, old = given[name], kept.get(name)
        if old is None or (old in SAYS_NOTHING and new not in SAYS_NOTHING):
            kept[name] = new
        elif (
            new not in SAYS_NOTHING and new != old and not same_json(read_strict(new, limits), read_strict(old, limits))
        ):
            raise Inadmissible(Reason.STREAM_CONTRADICTION, where)


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
