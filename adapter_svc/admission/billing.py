"""What an answer says that it took, for every wire format: token counts and the cost as spelled."""

from collections.abc import Mapping

from msgspec import Struct

from adapter_svc.admission.strict_json import JsonValue
from adapter_svc.admission.verdict import Usage

Path = tuple[str, ...]
"""Names of members from the usage object down to a count."""

MAX_COUNT = 2**63 - 1


class Billing(Struct, frozen=True):
    """What a body says that its answer took: tokens, and the cost as spelled, None where it gives none."""

    usage: Usage
    reported_cost: str | None


NO_BILLING = Billing(Usage(), None)


def find_counts(
    usage: dict[str, JsonValue], places: Mapping[str, tuple[Path, ...]]
) -> tuple[dict[str, int | None], tuple[str, ...]]:
    """The counts of `usage` by our names, and the names of those that are there and unreadable.

    `places` says where each count may stand; the first place that has one wins. Absent and unreadable ones are None:
    never zero.
    """
    counts: dict[str, int | None] = {}
    invalid: list[str] = []
    for name, paths in places.items():
        value = _first_present(usage, paths)
        if value is None:
            counts[name] = None
            continue
        counts[name] = count = read_count(value)
        if count is None:
            invalid.append(name)
    return counts, tuple(invalid)


def _first_present(usage: dict[str, JsonValue], paths: tuple[Path, ...]) -> JsonValue:
    for path in paths:
        value: JsonValue = usage
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        if value is not None:
            return value
    return None


def read_count(value: JsonValue) -> int | None:
    """A token count: a whole number from 0 to 2^63-1, else None."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= MAX_COUNT else None
