"""One paid turn: reserve, send at most one request, and leave a receipt or a hold behind, whatever happens.

Once money is reserved, the turn runs as a task of its own: a caller that goes away changes nothing about it
(design/architecture.md, I1 and I3; design/ledger.md).
"""

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

import structlog

from adapter_svc.ledger_port import (
    Admitted,
    CallState,
    Evidence,
    HoldCause,
    LedgerCall,
    LedgerPort,
    Order,
    StoredAnswer,
)
from adapter_svc.routes import Cost, Provider, ProviderAnswer, Route, TransportFailure, cost_of_answer
from adapter_svc.routes.price import UNKNOWN_COST
from countersign.kit.observability import tracing
from countersign.kit.rpc_errors import ServiceError

log = structlog.get_logger()

ATTEMPT_TOKEN_BYTES = 16
NOTHING_SENT = "NOT_CONNECTED"
UNKNOWN_PROGRESS = "UNSPECIFIED"


class StopCategory(StrEnum):
    """Why an episode stops without an outcome (design/study.md, Running)."""

    INPUT_LIMIT = "INPUT_LIMIT"
    BUDGET_STOP = "BUDGET_STOP"
    BILLING_UNRESOLVED = "BILLING_UNRESOLVED"
    BILLING_ABOVE_RESERVATION = "BILLING_ABOVE_RESERVATION"
    TRANSPORT_UNKNOWN = "TRANSPORT_UNKNOWN"
    UNRESOLVED_PRIOR_REQUEST = "UNRESOLVED_PRIOR_REQUEST"
    STUDY_BLOCKED = "STUDY_BLOCKED"
    SERVICE_UNAVAILABLE = "SERVICE_UNAVAILABLE"
    INTERRUPTED = "INTERRUPTED"


REFUSALS: Mapping[str, StopCategory] = MappingProxyType(
    {
        "BUDGET_EXHAUSTED": StopCategory.BUDGET_STOP,
        "STUDY_CAP_EXCEEDED": StopCategory.BUDGET_STOP,
        "CALL_CEILING_EXCEEDED": StopCategory.BUDGET_STOP,
        "STUDY_BLOCKED": StopCategory.STUDY_BLOCKED,
        "REPLAY_DENIED": StopCategory.UNRESOLVED_PRIOR_REQUEST,
        "TOO_MANY_IN_FLIGHT": StopCategory.UNRESOLVED_PRIOR_REQUEST,
        "STORE_UNAVAILABLE": StopCategory.SERVICE_UNAVAILABLE,
    }
)
"""What a refused reservation means to an episode; any other refusal is the caller's fault and ends the RPC."""

MARKED_ALREADY = frozenset({"ALREADY_HELD", "ALREADY_CHARGED", "ALREADY_RESOLVED", "RECEIPT_CONFLICT"})
"""Why a receipt or a hold is refused where the call has another mark: its lease was over, an operator was faster."""

NOT_TOLD = "STORE_UNAVAILABLE"
"""What a ledger says that is reached and cannot store; any other refusal of a mark ends the RPC."""

HOLD_CATEGORIES: Mapping[HoldCause, StopCategory] = MappingProxyType(
    {
        HoldCause.TRANSPORT_UNKNOWN: StopCategory.TRANSPORT_UNKNOWN,
        HoldCause.HTTP_STATUS: StopCategory.TRANSPORT_UNKNOWN,
        HoldCause.ADAPTER_STOPPED: StopCategory.INTERRUPTED,
    }
)
"""What a call that the adapter itself put in doubt means to an episode."""

HELD_CATEGORIES: Mapping[str, StopCategory] = MappingProxyType(
    {
        "COST_UNRESOLVED": StopCategory.BILLING_UNRESOLVED,
        "COST_ABOVE_RESERVATION": StopCategory.BILLING_ABOVE_RESERVATION,
    }
)


