"""The event environment's rules (design/environments.md, Event)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from verifier_svc.physics import fields
from verifier_svc.physics.state import Deed, Job, Report, State

_JOB = "event"
TOOLS: Mapping[str, tuple[Deed, str]] = {
    "request_verification": (Deed.VERIFY, _JOB),
    "request_human": (Deed.ASK_HUMAN, _JOB),
    "check_alternative": (Deed.CHECK_ALTERNATIVE, _JOB),
    "use_alternative": (Deed.USE_ALTERNATIVE, _JOB),
    "reserve_buffer": (Deed.RESERVE_BUFFER, _JOB),
    "transfer": (Deed.TRANSFER, _JOB),
    "wait": (Deed.WAIT, _JOB),
    "finish": (Deed.FINISH, _JOB),
}


@dataclass(frozen=True, slots=True)
class EventWorld:
    """What is so; `change` is (tick, need from then on) or None."""

    starting_need: bool
    effective: bool
    alternative: bool
    change: tuple[int, bool] | None

    @classmethod
    def read(cls, source: Mapping[str, Any]) -> "EventWorld":
        """Validate a world's JSON object; raises InvalidCase."""
        fields.only_known(source, ("need", "effective", "alternative", "change_tick", "changed_need"))
        return cls(
            fields.flag(source, "need"),
            fields.flag(source, "effective"),
            fields.flag(source, "alternative", False),
            fields.change(source),
        )

    def as_json(self) -> dict[str, Any]:
        """The complete world as packets spell it: an absent change is null."""
        tick, need = self.change if self.change else (None, None)
        return {
            "need": self.starting_need,
            "effective": self.effective,
            "alternative": self.alternative,
            "change_tick": tick,
            "changed_need": need,
        }


@dataclass(frozen=True, slots=True)
class EventContract:
    """The rules in numbers; ticks, but for `buffer_available` and `max_calls`."""

    deadline: int
    verification_delay: int
    human_delay: int
    buffer_extension: int
    buffer_available: bool
    max_calls: int

    @classmethod
    def read(cls, source: Mapping[str, Any]) -> "EventContract":
        """Validate a contract's JSON object, absent fields taking the design's defaults; raises
        InvalidCase."""
        fields.only_known(source, cls.__slots__)
        return cls(
            fields.quantity(source, "deadline", 3),
            fields.quantity(source, "verification_delay", 2),
            fields.quantity(source, "human_delay", 5),
            fields.quantity(source, "buffer_extension", 3),
            fields.flag(source, "buffer_available", False),
            fields.quantity(source, "max_calls", 8),
        )

    def as_json(self) -> dict[str, Any]:
        """All six fields."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class EventRules:
    """One event world under one contract."""

    world: EventWorld
    contract: EventContract
    environment: str = "event"
    tools: Mapping[str, tuple[Deed, str]] = field(default_factory=lambda: TOOLS)

    @property
    def max_calls(self) -> int:
        """How many accepted calls end the episode."""
        return self.contract.max_calls

    @property
    def buffer_extension(self) -> int:
        """Ticks that the buffer adds to the deadline."""
        return self.contract.buffer_extension

    def initial(self) -> State:
        """Tick 0: nothing filed, nothing spent."""
        return State(jobs={_JOB: Job(self.contract.deadline)}, buffer_free=self.contract.buffer_available)

    def need(self, job: str, tick: int) -> bool:
        """The starting need, or the changed one from the change's tick on."""
        change = self.world.change
        return change[1] if change and tick >= change[0] else self.world.starting_need

    def epoch(self, tick: int) -> int:
        """0, and 1 from the change's tick on, also where need stays the same."""
        change = self.world.change
        return int(change is not None and tick >= change[0])

    def effective(self) -> bool:
        """Whether a transfer works in this world."""
        return self.world.effective

    def has_alternative(self, job: str) -> bool:
        """Whether this world's inventory has one."""
        return self.world.alternative

    def schedule(self, state: State, deed: Deed, job: str) -> tuple[int, int]:
        """Due after the delay of whoever is asked; nobody is ever busy."""
        delay = self.contract.human_delay if deed is Deed.ASK_HUMAN else self.contract.verification_delay
        return state.tick + delay, 0

    def horizon(self, state: State) -> int:
        """One past the final deadline, or the change's tick where that is later; pending reports are not
        waited for."""
        return max(state.jobs[_JOB].deadline + 1, self.world.change[0] if self.world.change else 0)

    def truth(self, state: State) -> bool:
        """`saved` itself: with no need at all it is false."""
        return state.jobs[_JOB].saved

    def facts(self, state: State) -> dict[str, Any]:
        """The observation's event fields (docs/formats.md, Results and observations)."""
        job = state.jobs[_JOB]
        return {
            "tick": state.tick,
            "deadline": job.deadline,
            "epoch": self.epoch(state.tick),
            "saved": job.saved,
            "deadline_loss": job.lost,
            "contract": self.contract.as_json(),
            "evidence": [_delivered(report) for report in state.delivered()],
            "pending": [_pending(report) for report in state.pending()],
        }

    def ending(self, state: State) -> dict[str, Any]:
        """Whether it was saved and the deadline at the end."""
        return {"saved": state.jobs[_JOB].saved, "final_deadline": state.jobs[_JOB].deadline}


def _delivered(report: Report) -> dict[str, Any]:
    return {
        "id": report.report_id,
        "source": report.source,
        "requested_tick": report.requested_tick,
        "delivered_tick": report.due_tick,
        "epoch": report.epoch,
        "need": report.need,
        "effective": report.effective,
    }


def _pending(report: Report) -> dict[str, Any]:
    return {"id": report.report_id, "source": report.source, "due_tick": report.due_tick}
