"""The resource-probe environment's rules (design/environments.md, Resource probe)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from verifier_svc.physics import fields
from verifier_svc.physics.state import Deed, Job, Report, Reserve, State
from verifier_svc.physics.steady import SteadyRules, SteadyWorld

_JOB = "probe"
_CERTIFICATE_DELAY = 1
"""A certificate is delivered in the call that asks for it."""
TOOLS: Mapping[str, tuple[Deed, str]] = {
    "read_certificate": (Deed.READ_CERTIFICATE, _JOB),
    "consume_probe": (Deed.CONSUME_PROBE, _JOB),
    "rescue": (Deed.RESCUE, _JOB),
    "wait": (Deed.WAIT, _JOB),
    "finish": (Deed.FINISH, _JOB),
}


@dataclass(frozen=True, slots=True)
class ProbeContract:
    """The rules in numbers: units, ticks, ticks, calls."""

    reserve_capacity: int
    deadline: int
    probe_delay: int
    max_calls: int

    @classmethod
    def read(cls, source: Mapping[str, Any]) -> "ProbeContract":
        """Validate a contract's JSON object, absent fields taking the design's defaults; raises InvalidCase."""
        fields.only_known(source, cls.__slots__)
        return cls(
            fields.quantity(source, "reserve_capacity", 1),
            fields.quantity(source, "deadline", 3),
            fields.quantity(source, "probe_delay", 2),
            fields.quantity(source, "max_calls", 5),
        )

    def as_json(self) -> dict[str, Any]:
        """All four fields."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class ProbeRules(SteadyRules):
    """One world under one contract."""

    world: SteadyWorld
    contract: ProbeContract
    environment: str = "probe"
    job: str = _JOB
    tools: Mapping[str, tuple[Deed, str]] = field(default_factory=lambda: TOOLS)

    @property
    def max_calls(self) -> int:
        """How many accepted calls end the episode."""
        return self.contract.max_calls

    def initial(self) -> State:
        """Tick 0: the reserve full, nothing filed."""
        return State(
            jobs={_JOB: Job(self.contract.deadline)},
            buffer_free=False,
            reserve=Reserve(self.contract.reserve_capacity),
        )

    def epoch(self, tick: int) -> int:
        """Always 0: there are no epochs."""
        return 0

    def schedule(self, state: State, deed: Deed, job: str) -> tuple[int, int]:
        """A certificate comes in the same call, a probe after its delay; nobody is ever busy."""
        delay = _CERTIFICATE_DELAY if deed is Deed.READ_CERTIFICATE else self.contract.probe_delay
        return state.tick + delay, 0

    def horizon(self, state: State) -> int:
        """One past the deadline, or where later the last pending report's due tick."""
        return max([state.jobs[_JOB].deadline + 1, *(report.due_tick for report in state.pending())])

    def facts(self, state: State) -> dict[str, Any]:
        """The observation's resource-probe fields (docs/formats.md, Results and observations)."""
        job, reserve = state.jobs[_JOB], state.reserve
        assert reserve is not None
        return {
            "tick": state.tick,
            "deadline": job.deadline,
            "saved": job.saved,
            "deadline_loss": job.lost,
            "reserve_remaining": reserve.left,
            "contract": self.contract.as_json(),
            "evidence": [_delivered(report) for report in state.delivered()],
            "pending": [_pending(report) for report in state.pending()],
        }

    def ending(self, state: State) -> dict[str, Any]:
        """Whether it was saved, what is left of the reserve and where the rest went."""
        reserve = state.reserve
        assert reserve is not None
        return {
            "saved": state.jobs[_JOB].saved,
            "reserve_remaining": reserve.left,
            "diagnostic_consumption": reserve.probes,
            "executed_rescues": reserve.rescues,
        }


def _delivered(report: Report) -> dict[str, Any]:
    return {
        "id": report.report_id,
        "source": report.source,
        "requested_tick": report.requested_tick,
        "delivered_tick": report.due_tick,
        "need": report.need,
    }


def _pending(report: Report) -> dict[str, Any]:
    return {"id": report.report_id, "source": report.source, "due_tick": report.due_tick}
