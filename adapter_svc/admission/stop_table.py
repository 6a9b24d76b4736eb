"""Reading a stop reason by a format's closed table (design/admission.md, Order of checks, 6)."""

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

from adapter_svc.admission.verdict import Inadmissible, Reason

Entry = TypeVar("Entry")


class StopClass(Enum):
    """What an admissible stop reason says of the message."""

    TEXT = "TEXT"
    TOOL = "TOOL"


def look_up(table: Mapping[str, Entry], value: object, where: str) -> Entry:
    """What the table says of `value`; raises Inadmissible `MISSING_STOP_REASON` and `UNRECOGNIZED_STOP_REASON`."""
    if value is None:
        raise Inadmissible(Reason.MISSING_STOP_REASON, where)
    if not isinstance(value, str) or value not in table:
        raise Inadmissible(Reason.UNRECOGNIZED_STOP_REASON, where)
    return table[value]


def classify(table: Mapping[str, StopClass | Reason], value: object, where: str) -> StopClass:
    """What kind of stop `value` says.

    Raises Inadmissible: `MISSING_STOP_REASON` for null or absent, `UNRECOGNIZED_STOP_REASON` for what is not in the
    table, and otherwise the class of a reason that is not admissible.
    """
    stop = look_up(table, value, where)
    if isinstance(stop, Reason):
        raise Inadmissible(stop, where)
    return stop
