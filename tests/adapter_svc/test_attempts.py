"""One paid turn leaves a receipt or a hold behind, whatever happens (design/architecture.md, I1, I3 and I4)."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import grpc
import pytest

from adapter_svc import attempts as subject
from adapter_svc.attempts import Attempts, StopCategory, TurnAnswered, TurnResult, TurnStopped
from adapter_svc.ledger_port import CallState, Evidence, HoldCause, StoredAnswer
from adapter_svc.routes import (
    FailureCategory,
    ProviderAnswer,
    RequestProgress,
    Route,
    TokenPrices,
    TransportFailure,
)
from countersign.errordetails.v1.error_reason_pb2 import ErrorReason
from countersign.kit.rpc_errors import ServiceError
from tests.adapter_svc.fakes import (
    SLOT,
    UNREACHABLE,
    FakeLedger,
    FakeProvider,
    Gate,
    an_order,
    ledger_call,
    refusal,
)
from tests.adapter_svc.routes.helpers import a_route

BODY = b'{"usage":{"prompt_tokens":3,"completion_tokens":4}}'
ANSWER = ProviderAnswer(200, BODY)
FREE_RECEIPT = ("receipt", Evidence(200, BODY, "FREE_ROUTE", "0"))
RESERVED = ("reserve", SLOT)
SENT = ("send", "local")
HURRIED = ("hurry",)


class Turns:
    """Attempts over a fake ledger and a fake provider."""

    def __init__(self, *replies: Any, gate: Gate | None = None, last_word: ProviderAnswer | None = None) -> None:
        self.ledger = FakeLedger()
        self.journal = self.ledger.journal
        self.provider = FakeProvider(self.journal, list(replies), gate, last_word)
        self.attempts = Attempts(self.ledger, self.provider)

    async def run(self, route: Route | None = None) -> TurnResult:
        return await self.attempts.run(an_order(), route or a_route())

    def start(self) -> asyncio.Task[TurnResult]:
        return asyncio.create_task(self.run())


def stopped(result: TurnResult) -> tuple[StopCategory, str | None]:
    """The category and the state of the call that came with it."""
    assert isinstance(result, TurnStopped)
    return result.category, None if result.call is None else result.call.state.value


async def test_money_is_reserved_before_the_request_and_the_answer_recorded_after_it() -> None:
    turns = Turns(ANSWER)
    assert await turns.run() == TurnAnswered(ledger_call(), 200, BODY, replayed=False)
    assert turns.journal == [RESERVED, SENT, FREE_RECEIPT]
    assert turns.provider.requests == [an_order().request]
    assert turns.ledger.orders == [an_order()]


async def test_one_random_token_covers_one_attempt() -> None:
    first, second = Turns(ANSWER), Turns(ANSWER)
    await first.run()
    await second.run()
    assert len({*first.ledger.tokens}) == 1
    assert len(first.ledger.tokens[0]) == 16
    assert first.ledger.tokens[0] != second.ledger.tokens[0]


async def test_what_an_answer_cost_goes_with_its_receipt() -> None:
    route = a_route(price=TokenPrices("1", "2"))
    turns = Turns(ANSWER, ProviderAnswer(201, b"no usage"))
    await turns.run(route)
    await turns.run(route)
    receipts = [entry[1] for entry in turns.journal if entry[0] == "receipt"]
    assert receipts == [Evidence(200, BODY, "PRICED_USAGE", "0.000011"), Evidence(201, b"no usage", "", "")]


REASONS = [name.removeprefix("ERROR_REASON_") for name, _ in ErrorReason.items()]
"""Everything that the ledger, or any service, can ever refuse with."""

RESERVATIONS = {
    "BUDGET_EXHAUSTED": StopCategory.BUDGET_STOP,
    "STUDY_CAP_EXCEEDED": StopCategory.BUDGET_STOP,
    "CALL_CEILING_EXCEEDED": StopCategory.BUDGET_STOP,
    "STUDY_BLOCKED": StopCategory.STUDY_BLOCKED,
    "REPLAY_DENIED": StopCategory.UNRESOLVED_PRIOR_REQUEST,
    "TOO_MANY_IN_FLIGHT": StopCategory.UNRESOLVED_PRIOR_REQUEST,
    "STORE_UNAVAILABLE": StopCategory.SERVICE_UNAVAILABLE,
}
"""The refused reservations that stop an episode; all others are the caller's (design/ledger.md, Reserve)."""


