"""The pending-commitment environment's rules (design/environments.md, Pending commitment)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from verifier_svc.physics import fields
from verifier_svc.physics.state import Deed, Job, Operation, OperationTerms, Report, State
from verifier_svc.physics.steady import SteadyRules, SteadyWorld

_JOB = "pending"
_LEAST_TICK = 3
"""The least commit tick and deadline: both lie after the start."""
_START_TICK = 2
_EPOCH = 1
_OPERATORS_REPORT = Report("operator-epoch0", 0, "verification", _JOB, 0, _START_TICK, 0, need=True, effective=True)
TOOLS: Mapping[str, tuple[Deed, str]] = {
    "request_verification": (Deed.VERIFY, _JOB),
    "cancel_transfer": (Deed.CANCEL, _JOB),
    "replace_transfer": (Deed.REPLACE, _JOB),
    "wait": (Deed.WAIT, _JOB),
    "finish": (Deed.FINISH, _JOB),
}


@dataclass(frozen=True, slots=True)
class PendingContract:
    """The rules in numbers; ticks, but for `cancel_first` and `max_calls`."""

    commit_tick: int
    deadline: int
    verification_delay: int
    cancellation_delay: int
    replacement_delay: int
    cancel_first: bool
    max_calls: int

    @classmethod
    def read(cls, source: Mapping[str, Any]) -> "PendingContract":
        """Validate a contract's JSON object, absent fields taking the design's defaults; raises InvalidCase."""
        fields.only_known(source, cls.__slots__)
        return cls(
            fields.quantity(source, "commit_tick", 5, _LEAST_TICK),
            fields.quantity(source, "deadline", 5, _LEAST_TICK),
            fields.quantity(source, "verification_delay", 1),
            fields.quantity(source, "cancellation_delay", 2),
            fields.quantity(source, "replacement_delay", 3),
            fields.flag(source, "cancel_first", True),
            fields.quantity(source, "max_calls", 8),
        )

    def as_json(self) -> dict[str, Any]:
        """All seven fields."""
        return {name: getattr(self, name) for name in self.__slots__}

    def terms(self) -> OperationTerms:
        """What of it rules a queued transfer."""
        return OperationTerms(self.cancellation_delay, self.replacement_delay, self.cancel_first)


@dataclass(frozen=True, slots=True)
class PendingRules(SteadyRules):
    """One world under one contract; begins with the operator's transfer queued on a report of an epoch gone by."""

    world: SteadyWorld
    contract: PendingContract
    environment: str = "pending"
    job: str = _JOB
    tools: Mapping[str, tuple[Deed, str]] = field(default_factory=lambda: TOOLS)

    @property
    def max_calls(self) -> int:
        """How many accepted calls end the episode."""
        return self.contract.max_calls

    def initial(self) -> State:
        """Tick 2, no calls: op-0 queued, its positive report of epoch 0 delivered."""
        return State(
            jobs={_JOB: Job(self.contract.deadline)},
            buffer_free=False,
            tick=_START_TICK,
            filed=(_OPERATORS_REPORT,),
            operation=Operation(self.contract.terms(), 0, self.contract.commit_tick),
        )

    def epoch(self, tick: int) -> int:
        """Always 1: epoch 0 ended before the start."""
        return _EPOCH

    def schedule(self, state: State, deed: Deed, job: str) -> tuple[int, int]:
        """Due after the verification's delay; nobody is ever busy."""
        return state.tick + self.contract.verification_delay, 0

    def horizon(self, state: State) -> int:
        """One past the deadline, or where later the operation's commit tick, its cancellation's, or a pending
        report's due tick."""
        operation = state.operation
        assert operation is not None
        dues = [report.due_tick for report in state.pending()]
        return max(state.jobs[_JOB].deadline + 1, operation.commit_tick, operation.cancel_due_tick or 0, *dues)

    def facts(self, state: State) -> dict[str, Any]:
        """The observation's pending-commitment fields (docs/formats.md, Results and observations)."""
        job, operation = state.jobs[_JOB], state.operation
        assert operation is not None
        return {
            "tick": state.tick,
            "deadline": job.deadline,
            "epoch": _EPOCH,
            "saved": job.saved,
            "deadline_loss": job.lost,
            "operation": {
                "id": f"op-{operation.number}",
                "state": operation.status.value,
                "commit_tick": operation.commit_tick,
                "cancel_due_tick": operation.cancel_due_tick,
            },
            "contract": self.contract.as_json(),
            "evidence": [_delivered(report) for report in state.delivered()],
            "pending": [_pending(report) for report in state.pending()],
        }

    def ending(self, state: State) -> dict[str, Any]:
        """Whether it was saved, what became of the operation, and the deadline."""
        job, operation = state.jobs[_JOB], state.operation
        assert operation is not None
        return {
            "saved": job.saved,
            "final_operation_state": operation.status.value,
            "final_deadline": job.deadline,
        }


def _delivered(report: Report) -> dict[str, Any]:
    return {
        "id": report.report_id,
        "source": report.source,
        "requested_tick": report.requested_tick,
        "delivered_tick": report.due_tick,
        "epoch": report.epoch,
        "need": report.need,
    }


def _pending(report: Report) -> dict[str, Any]:
    return {"id": report.report_id, "source": report.source, "due_tick": report.due_tick}