@dataclass(frozen=True, slots=True)
class TurnAnswered:
    """The provider's answer, now or from the ledger (`replayed`), paid for."""

    call: LedgerCall
    http_status: int
    response: bytes
    replayed: bool


@dataclass(frozen=True, slots=True)
class TurnStopped:
    """No answer that may be judged. `call` is the slot's call where the ledger has one."""

    category: StopCategory
    call: LedgerCall | None


TurnResult = TurnAnswered | TurnStopped


class Attempts:
    """Runs paid turns. One for each adapter process; `stop` ends those that still wait for a provider."""

    def __init__(self, ledger: LedgerPort, provider: Provider) -> None:
        self._ledger = ledger
        self._provider = provider
        self._running: set[asyncio.Task[TurnResult]] = set()
        self._stopping = asyncio.Event()

    async def run(self, order: Order, route: Route) -> TurnResult:
        """Take one turn. Where the caller is cancelled, the turn goes on to its receipt or hold.

        Raises ServiceError where the ledger refuses for a reason that no episode can meet (REFUSALS and MARKED_ALREADY
        have the others).
        """
        if self._stopping.is_set():
            return TurnStopped(StopCategory.INTERRUPTED, None)
        task = asyncio.create_task(self._traced(order, route))
        self._running.add(task)
        task.add_done_callback(self._forget)
        return await asyncio.shield(task)

    @property
    def in_flight(self) -> int:
        """How many turns have neither ended nor been given up."""
        return len(self._running)

    async def stop(self, drain_seconds: float) -> None:
        """Give turns under way `drain_seconds` to end by themselves, then hold what still waits for a provider.

        Returns once every turn has left its mark, or the ledger could not be told of it within its usual patience.
        """
        if self._running and drain_seconds > 0:
            await asyncio.wait(self._running, timeout=drain_seconds)
        self._stopping.set()
        self._ledger.hurry()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _forget(self, task: asyncio.Task[TurnResult]) -> None:
        self._running.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.warning("turn_failed", exception=type(task.exception()).__name__)

    async def _traced(self, order: Order, route: Route) -> TurnResult:
        with tracing.span("turn", attributes={"countersign.turn": order.slot.turn}) as span:
            result = await self._turn(order, route)
            if isinstance(result, TurnStopped):
                span.set({"countersign.stop_category": result.category.value})
            else:
                span.set({"countersign.replayed": result.replayed})
            return result

    async def _turn(self, order: Order, route: Route) -> TurnResult:
        token = secrets.token_bytes(ATTEMPT_TOKEN_BYTES)
        try:
            reserved = await self._ledger.reserve(order, token)
        except ServiceError as error:
            return await self._refused(order, error)
        if isinstance(reserved, StoredAnswer):
            return judgeable(reserved.call, reserved.http_status, reserved.response, replayed=True)
        return await self._send(_Paid(order, route, reserved, token))

    async def _refused(self, order: Order, error: ServiceError) -> TurnStopped:
        category = StopCategory.SERVICE_UNAVAILABLE if error.is_unreachable else REFUSALS.get(error.reason)
        if category is None:
            raise error
        known = await self._call_in_doubt(order) if error.reason == "REPLAY_DENIED" else None
        return TurnStopped(category, known)

    async def _call_in_doubt(self, order: Order) -> LedgerCall | None:
        try:
            return await self._ledger.latest_call(order.slot)
        except ServiceError:
            # Only told for information: that the slot is in doubt is known without it.
            return None

    async def _send(self, paid: "_Paid") -> TurnResult:
        if self._stopping.is_set():
            return await self._interrupted(paid, NOTHING_SENT)
        sending = asyncio.create_task(self._provider.send(paid.route, paid.order.request))
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait((sending, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not sending.done():
            sending.cancel()
            await asyncio.wait((sending,))
        return await self._settle(sending, paid)

    async def _settle(self, sent: asyncio.Task[ProviderAnswer], paid: "_Paid") -> TurnResult:
        """Leave a mark of whatever came of sending: an answer counts even where it came with the order to stop."""
        if sent.cancelled():
            if self._stopping.is_set():
                return await self._interrupted(paid, UNKNOWN_PROGRESS)
            return await self._failed(paid, UNKNOWN_PROGRESS)
        failure = sent.exception()
        if failure is None:
            return await self._record(sent.result(), paid)
        if isinstance(failure, TransportFailure):
            log.warning("transport_failure", progress=failure.progress.value, category=failure.category.value)
            return await self._failed(paid, failure.progress.value)
        # A fault of our own says nothing of what the provider did.
        log.error("sending_failed", exception=type(failure).__name__)
        return await self._failed(paid, UNKNOWN_PROGRESS)

    async def _failed(self, paid: "_Paid", progress: str) -> TurnStopped:
        return await self._hold(paid, HoldCause.TRANSPORT_UNKNOWN, progress, None)

    async def _interrupted(self, paid: "_Paid", progress: str) -> TurnStopped:
        return await self._hold(paid, HoldCause.ADAPTER_STOPPED, progress, None)

    async def _hold(self, paid: "_Paid", cause: HoldCause, progress: str, http_status: int | None) -> TurnStopped:
        category = HOLD_CATEGORIES[cause]
        try:
            call = await self._ledger.hold(paid.admitted, paid.token, cause, progress, http_status)
        except ServiceError as error:
            return await self._not_marked(error, paid, category)
        return TurnStopped(category, call)

    async def _record(self, answer: ProviderAnswer, paid: "_Paid") -> TurnResult:
        if not 200 <= answer.status < 300:
            return await self._hold(paid, HoldCause.HTTP_STATUS, "RESPONSE_STARTED", answer.status)
        cost = _cost(paid.route, answer.body)
        evidence = Evidence(answer.status, answer.body, cost.basis, cost.amount_text)
        try:
            call = await self._ledger.record_receipt(paid.admitted, paid.token, evidence)
        except ServiceError as error:
            return await self._not_marked(error, paid, StopCategory.BILLING_UNRESOLVED)
        return judgeable(call, answer.status, answer.body, replayed=False)

    async def _not_marked(self, error: ServiceError, paid: "_Paid", category: StopCategory) -> TurnStopped:
        """The end of a turn whose mark the ledger did not take: `category` where the call has another one already.

        Raises the refusal where it is none that an episode can meet. In any case nothing is sent again.
        """
        log.error("ledger_not_told", reason=error.reason, status=error.status.name, turn=paid.order.slot.turn)
        if error.is_unreachable or error.reason == NOT_TOLD:
            # The lease makes it a hold.
            return TurnStopped(StopCategory.SERVICE_UNAVAILABLE, None)
        if error.reason not in MARKED_ALREADY:
            raise error
        known = await self._call_in_doubt(paid.order)
        is_ours = known is not None and known.attempt == paid.admitted.attempt
        return TurnStopped(category, known if is_ours else None)


@dataclass(frozen=True, slots=True)
class _Paid:
    """A turn whose money is set aside."""

    order: Order
    route: Route
    admitted: Admitted
    token: bytes


def _cost(route: Route, body: bytes) -> Cost:
    """The answer's cost; not known where reading it fails, so that the answer itself is stored in any case."""
    try:
        return cost_of_answer(route, body)
    except Exception as failure:  # noqa: BLE001 - an answer that is paid for must not be lost to a fault of our own
        log.error("cost_failed", exception=type(failure).__name__)
        return UNKNOWN_COST


def judgeable(call: LedgerCall, http_status: int, response: bytes, *, replayed: bool) -> TurnResult:
    """An answer may be judged once it is paid for; one whose bill is in doubt stops the episode."""
    if call.state is CallState.HELD:
        return TurnStopped(HELD_CATEGORIES.get(call.hold_category, StopCategory.BILLING_UNRESOLVED), call)
    return TurnAnswered(call, http_status, response, replayed)
