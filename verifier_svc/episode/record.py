"""Reading an exported episode record, strictly (docs/formats.md, Episode record)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import grpc

from countersign.kit.canonical import canonical_json
from countersign.kit.errors import CountersignError
from verifier_svc.physics.trace import TraceEvent
from verifier_svc.receipts.strict import Limits, read
from verifier_svc.receipts.verdicts import Inadmissible

SCHEMA = "countersign.episode-record/1"


class InvalidRecord(CountersignError):
    """A record that is not of the documented form; its metadata names the field."""

    reason: ClassVar[str] = "INVALID_RECORD"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.INVALID_ARGUMENT


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One ledger call as the record lists it; `attempt` 0 means that nothing was reserved."""

    call_id: str
    turn: int
    attempt: int
    state: str
    request_digest: str
    response_digest: str
    accounted: str


@dataclass(frozen=True, slots=True)
class EpisodeRecord:
    """A record of the documented form; `members` has the rest of its fields as they stand."""

    members: Mapping[str, Any]
    events: tuple[TraceEvent, ...]
    calls: tuple[RecordedCall, ...]
    is_canonical: bool


def read_record(data: bytes) -> EpisodeRecord:
    """The record that `data` spells; raises InvalidRecord naming the first field that is not as documented."""
    try:
        value = read(data, Limits())
    except Inadmissible as fault:
        raise InvalidRecord(f"the record is not strict JSON: {fault.unknown.reason}", field="record") from None
    if not isinstance(value, dict):
        raise InvalidRecord("the record is not an object", field="record")
    _check_members(value, _MEMBERS, "")
    if value["schema"] != SCHEMA:
        raise InvalidRecord(f"the record's schema is not {SCHEMA}", field="schema")
    events = tuple(_event(item, f"events/{index}") for index, item in enumerate(value["events"]))
    calls = tuple(_call(item, f"calls/{index}") for index, item in enumerate(value["calls"]))
    return EpisodeRecord(value, events, calls, canonical_json(value) == data)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _or_null(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or check(value)


Form = Mapping[str, Callable[[Any], bool]]

_MEMBERS: Form = {
    **dict.fromkeys(("schema", "study_id", "episode_id", "manifest_digest", "environment", "status"), _is_text),
    **dict.fromkeys(("packet_digest", "wording_digest"), _is_text),
    **dict.fromkeys(("identity", "world", "contract"), _is_object),
    **dict.fromkeys(("operator_prefix", "events", "origins", "calls"), _is_list),
    **dict.fromkeys(("termination", "reason", "where", "stop_category", "prose_truth"), _or_null(_is_text)),
    **dict.fromkeys(("outcome", "verification"), _or_null(_is_object)),
    "prefix_count": _is_count,
}
_EVENT: Form = {
    **dict.fromkeys(("sequence", "start_tick", "end_tick"), _is_count),
    **dict.fromkeys(("tool", "result"), _is_text),
    "claim": _or_null(_is_text),
}
_CALL: Form = {
    **dict.fromkeys(("call_id", "state", "request_digest", "accounted"), _is_text),
    **dict.fromkeys(("turn", "attempt"), _is_count),
    "response_digest": _or_null(_is_text),
    "replayed": _is_flag,
}


def _check_members(value: Any, form: Form, where: str) -> None:
    if not isinstance(value, dict):
        raise InvalidRecord("not an object", field=where)
    for name in sorted({*value, *form}):
        if name not in value or name not in form or not form[name](value[name]):
            raise InvalidRecord("missing, unknown or of another type", field=f"{where}/{name}".lstrip("/"))


def _event(value: Any, where: str) -> TraceEvent:
    _check_members(value, _EVENT, where)
    return TraceEvent(
        value["sequence"],
        value["tool"],
        value["claim"],
        value["start_tick"],
        value["end_tick"],
        value["result"].encode("utf-8"),
    )


def _call(value: Any, where: str) -> RecordedCall:
    _check_members(value, _CALL, where)
    return RecordedCall(
        value["call_id"],
        value["turn"],
        value["attempt"],
        value["state"],
        value["request_digest"],
        value["response_digest"] or "",
        value["accounted"],
    )
