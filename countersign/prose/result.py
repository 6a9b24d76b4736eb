"""The result of a run: one closed JSON object, `countersign.run-result/1` (design/native-harness.md, section 2).

`run-result.schema.json` beside this module is its schema.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Final

from countersign.adapter.v1 import adapter_pb2 as pb
from countersign.prose.codes import FACTS, SEMANTIC_FAILED_STATUS, SUCCESS_STATUS, Code, ProseError
from countersign.prose.settings import Settings
from countersign.prose.supervision import Ended

SCHEMA: Final = "countersign.run-result/1"
RUNNER: Final = "prose"
NOT_APPLICABLE: Final = "not-applicable"
SEMANTIC_FAILED: Final = "semantic-failed"

_USAGE: Final = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_tokens", "reasoning_tokens")


def runner_version() -> str:
    """The version of this command."""
    return version("countersign")


@dataclass(slots=True)
class Outcome:
    """What is known of a run, filled in as it goes. Times are seconds since the epoch; digests are hexadecimal."""

    invocation: str
    started_at: float
    ended_at: float = 0.0
    settings: Settings | None = None
    harness_version: str | None = None
    executable: str | None = None
    image: dict[str, str] | None = None
    task_digest: str | None = None
    invocation_digest: str | None = None
    launched: bool = False
    ended: Ended | None = None
    verdict: pb.ReadNativeStreamResponse | None = None
    text: str | None = None
    ledger: dict[str, Any] | None = None
    error: ProseError | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def completion(self) -> pb.NativeCompletion | None:
        """The adapter's completion, where it gave one."""
        if self.verdict is None or self.verdict.WhichOneof("part") != "completion":
            return None
        return self.verdict.completion

    @property
    def judged(self) -> pb.NativeCompletion | pb.NativeFailure | None:
        """The adapter's verdict, whatever it is."""
        if self.verdict is None:
            return None
        return self.completion or self.verdict.failure

    @property
    def semantic_status(self) -> str | None:
        """What the envelope says; null where nothing was completed."""
        if self.completion is not None and self.error is None:
            return self.completion.semantic_status or NOT_APPLICABLE
        unknown = self.error is not None and self.error.code is Code.SEMANTIC_STATUS_UNKNOWN
        return "unknown" if unknown else None

    @property
    def exit_status(self) -> int:
        """What the command ends with."""
        if self.error is not None:
            return FACTS[self.error.code].status
        return SEMANTIC_FAILED_STATUS if self.semantic_status == SEMANTIC_FAILED else SUCCESS_STATUS


def result_object(outcome: Outcome) -> dict[str, Any]:
    """The result. What is not known is null."""
    settings, judged = outcome.settings, outcome.judged
    facts = judged.facts if judged is not None else pb.NativeFacts()
    return {
        "schema": SCHEMA,
        "invocation_id": outcome.invocation,
        "runner": {"name": RUNNER, "version": runner_version()},
        "harness": {
            "name": settings.harness.value if settings else None,
            "version": facts.harness_version or outcome.harness_version,
            "executable": outcome.executable,
            "session_id": facts.session_id or None,
        },
        "model": facts.model or None,
        "requested_model": settings.model if settings else None,
        "contract": settings.contract.value if settings else None,
        "image": outcome.image,
        "digests": {
            "task": outcome.task_digest,
            "invocation": outcome.invocation_digest,
            "raw_stdout": judged.output_digest.hex() if judged is not None else None,
            "events": facts.events_digest.hex() or None,
        },
        "cwd": str(settings.cwd) if settings else None,
        "times": _times(outcome),
        "terminal": _terminal(outcome, facts),
        "supervision": _supervision(outcome.ended),
        "semantic": {"status": outcome.semantic_status, "envelope_digest": _envelope_digest(outcome)},
        "observations": {one.name: one.count for one in judged.observations} if judged is not None else {},
        "usage": _usage(facts),
        "cost_usd": facts.reported_cost_text if facts.HasField("reported_cost_text") else None,
        "ledger": outcome.ledger,
        "native_log": str(settings.native_log) if settings and settings.native_log and outcome.launched else None,
        "assistant_text": outcome.text,
        "error": error_object(outcome),
    }


def error_object(outcome: Outcome) -> dict[str, Any] | None:
    """The error, or None."""
    if outcome.error is None:
        return None
    facts = FACTS[outcome.error.code]
    failure = outcome.verdict.failure if outcome.verdict is not None and outcome.completion is None else None
    of_stream = failure is not None and failure.code == outcome.error.code.value
    return {
        "code": outcome.error.code.value,
        "boundary": facts.boundary.value,
        "message": facts.message,
        "detail": outcome.error.detail,
        "action": facts.action,
        "retryable": facts.retryable,
        "record": (failure.record or None) if failure is not None and of_stream else None,
    }


def _times(outcome: Outcome) -> dict[str, Any]:
    return {
        "started_at": timestamp(outcome.started_at),
        "ended_at": timestamp(outcome.ended_at),
        "duration_millis": max(0, round((outcome.ended_at - outcome.started_at) * 1000)),
    }


def timestamp(seconds: float) -> str:
    """A moment as RFC 3339 in UTC, to the millisecond."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _terminal(outcome: Outcome, facts: pb.NativeFacts) -> dict[str, Any]:
    ended = outcome.ended or Ended()
    return {
        "classification": _classification(outcome),
        "transport_completed": outcome.completion is not None and outcome.error is None,
        "terminal_event_observed": facts.HasField("terminal_record"),
        "exit_status": ended.exit_status,
        "signal": ended.signal,
        "signal_sent": ended.signal_sent,
    }


def _classification(outcome: Outcome) -> str:
    if outcome.error is None:
        return "completed"
    if not outcome.launched:
        return "not-launched"
    return "cancelled" if outcome.error.code is Code.CANCELLED else "failed"


def _supervision(ended: Ended | None) -> dict[str, Any] | None:
    if ended is None:
        return None
    return {
        "stdout_drained": ended.drained,
        "left_behind": ended.left,
        "killed": ended.killed,
        "remaining": ended.remaining,
        "stderr_bytes": ended.stderr.count,
        "stderr_digest": ended.stderr.digest,
    }


def _envelope_digest(outcome: Outcome) -> str | None:
    return None if outcome.completion is None else outcome.completion.envelope_digest.hex() or None


def _usage(facts: pb.NativeFacts) -> dict[str, int | None] | None:
    usage = {name: getattr(facts.usage, name) if facts.usage.HasField(name) else None for name in _USAGE}
    return usage if any(value is not None for value in usage.values()) else None
