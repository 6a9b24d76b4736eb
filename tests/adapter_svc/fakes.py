"""A ledger and a provider in memory, which write what they are asked into one journal."""

import asyncio
import hashlib
from dataclasses import dataclass, field
from typing import Any

import grpc

from adapter_svc.ledger_port import (
    Admitted,
    CallState,
    Evidence,
    HoldCause,
    LedgerCall,
    Order,
    Slot,
    StoredAnswer,
)
from adapter_svc.routes import ProviderAnswer, Route
from countersign.kit.money import Money
from countersign.kit.rpc_errors import ServiceError

SLOT = Slot("study", "episode", 1)
CALL_ID = bytes(range(32))
ADMITTED = Admitted(CALL_ID, 1, 0.0)
UNREACHABLE = ServiceError(grpc.StatusCode.UNAVAILABLE, "", "nobody there", {})


def refusal(reason: str) -> ServiceError:
    return ServiceError(grpc.StatusCode.FAILED_PRECONDITION, reason, "no", {})


def ledger_call(state: CallState = CallState.CHARGED, hold_category: str = "", turn: int = 1) -> LedgerCall:
    return LedgerCall(CALL_ID, turn, 1, state, Money("USD", 0), b"q" * 32, b"r" * 32, hold_category)


def an_order(slot: Slot = SLOT, request: bytes = b'{"messages":[]}') -> Order:
    return Order(slot, Money("USD", 5), "FREE_ROUTE", b"", request, 60)


@dataclass
class Gate:
    """Something that waits until it is released, and tells that it waits."""

    waiting: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait(self) -> None:
        self.waiting.set()
        await self.released.wait()


@dataclass
class FakeLedger:
    """Implements LedgerPort. `answers` overrides what a method gives; an exception in it is raised.

    Without one, a reservation is admitted, a receipt charges, a hold holds.
    """

    journal: list[Any] = field(default_factory=list)
    answers: dict[str, Any] = field(default_factory=dict)
    gates: dict[str, Gate] = field(default_factory=dict)
    stored: dict[int, StoredAnswer] = field(default_factory=dict)
    tokens: list[bytes] = field(default_factory=list)
    orders: list[Order] = field(default_factory=list)
    settled: asyncio.Event = field(default_factory=asyncio.Event)

    async def reserve(self, order: Order, attempt_token: bytes) -> Admitted | StoredAnswer:
        self.tokens.append(attempt_token)
        self.orders.append(order)
        stored = self.stored.get(order.slot.turn)
        admitted = Admitted(hashlib.sha256(repr(order.slot).encode()).digest(), 1, 0.0) if self.orders[1:] else ADMITTED
        answer: Admitted | StoredAnswer = await self._answer("reserve", ("reserve", order.slot), stored or admitted)
        return answer

    async def record_receipt(self, admitted: Admitted, attempt_token: bytes, evidence: Evidence) -> LedgerCall:
        self.tokens.append(attempt_token)
        call: LedgerCall = await self._answer("record_receipt", ("receipt", evidence), self._call(CallState.CHARGED))
        self.settled.set()
        return call

    async def hold(
        self, admitted: Admitted, attempt_token: bytes, cause: HoldCause, progress: str, http_status: int | None
    ) -> LedgerCall:
        self.tokens.append(attempt_token)
        held = self._call(CallState.HELD, cause.value)
        call: LedgerCall = await self._answer("hold", ("hold", cause, progress, http_status), held)
        self.settled.set()
        return call

    async def latest_call(self, slot: Slot) -> LedgerCall:
        call: LedgerCall = await self._answer("latest_call", ("latest_call", slot), ledger_call(CallState.HELD))
        return call

    def hurry(self) -> None:
        self.journal.append(("hurry",))

    def _call(self, state: CallState, hold_category: str = "") -> LedgerCall:
        return ledger_call(state, hold_category, self.orders[-1].slot.turn)

    async def _answer(self, method: str, entry: tuple[Any, ...], usual: Any) -> Any:
        self.journal.append(entry)
        if method in self.gates:
            await self.gates[method].wait()
        answer = self.answers.get(method, usual)
        if isinstance(answer, BaseException):
            raise answer
        return answer


@dataclass
class FakeProvider:
    """Implements Provider: gives `replies` in turn; an exception among them is raised, at a gate it waits first.

    `last_word` is what it answers where it is cancelled while it waits, if anything.
    """

    journal: list[Any]
    replies: list[Any]
    gate: Gate | None = None
    last_word: ProviderAnswer | None = None
    requests: list[bytes] = field(default_factory=list)

    async def send(self, route: Route, request: bytes) -> ProviderAnswer:
        self.journal.append(("send", route.name))
        self.requests.append(request)
        try:
            if self.gate is not None:
                await self.gate.wait()
        except asyncio.CancelledError:
            self.journal.append(("cancelled",))
            if self.last_word is None:
                raise
            return self.last_word
        reply: ProviderAnswer | BaseException = self.replies.pop(0)
        if isinstance(reply, BaseException):
            raise reply
        return reply