@pytest.mark.parametrize("reason", [*REASONS, "NEW_REASON"])
async def test_a_refused_reservation_sends_nothing_and_means_what_the_design_says(reason: str) -> None:
    turns = Turns(ANSWER)
    turns.ledger.answers["reserve"] = refusal(reason)
    if reason in RESERVATIONS:
        assert stopped(await turns.run())[0] is RESERVATIONS[reason]
    else:
        with pytest.raises(ServiceError) as caught:
            await turns.run()
        assert caught.value.reason == reason
    assert turns.journal[:1] == [RESERVED]
    assert SENT not in turns.journal


async def test_a_slot_in_doubt_stops_with_its_call() -> None:
    turns = Turns(ANSWER)
    turns.ledger.answers["reserve"] = refusal("REPLAY_DENIED")
    assert await turns.run() == TurnStopped(StopCategory.UNRESOLVED_PRIOR_REQUEST, ledger_call(CallState.HELD))
    assert turns.journal == [RESERVED, ("latest_call", SLOT)]


async def test_a_slot_in_doubt_whose_call_cannot_be_read_stops_all_the_same() -> None:
    turns = Turns(ANSWER)
    turns.ledger.answers |= {"reserve": refusal("REPLAY_DENIED"), "latest_call": UNREACHABLE}
    assert await turns.run() == TurnStopped(StopCategory.UNRESOLVED_PRIOR_REQUEST, None)


@pytest.mark.parametrize(
    "status", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED]
)
async def test_a_ledger_out_of_reach_sends_nothing(status: grpc.StatusCode) -> None:
    turns = Turns(ANSWER)
    turns.ledger.answers["reserve"] = ServiceError(status, "", "", {})
    assert await turns.run() == TurnStopped(StopCategory.SERVICE_UNAVAILABLE, None)
    assert turns.journal == [RESERVED]


async def test_a_stored_answer_is_given_again_and_nothing_is_sent() -> None:
    turns = Turns(ANSWER)
    turns.ledger.stored[1] = StoredAnswer(ledger_call(), 203, b"stored")
    assert await turns.run() == TurnAnswered(ledger_call(), 203, b"stored", replayed=True)
    assert turns.journal == [RESERVED]


async def test_an_answer_that_an_operator_settled_is_given_again() -> None:
    turns = Turns()
    call = ledger_call(CallState.RESOLVED, "COST_UNRESOLVED")
    turns.ledger.stored[1] = StoredAnswer(call, 200, b"stored")
    assert await turns.run() == TurnAnswered(call, 200, b"stored", replayed=True)


@pytest.mark.parametrize("progress", list(RequestProgress))
async def test_a_broken_transport_is_held_with_how_far_the_request_got(progress: RequestProgress) -> None:
    turns = Turns(TransportFailure(progress, FailureCategory.CONNECTION_BROKEN))
    assert stopped(await turns.run()) == (StopCategory.TRANSPORT_UNKNOWN, "HELD")
    assert turns.journal == [RESERVED, SENT, ("hold", HoldCause.TRANSPORT_UNKNOWN, progress.value, None)]


@pytest.mark.parametrize("status", [100, 199, 300, 404, 429, 503])
async def test_another_status_than_2xx_is_held_with_it(status: int) -> None:
    turns = Turns(ProviderAnswer(status, BODY))
    assert stopped(await turns.run()) == (StopCategory.TRANSPORT_UNKNOWN, "HELD")
    assert turns.journal == [RESERVED, SENT, ("hold", HoldCause.HTTP_STATUS, "RESPONSE_STARTED", status)]


@pytest.mark.parametrize("status", [200, 204, 299])
async def test_every_2xx_is_a_receipt(status: int) -> None:
    turns = Turns(ProviderAnswer(status, BODY))
    assert await turns.run() == TurnAnswered(ledger_call(), status, BODY, replayed=False)


@pytest.mark.parametrize(
    ("category", "expected"),
    [
        ("COST_UNRESOLVED", StopCategory.BILLING_UNRESOLVED),
        ("COST_ABOVE_RESERVATION", StopCategory.BILLING_ABOVE_RESERVATION),
        ("SOMETHING_NEW", StopCategory.BILLING_UNRESOLVED),
    ],
)
async def test_an_answer_whose_bill_is_in_doubt_is_not_judged(category: str, expected: StopCategory) -> None:
    turns = Turns(ANSWER)
    held = ledger_call(CallState.HELD, category)
    turns.ledger.answers["record_receipt"] = held
    assert await turns.run() == TurnStopped(expected, held)
    assert turns.journal == [RESERVED, SENT, FREE_RECEIPT]


