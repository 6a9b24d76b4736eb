"""Reading a stop reason by a format's closed table (design/admission.md, Order of checks, 6)."""

from collections.abc import Mapping

from adapter_svc.admission.chat_stops import StopClass
from adapter_svc.admission.strict_json import JsonValue
from adapter_svc.admission.verdict import Inadmissible, Reason


def classify(table: Mapping[str, StopClass | Reason], value: JsonValue, where: str) -> StopClass:
    """What kind of stop `value` says.

    Raises Inadmissible: `MISSING_STOP_REASON` for null or absent, `UNRECOGNIZED_STOP_REASON` for what is not in the
    table, and otherwise the class of a reason that is not admissible.
    """
    if value is None:
        raise Inadmissible(Reason.MISSING_STOP_REASON, where)
    if not isinstance(value, str) or value not in table:
        raise Inadmissible(Reason.UNRECOGNIZED_STOP_REASON, where)
    stop = table[value]
    if isinstance(stop, Reason):
        raise Inadmissible(stop, where)
    return stop
