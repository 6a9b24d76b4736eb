"""Episode records: what a run observed, as the documented JSON, kept in files (docs/formats.md, Episode record)."""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from countersign.adapter.v1 import adapter_pb2 as adapter
from countersign.environment.v1 import environment_pb2 as env
from countersign.kit.canonical import canonical_json
from countersign.kit.money import nanos_to_text
from countersign.kit.money_wire import from_wire
from countersign.ledger.v1 import ledger_pb2 as ledger
from countersign.study.errors import BadInput, BadRecord
from countersign.study.fields import claim_text, outcome_json
from countersign.study.files import make_folder, read_bytes, write_atomically

SCHEMA = "countersign.episode-record/1"
RECORDS_FOLDER = "records"

COMPLETED = "completed"
TECHNICAL_UNKNOWN = "technical_unknown"
STOPPED = "stopped"
STATUSES = (COMPLETED, TECHNICAL_UNKNOWN, STOPPED)

TERMINATIONS = tuple(name.removeprefix("TERMINATION_").lower() for name in adapter.Termination.keys()[1:])
STOP_CATEGORIES = tuple(name.removeprefix("STOP_CATEGORY_").lower() for name in adapter.StopCategory.keys()[1:])
REASONS = tuple(name.removeprefix("UNKNOWN_REASON_") for name in adapter.UnknownReason.keys()[1:])

ENDING_KEYS = ("status", "termination", "reason", "where", "stop_category", "outcome", "prose_truth")
KEYS = frozenset(ENDING_KEYS) | {
    "schema",
    "study_id",
    "episode_id",
    "manifest_digest",
    "identity",
    "environment",
    "world",
    "contract",
    "operator_prefix",
    "packet_digest",
    "wording_digest",
    "prefix_count",
    "events",
    "origins",
    "calls",
    "verification",
}
"""The members of a record: exactly these."""

_COUNTED = (
    *("episode_id", "identity", "status", "termination", "reason", "stop_category", "outcome"),
    *("world", "calls", "verification"),
)


@dataclass(slots=True)
class Trace:
    """What one run of an episode has shown so far."""

    prefix: list[env.EventRecord] = field(default_factory=list)
    events: list[tuple[env.EventRecord, env.Origin.ValueType]] = field(default_factory=list)
    calls: dict[tuple[int, int], dict[str, Any]] = field(default_factory=dict)
    ended: adapter.EpisodeEnded | None = None

    def accept(self, message: adapter.RunEpisodeResponse) -> None:
        """Take in one message of the stream; a call that is reported again stands where it was reported last."""
        match message.WhichOneof("progress"):
            case "started":
                self.prefix = list(message.started.prefix_events)
            case "call":
                self.calls[message.call.call.turn, message.call.call.attempt] = reported_call(message.call.call)
            case "event":
                self.events.append((message.event.event, message.event.origin))
            case "ended":
                self.ended = message.ended
            case _:
                pass

    def ending(self) -> dict[str, Any]:
        """The record's members about the end; a stream without an end is a service that went away."""
        kind = self.ended.WhichOneof("result") if self.ended is not None else None
        if self.ended is None or kind is None:
            return stopped_members("service_unavailable")
        if kind == "completed":
            return _completed_members(self.ended.completed)
        if kind == "technical_unknown":
            unknown = self.ended.technical_unknown
            reason = adapter.UnknownReason.Name(unknown.reason).removeprefix("UNKNOWN_REASON_")
            return _ending(TECHNICAL_UNKNOWN, reason=reason, where=unknown.where)
        name = adapter.StopCategory.Name(self.ended.stopped.category)
        return stopped_members(name.removeprefix("STOP_CATEGORY_").lower())

    def members(self) -> dict[str, Any]:
        """The record's members about events and calls."""
        events = [*self.prefix, *(event for event, _ in self.events)]
        return {
            "prefix_count": len(self.prefix),
            "events": [event_json(event) for event in events],
            "origins": [
                {"sequence": event.sequence, "origin": env.Origin.Name(origin).removeprefix("ORIGIN_")}
                for event, origin in self.events
            ],
            "calls": [self.calls[key] for key in sorted(self.calls)],
        }


def stopped_members(category: str) -> dict[str, Any]:
    """The record's members about a stop."""
    return _ending(STOPPED, stop_category=category)


def event_json(event: env.EventRecord) -> dict[str, Any]:
    """An event as a record holds it."""
    return {
        "sequence": event.sequence,
        "tool": event.tool,
        "claim": claim_text(event.claim),
        "start_tick": event.start_tick,
        "end_tick": event.end_tick,
        "result": event.result.decode("utf-8"),
    }


