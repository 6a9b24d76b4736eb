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
"""What the ledger's refusals mean to an episode; any other is the caller's fault and ends the RPC."""

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

        Raises ServiceError where the ledger refuses for a reason that no episode can meet (REFUSALS has the others).
        """
        if self._stopping.is_set():
            return TurnStopped(StopCategory.INTERRUPTED, None)
        task = asyncio.create_task(self._turn(order, route))
        self._running.add(task)
        task.add_done_callback(self._forget)
        return await asyncio.shield(task)

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

    async def _turn(self, order: Order, route: Route) -> TurnResult:
        token = secrets.token_bytes(ATTEMPT_TOKEN_BYTES)
        try:
            reserved = await self._ledger.reserve(order, token)
        except ServiceError as error:
            return await self._refused(order, error)
        if isinstance(reserved, StoredAnswer):
            return judgeable(reserved.call, reserved.http_status, reserved.response, replayed=True)
        try:
            return await self._send(reserved, token, order, route)
        except ServiceError as error:
            # The ledger could not be told: the lease makes it a hold, and nothing is sent again.
            log.error("ledger_not_told", reason=error.reason, status=error.status.name, turn=order.slot.turn)
            return TurnStopped(StopCategory.SERVICE_UNAVAILABLE, None)

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

    async def _send(self, admitted: Admitted, token: bytes, order: Order, route: Route) -> TurnResult:
        if self._stopping.is_set():
            return await self._interrupted(admitted, token, NOTHING_SENT)
        sending = asyncio.create_task(self._provider.send(route, order.request))
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait((sending, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not sending.done():
            sending.cancel()
            await asyncio.wait((sending,))
        return await self._settle(sending, admitted, token, route)

    async def _settle(
        self, sent: asyncio.Task[ProviderAnswer], admitted: Admitted, token: bytes, route: Route
    ) -> TurnResult:
        """Leave a mark of whatever came of sending: an answer counts even where it came with the order to stop."""
        if sent.cancelled():
            if self._stopping.is_set():
                return await self._interrupted(admitted, token, UNKNOWN_PROGRESS)
            return await self._failed(admitted, token, UNKNOWN_PROGRESS)
        failure = sent.exception()
        if failure is None:
            return await self._record(sent.result(), admitted, token, route)
        if isinstance(failure, TransportFailure):
            return await self._failed(admitted, token, failure.progress.value)
        # A fault of our own says nothing of what the provider did.
        log.error("sending_failed", exception=type(failure).__name__)
        return await self._failed(admitted, token, UNKNOWN_PROGRESS)

    async def _failed(self, admitted: Admitted, token: bytes, progress: str) -> TurnStopped:
        call = await self._ledger.hold(admitted, token, HoldCause.TRANSPORT_UNKNOWN, progress, None)
        return TurnStopped(StopCategory.TRANSPORT_UNKNOWN, call)

    async def _interrupted(self, admitted: Admitted, token: bytes, progress: str) -> TurnStopped:
        call = await self._ledger.hold(admitted, token, HoldCause.ADAPTER_STOPPED, progress, None)
        return TurnStopped(StopCategory.INTERRUPTED, call)

    async def _record(self, answer: ProviderAnswer, admitted: Admitted, token: bytes, route: Route) -> TurnResult:
        if not 200 <= answer.status < 300:
            call = await self._ledger.hold(admitted, token, HoldCause.HTTP_STATUS, "RESPONSE_STARTED", answer.status)
            return TurnStopped(StopCategory.TRANSPORT_UNKNOWN, call)
        cost = _cost(route, answer.body)
        evidence = Evidence(answer.status, answer.body, cost.basis, cost.amount_text)
        call = await self._ledger.record_receipt(admitted, token, evidence)
        return judgeable(call, answer.status, answer.body, replayed=False)


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