async def test_a_caller_who_goes_away_changes_nothing() -> None:
    gate = Gate()
    turns = Turns(ANSWER, gate=gate)
    caller = turns.start()
    await gate.waiting.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert turns.journal == [RESERVED, SENT]
    gate.released.set()
    await turns.ledger.settled.wait()
    assert turns.journal == [RESERVED, SENT, FREE_RECEIPT]


async def test_a_caller_who_goes_away_during_the_reservation_changes_nothing() -> None:
    gate = Gate()
    turns = Turns(ANSWER)
    turns.ledger.gates["reserve"] = gate
    caller = turns.start()
    await gate.waiting.wait()
    caller.cancel()
    await asyncio.gather(caller, return_exceptions=True)
    gate.released.set()
    await turns.ledger.settled.wait()
    assert turns.journal == [RESERVED, SENT, FREE_RECEIPT]


async def test_stopping_holds_what_still_waits_for_a_provider() -> None:
    gate = Gate()
    turns = Turns(ANSWER, gate=gate)
    caller = turns.start()
    await gate.waiting.wait()
    await turns.attempts.stop(0)
    assert stopped(await caller) == (StopCategory.INTERRUPTED, "HELD")
    stopping = ("hold", HoldCause.ADAPTER_STOPPED, "UNSPECIFIED", None)
    assert turns.journal == [RESERVED, SENT, HURRIED, ("cancelled",), stopping]


async def test_a_turn_that_ends_while_there_is_time_is_recorded() -> None:
    gate = Gate()
    turns = Turns(ANSWER, gate=gate)
    caller = turns.start()
    await gate.waiting.wait()
    caller.cancel()
    await asyncio.gather(caller, return_exceptions=True)
    stopping = asyncio.create_task(turns.attempts.stop(60))
    gate.released.set()
    await stopping
    assert turns.journal == [RESERVED, SENT, FREE_RECEIPT, HURRIED]


async def test_stopping_waits_for_a_turn_whose_caller_has_gone() -> None:
    gate = Gate()
    turns = Turns(ANSWER, gate=gate)
    caller = turns.start()
    await gate.waiting.wait()
    caller.cancel()
    await asyncio.gather(caller, return_exceptions=True)
    await turns.attempts.stop(0)
    assert turns.journal[-1] == ("hold", HoldCause.ADAPTER_STOPPED, "UNSPECIFIED", None)


async def test_stopping_during_a_reservation_sends_nothing_and_holds_it() -> None:
    gate = Gate()
    turns = Turns(ANSWER)
    turns.ledger.gates["reserve"] = gate
    caller = turns.start()
    await gate.waiting.wait()
    stopping = asyncio.create_task(turns.attempts.stop(0))
    gate.released.set()
    await stopping
    assert stopped(await caller) == (StopCategory.INTERRUPTED, "HELD")
    assert turns.journal == [RESERVED, HURRIED, ("hold", HoldCause.ADAPTER_STOPPED, "NOT_CONNECTED", None)]


async def test_stopping_while_an_answer_is_recorded_waits_for_its_receipt() -> None:
    gate = Gate()
    turns = Turns(ANSWER)
    turns.ledger.gates["record_receipt"] = gate
    caller = turns.start()
    await gate.waiting.wait()
    stopping = asyncio.create_task(turns.attempts.stop(0))
    gate.released.set()
    await stopping
    assert await caller == TurnAnswered(ledger_call(), 200, BODY, replayed=False)


async def test_an_answer_that_comes_with_the_order_to_stop_is_recorded() -> None:
    gate = Gate()
    turns = Turns(gate=gate, last_word=ANSWER)
    caller = turns.start()
    await gate.waiting.wait()
    await turns.attempts.stop(0)
    assert await caller == TurnAnswered(ledger_call(), 200, BODY, replayed=False)
    assert turns.journal == [RESERVED, SENT, HURRIED, ("cancelled",), FREE_RECEIPT]


async def test_nothing_is_reserved_once_stopped() -> None:
    turns = Turns(ANSWER)
    await turns.attempts.stop(0)
    assert await turns.run() == TurnStopped(StopCategory.INTERRUPTED, None)
    assert turns.journal == [HURRIED]


TIMED_OUT = TransportFailure(RequestProgress.SENT, FailureCategory.TOTAL_TIMEOUT)


@pytest.mark.parametrize("error", [UNREACHABLE, refusal("STORE_UNAVAILABLE")])
@pytest.mark.parametrize("reply", [ANSWER, TIMED_OUT])
async def test_a_ledger_that_cannot_be_told_leaves_the_call_to_its_lease(error: ServiceError, reply: Any) -> None:
    turns = Turns(reply)
    turns.ledger.answers |= {"record_receipt": error, "hold": error}
    assert await turns.run() == TurnStopped(StopCategory.SERVICE_UNAVAILABLE, None)
    assert len(turns.journal) == 3