def reported_call(call: adapter.CallReference) -> dict[str, Any]:
    """A call as the adapter reports it, as a record holds it."""
    return {
        "call_id": call.call_id.hex(),
        "turn": call.turn,
        "attempt": call.attempt,
        "state": call.state,
        "request_digest": call.request_digest.hex(),
        "response_digest": call.response_digest.hex(),
        "accounted": nanos_to_text(from_wire(call.accounted).nanos) if call.HasField("accounted") else "0",
        "replayed": call.replayed,
    }


def ledger_call(call: ledger.Call, *, replayed: bool) -> dict[str, Any]:
    """A call as the ledger knows it, as a record holds it."""
    return {
        "call_id": call.call_id.hex(),
        "turn": call.slot.turn,
        "attempt": call.attempt,
        "state": ledger.CallState.Name(call.state).removeprefix("CALL_STATE_"),
        "request_digest": call.request_digest.hex(),
        "response_digest": call.response_digest.hex(),
        "accounted": nanos_to_text(from_wire(call.accounted).nanos),
        "replayed": replayed,
    }


@dataclass(frozen=True, slots=True)
class RecordStore:
    """The records of one study in its folder; every write is atomic."""

    folder: Path

    def prepare(self) -> None:
        """Make the folder. Raises BadInput."""
        make_folder(self.folder)

    def path(self, episode_id: str) -> Path:
        """Where the episode's record is kept."""
        return self.folder / f"{episode_id}.json"

    def write(self, record: Mapping[str, Any]) -> None:
        """Keep a record in place of an earlier one. Raises BadInput."""
        write_atomically(self.path(record["episode_id"]), canonical_json(record))

    def keep(self, record: dict[str, Any]) -> dict[str, Any]:
        """Keep a record unless it is a stop and another collector has meanwhile kept an end; what is kept then.

        Raises BadInput.
        """
        with _locked(self.folder):
            if record["status"] == STOPPED:
                try:
                    other = self.read(record["episode_id"])
                except BadRecord:
                    other = None
                if other is not None and other["status"] != STOPPED:
                    return other
            self.write(record)
            return record

    def read(self, episode_id: str) -> dict[str, Any] | None:
        """The episode's record, None where there is none. Raises BadRecord where it cannot be used."""
        path = self.path(episode_id)
        return read_record(path) if path.exists() else None

    def files(self) -> list[Path]:
        """Every file that is kept as a record, by name."""
        return sorted(self.folder.glob("*.json")) if self.folder.is_dir() else []


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Alone among the collectors of this folder on this machine. Raises BadInput."""
    try:
        file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise BadInput(f"{folder} cannot be used ({error.strerror}): choose another folder") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def counted(record: Mapping[str, Any]) -> dict[str, Any]:
    """What reports and tallies count of a record, a fifth of it: its events and their texts are left out."""
    return {name: record[name] for name in _COUNTED}


def read_record(path: Path) -> dict[str, Any]:
    """The record at `path`, checked for its form. Raises BadRecord."""
    try:
        record = json.loads(read_bytes(path))
        if not isinstance(record, dict) or set(record) != KEYS or record["schema"] != SCHEMA:
            raise BadRecord(f"{path} is not a record of schema {SCHEMA}")
        _check_ending(record)
    except (ValueError, TypeError, KeyError, RecursionError):
        raise BadRecord(f"{path} is not a record of schema {SCHEMA}") from None
    return record


def _check_ending(record: Mapping[str, Any]) -> None:
    expected = {
        COMPLETED: (record["termination"] in TERMINATIONS, record["outcome"] is not None),
        TECHNICAL_UNKNOWN: (record["reason"] in REASONS, record["outcome"] is None),
        STOPPED: (record["stop_category"] in STOP_CATEGORIES, record["outcome"] is None),
    }
    if not all(expected[record["status"]]):
        raise ValueError("status")


def _completed_members(completed: adapter.EpisodeCompleted) -> dict[str, Any]:
    termination = adapter.Termination.Name(completed.termination).removeprefix("TERMINATION_").lower()
    return _ending(
        COMPLETED,
        termination=termination,
        outcome=outcome_json(completed.outcome),
        prose_truth="not_measured" if termination == "normal_text" else None,
    )


def _ending(status: str, **members: Any) -> dict[str, Any]:
    return {**dict.fromkeys(ENDING_KEYS), "status": status, **members}
