"""The turn loop: one episode from its checkpoint to an outcome, a technical unknown or a stop.

An inadmissible response executes nothing; earlier events stay (design/architecture.md, I5).
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from enum import StrEnum

from adapter_svc import metrics
from adapter_svc.admission import (
    Action,
    Admission,
    AdmissionRequest,
    OfferedTool,
    Origin,
    TechnicalUnknown,
    TextFinish,
    admit,
)
from adapter_svc.attempts import Attempts, StopCategory, TurnAnswered, TurnStopped
from adapter_svc.cases import Case
from adapter_svc.environments import TEXT_FINISH, EventRecord, Outcome, Simulator
from adapter_svc.ledger_port import LedgerCall, Order, Slot
from adapter_svc.routes import (
    InputLimitExceeded,
    Route,
    Turn,
    build_request,
    reservation_bound,
)
from countersign.kit.money import Money

RECORD_MARGIN_SECONDS = 60
"""What a lease leaves for recording the answer after the attempt's own deadline."""


class Termination(StrEnum):
    """How a completed episode ended (design/study.md, Analysis)."""

    NORMAL_TEXT = "NORMAL_TEXT"
    EXPLICIT_FINISH = "EXPLICIT_FINISH"
    MAX_CALLS = "MAX_CALLS"


@dataclass(frozen=True, slots=True)
class EpisodePlan:
    """One episode to run: its slot names, what the model is shown, and the way to the model."""

    study_id: str
    episode_id: str
    case: Case
    route: Route
    currency: str


@dataclass(frozen=True, slots=True)
class CallKnown:
    """A ledger call and where it stands; `replayed` where its stored receipt answered and nothing was sent."""

    call: LedgerCall
    replayed: bool


@dataclass(frozen=True, slots=True)
class EventHappened:
    """An event that the model caused."""

    event: EventRecord
    origin: Origin


@dataclass(frozen=True, slots=True)
class Completed:
    """The end, with an outcome by the adapter's own account."""

    termination: Termination
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Stopped:
    """The end, before a response could be judged."""

    category: StopCategory


Ending = Completed | TechnicalUnknown | Stopped
Progress = CallKnown | EventHappened | Ending


@dataclass(slots=True)
class Episode:
    """Runs one episode. `draining` stops it before its next request."""

    plan: EpisodePlan
    simulator: Simulator
    attempts: Attempts
    draining: asyncio.Event
    _turns: list[Turn] = field(default_factory=list)

    async def run(self) -> AsyncIterator[Progress]:
        """What happens, as it happens; the last item is an Ending.

        Raises ServiceError where the ledger refuses for a reason of the caller's.
        """
        while True:
            try:
                order = self._order()
            except InputLimitExceeded:
                yield Stopped(StopCategory.INPUT_LIMIT)
                return
            if self.draining.is_set():
                yield Stopped(StopCategory.INTERRUPTED)
                return
            result = await self.attempts.run(order, self.plan.route)
            if result.call is not None:
                yield CallKnown(result.call, isinstance(result, TurnAnswered) and result.replayed)
            if isinstance(result, TurnStopped):
                yield Stopped(result.category)
                return
            for item in self._apply(result):
                yield item
                if isinstance(item, Ending):
                    return

    def _order(self) -> Order:
        plan = self.plan
        request = build_request(plan.route, plan.case.system_message, plan.case.packet, plan.case.tools, self._turns)
        bound = reservation_bound(plan.route, request)
        return Order(
            slot=Slot(plan.study_id, plan.episode_id, len(self._turns) + 1),
            amount=Money(plan.currency, bound.nanos),
            basis=bound.basis,
            price_table_digest=bound.price_table_digest,
            request=request,
            lease_seconds=plan.route.timeouts.total_millis // 1000 + RECORD_MARGIN_SECONDS,
        )

    def _apply(self, answer: TurnAnswered) -> list[Progress]:
        admission = self._admit(answer)
        verdict = admission.verdict
        if isinstance(verdict, TechnicalUnknown):
            return [verdict]
        if isinstance(verdict, TextFinish):
            event = self.simulator.call(TEXT_FINISH.tool, TEXT_FINISH.claim)
            return [EventHappened(event, Origin.NORMAL_TEXT), self._completed(Termination.NORMAL_TEXT)]
        return self._act(verdict, admission)

    def _act(self, action: Action, admission: Admission) -> list[Progress]:
        event = self.simulator.call(action.tool, action.claim())
        happened = EventHappened(event, Origin.NATIVE_TOOL)
        if self.simulator.done:
            finished = event.claim is not None
            return [happened, self._completed(Termination.EXPLICIT_FINISH if finished else Termination.MAX_CALLS)]
        assert admission.continuation is not None, "an action comes with its continuation"
        result = event.result.decode("utf-8")
        self._turns.append(Turn(admission.continuation, action.tool_call_id, result, action.tool))
        return [happened]

    def _admit(self, answer: TurnAnswered) -> Admission:
        route = self.plan.route
        admission = admit(
            AdmissionRequest(
                body=answer.response,
                http_status=answer.http_status,
                wire_format=route.wire_format,
                streamed=route.streamed,
                expected=route.identity,
                tools=tuple(OfferedTool.of(tool["name"], tool["parameters"]) for tool in self.plan.case.tools),
                seen_tool_call_ids=frozenset(turn.tool_call_id for turn in self._turns if turn.tool_call_id),
                output_cap=route.output_cap,
                allowances=route.allowances,
            )
        )
        return metrics.judged(route.wire_format, admission)

    def _completed(self, termination: Termination) -> Completed:
        return Completed(termination, self.simulator.settle())