MARKED = ["ALREADY_HELD", "ALREADY_CHARGED", "ALREADY_RESOLVED", "RECEIPT_CONFLICT"]
"""Refusals of a receipt or a hold that say that the call has another mark (design/ledger.md, States)."""

MARKS: list[tuple[Any, StopCategory]] = [
    (ANSWER, StopCategory.BILLING_UNRESOLVED),
    (ProviderAnswer(503, BODY), StopCategory.TRANSPORT_UNKNOWN),
    (TIMED_OUT, StopCategory.TRANSPORT_UNKNOWN),
]
"""What a provider's answer means where the ledger has marked the call by itself."""


@pytest.mark.parametrize("reason", [*REASONS, "NEW_REASON"])
@pytest.mark.parametrize(("reply", "category"), MARKS)
async def test_a_refused_mark_means_what_the_design_says(reply: Any, category: StopCategory, reason: str) -> None:
    turns = Turns(reply)
    turns.ledger.answers |= {"record_receipt": refusal(reason), "hold": refusal(reason)}
    if reason in MARKED:
        assert await turns.run() == TurnStopped(category, ledger_call(CallState.HELD))
        assert turns.journal[3:] == [("latest_call", SLOT)]
    elif reason == "STORE_UNAVAILABLE":
        assert await turns.run() == TurnStopped(StopCategory.SERVICE_UNAVAILABLE, None)
    else:
        with pytest.raises(ServiceError) as caught:
            await turns.run()
        assert caught.value.reason == reason
    assert turns.journal.count(SENT) == 1


@pytest.mark.parametrize("reason", MARKED)
async def test_a_stopped_turn_whose_call_is_held_already_was_interrupted(reason: str) -> None:
    gate = Gate()
    turns = Turns(gate=gate)
    turns.ledger.answers["hold"] = refusal(reason)
    caller = turns.start()
    await gate.waiting.wait()
    await turns.attempts.stop(0)
    assert stopped(await caller) == (StopCategory.INTERRUPTED, "HELD")


@pytest.mark.parametrize("known", [UNREACHABLE, replace(ledger_call(CallState.RESERVED), attempt=2)])
async def test_a_call_that_is_not_the_turns_own_is_not_shown_as_its(known: Any) -> None:
    turns = Turns(TIMED_OUT)
    turns.ledger.answers |= {"hold": refusal("ALREADY_RESOLVED"), "latest_call": known}
    assert await turns.run() == TurnStopped(StopCategory.TRANSPORT_UNKNOWN, None)


@pytest.mark.parametrize("fault", [ValueError("a secret"), RuntimeError(), asyncio.CancelledError(), OSError()])
async def test_a_fault_while_sending_is_held_and_sent_no_second_time(
    fault: BaseException, capfd: pytest.CaptureFixture[str]
) -> None:
    turns = Turns(fault, ANSWER)
    assert stopped(await turns.run()) == (StopCategory.TRANSPORT_UNKNOWN, "HELD")
    assert turns.journal == [RESERVED, SENT, ("hold", HoldCause.TRANSPORT_UNKNOWN, "UNSPECIFIED", None)]
    assert "secret" not in "".join(capfd.readouterr())


async def test_an_answer_whose_cost_cannot_be_read_is_stored_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(route: Route, body: bytes) -> Any:
        raise RecursionError

    monkeypatch.setattr(subject, "cost_of_answer", failing)
    turns = Turns(ANSWER)
    turns.ledger.answers["record_receipt"] = ledger_call(CallState.HELD, "COST_UNRESOLVED")
    assert stopped(await turns.run()) == (StopCategory.BILLING_UNRESOLVED, "HELD")
    assert turns.journal[-1] == ("receipt", Evidence(200, BODY, "", ""))


async def test_turns_at_the_same_time_do_not_touch_one_another() -> None:
    gate = Gate()
    failure = TransportFailure(RequestProgress.SENT, FailureCategory.CONNECTION_BROKEN)
    turns = Turns(ANSWER, failure, gate=gate)
    callers = [turns.start(), turns.start()]
    await gate.waiting.wait()
    gate.released.set()
    results: Sequence[TurnResult] = await asyncio.gather(*callers)
    assert isinstance(results[0], TurnAnswered)
    assert stopped(results[1]) == (StopCategory.TRANSPORT_UNKNOWN, "HELD")
    kinds = sorted(entry[0] for entry in turns.journal)
    assert kinds == ["hold", "receipt", "reserve", "reserve", "send", "send"]
