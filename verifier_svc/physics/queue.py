"""The queue environment's rules: two jobs, one serial verifier, one buffer (design/environments.md,
Queue)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from verifier_svc.physics import fields
from verifier_svc.physics.state import Deed, Job, Report, State

_JOBS = ("a", "b")
_PAIRED = {
    "verify": Deed.VERIFY,
    "check_alternative": Deed.CHECK_ALTERNATIVE,
    "use_alternative": Deed.USE_ALTERNATIVE,
    "reserve_buffer": Deed.RESERVE_BUFFER,
    "transfer": Deed.TRANSFER,
}
TOOLS: Mapping[str, tuple[Deed, str]] = {
    **{f"{verb}_{job}": (deed, job) for verb, deed in _PAIRED.items() for job in _JOBS},
    "wait": (Deed.WAIT, ""),
    "finish": (Deed.FINISH, ""),
}


@dataclass(frozen=True, slots=True)
class QueueWorld:
    """What each job needs and whether the inventory has an alternative for it."""

    need_a: bool
    need_b: bool
    alternative_a: bool
    alternative_b: bool

    @classmethod
    def read(cls, source: Mapping[str, Any]) -> "QueueWorld":
        """Validate a world's JSON object; raises InvalidCase."""
        fields.only_known(source, cls.__slots__)
        return cls(
            fields.flag(source, "need_a"),
            fields.flag(source, "need_b"),
            fields.flag(source, "alternative_a", True),
            fields.flag(source, "alternative_b", False),
        )

    def as_json(self) -> dict[str, Any]:
        """The complete world as packets spell it."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class QueueContract:
    """The rules in numbers; ticks, but for `max_calls`."""

    deadline_a: int
    deadline_b: int
    verification_delay: int
    buffer_extension: int
    max_calls: int

    @classmethod
    def read(cls, source: Mapping[str, Any]) -> "QueueContract":
        """Validate a contract's JSON object, absent fields taking the design's defaults; raises
        InvalidCase."""
        fields.only_known(source, cls.__slots__)
        return cls(
            fields.quantity(source, "deadline_a", 2),
            fields.quantity(source, "deadline_b", 4),
            fields.quantity(source, "verification_delay", 2),
            fields.quantity(source, "buffer_extension", 3),
            fields.quantity(source, "max_calls", 8),
        )

    def as_json(self) -> dict[str, Any]:
        """All five fields."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class QueueRules:
    """One queue world under one contract."""

    world: QueueWorld
    contract: QueueContract
    environment: str = "queue"
    tools: Mapping[str, tuple[Deed, str]] = field(default_factory=lambda: TOOLS)

    @property
    def max_calls(self) -> int:
        """How many accepted calls end the episode."""
        return self.contract.max_calls

    @property
    def buffer_extension(self) -> int:
        """Ticks that the one buffer adds to the chosen job's deadline."""
        return self.contract.buffer_extension

    def initial(self) -> State:
        """Tick 0: both jobs open, the buffer unused."""
        jobs = {"a": Job(self.contract.deadline_a), "b": Job(self.contract.deadline_b)}
        return State(jobs=jobs, buffer_free=True)

    def need(self, job: str, tick: int) -> bool:
        """Need never changes here."""
        return self.world.need_a if job == "a" else self.world.need_b

    def epoch(self, tick: int) -> int:
        """Always 0: there are no epochs."""
        return 0

    def effective(self) -> bool:
        """Always true: efficacy holds."""
        return True

    def has_alternative(self, job: str) -> bool:
        """Whether the inventory has one for `job`."""
        return self.world.alternative_a if job == "a" else self.world.alternative_b

    def schedule(self, state: State, deed: Deed, job: str) -> tuple[int, int]:
        """Service starts when the verifier is free; the report is due, and the verifier free again, a delay
        later."""
        due = max(state.tick, state.busy_until) + self.contract.verification_delay
        return due, due

    def horizon(self, state: State) -> int:
        """One past the latest deadline."""
        return max(job.deadline for job in state.jobs.values()) + 1

    def truth(self, state: State) -> bool:
        """Completeness: every needed job is saved; with no needs it is true."""
        return all(job.saved or not self.need(name, state.tick) for name, job in state.jobs.items())

    def facts(self, state: State) -> dict[str, Any]:
        """The observation's queue fields (docs/formats.md, Results and observations)."""
        return {
            "tick": state.tick,
            "deadlines": {name: job.deadline for name, job in state.jobs.items()},
            "saved": {name: job.saved for name, job in state.jobs.items()},
            "deadline_loss": {name: job.lost for name, job in state.jobs.items()},
            "buffer_remaining": state.buffer_free,
            "verifier_busy_until": state.busy_until,
            "contract": self.contract.as_json(),
            "evidence": [_delivered(report) for report in state.delivered()],
            "pending": [_pending(report) for report in state.pending()],
        }

    def ending(self, state: State) -> dict[str, Any]:
        """Whether each job was saved, and its deadline at the end."""
        return {
            "saved": {name: job.saved for name, job in state.jobs.items()},
            "final_deadlines": {name: job.deadline for name, job in state.jobs.items()},
        }


def _delivered(report: Report) -> dict[str, Any]:
    return {
        "id": report.report_id,
        "source": report.source,
        "job": report.job,
        "requested_tick": report.requested_tick,
        "delivered_tick": report.due_tick,
        "need": report.need,
    }


def _pending(report: Report) -> dict[str, Any]:
    return {"id": report.report_id, "source": report.source, "job": report.job, "due_tick": report.due_tick}
