"""The ledger over gRPC: one token for as long as it takes, no second try where the ledger has decided."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.type.money_pb2 import Money as WireMoney

from adapter_svc import ledger_client
from adapter_svc.ledger_client import GrpcLedger
from adapter_svc.ledger_port import Admitted, CallState, Evidence, HoldCause, LedgerCall, StoredAnswer
from adapter_svc.routes import RequestProgress
from countersign.kit.channel import open_channel
from countersign.kit.errors import CountersignError
from countersign.kit.money import Money
from countersign.kit.rpc_errors import ServiceError
from countersign.kit.server import ServiceSpec, start_server
from countersign.ledger.v1 import ledger_pb2 as pb
from countersign.ledger.v1 import ledger_pb2_grpc as stubs
from tests.adapter_svc.fakes import SLOT, an_order

TOKEN = b"t" * 16
CALL_ID = b"c" * 32
WIRE_SLOT = pb.Slot(study_id="study", episode_id="episode", turn=1)
EVIDENCE = Evidence(201, b"body", "PRICED_USAGE", "0.5")
NOW = 1_000.0
PATIENT_SECONDS = 30.0
LEASE_SECONDS = 60
ADMITTED = Admitted(CALL_ID, 3, NOW + LEASE_SECONDS)
IMPATIENT_SECONDS = 0.0


class StoreUnavailable(CountersignError):
    """The ledger's store is away."""

    reason = "STORE_UNAVAILABLE"
    status = grpc.StatusCode.UNAVAILABLE


def decided(name: str) -> CountersignError:
    kind = type("Decided", (CountersignError,), {"reason": name, "status": grpc.StatusCode.FAILED_PRECONDITION})
    error: CountersignError = kind("the ledger has decided", call_id=CALL_ID)
    return error


def a_call(attempt: int = 1, **changes: Any) -> pb.Call:
    good: dict[str, Any] = {
        "call_id": CALL_ID,
        "slot": WIRE_SLOT,
        "attempt": attempt,
        "state": pb.CALL_STATE_CHARGED,
        "accounted": WireMoney(currency_code="USD", nanos=7),
        "request_digest": b"q" * 32,
        "response_digest": b"r" * 32,
    }
    return pb.Call(**{**good, **changes})


CHARGED = LedgerCall(CALL_ID, 1, 1, CallState.CHARGED, Money("USD", 7), b"q" * 32, b"r" * 32, "")
ADMISSION = pb.ReserveResponse(admission=pb.Admission(call_id=CALL_ID, attempt=3))


FIELDS = {"reserve": "Reserve", "record_receipt": "RecordReceipt", "hold": "Hold"}
"""The method of each kind of mutation."""


def refused(number: int, error: CountersignError) -> pb.MutationReply:
    code: int = error.status.value[0]
    metadata = dict(error.metadata)
    refusal = pb.Refusal(code=code, reason=error.reason, message=error.message, metadata=metadata)
    return pb.MutationReply(correlation_id=number, refusal=refusal)


class Script(stubs.LedgerServiceServicer):
    """Answers each method from its list, the last one for good; an error is a refusal, a bare status breaks the call,
    an event is waited for first.

    Mutations come over a stream alone.
    """

    def __init__(self) -> None:
        self.answers: dict[str, list[Any]] = {
            "Reserve": [ADMISSION],
            "RecordReceipt": [pb.RecordReceiptResponse(call=a_call())],
            "Hold": [pb.HoldResponse(call=a_call())],
            "GetCall": [pb.GetCallResponse(attempts=[a_call(1), a_call(2)])],
        }
        self.asked: list[Any] = []
        self.streams_count = 0

    async def Transact(
        self, request_iterator: AsyncIterator[pb.TransactRequest], context: Any
    ) -> AsyncIterator[pb.TransactResponse]:
        self.streams_count += 1
        async for message in request_iterator:
            for mutation in message.mutations:
                yield pb.TransactResponse(replies=[await self._reply(mutation, context)])

    async def _reply(self, mutation: pb.Mutation, context: Any) -> pb.MutationReply:
        field = mutation.WhichOneof("request")
        assert field is not None
        try:
            answer = await self._next(FIELDS[field], getattr(mutation, field), context)
        except CountersignError as error:
            return refused(mutation.correlation_id, error)
        reply = pb.MutationReply(correlation_id=mutation.correlation_id)
        getattr(reply, field).CopyFrom(answer)
        return reply

    async def GetCall(self, request: pb.GetCallRequest, context: Any) -> Any:
        return await self._next("GetCall", request, context)

    async def _next(self, method: str, request: Any, context: Any) -> Any:
        self.asked.append(request)
        answers = self.answers[method]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, asyncio.Event):
            await answer.wait()
        if isinstance(answer, grpc.StatusCode):
            await context.abort(answer, "broken")
        if isinstance(answer, Exception):
            raise answer
        return answer


def spec_of(script: Script) -> ServiceSpec:
    name = pb.DESCRIPTOR.services_by_name["LedgerService"].full_name
    return ServiceSpec("ledger", name, lambda server: stubs.add_LedgerServiceServicer_to_server(script, server))


@pytest.fixture
def script() -> Script:
    return Script()  # type: ignore[abstract]


@pytest.fixture
async def channel(script: Script) -> AsyncIterator[grpc.aio.Channel]:
    running = await start_server(spec_of(script), "127.0.0.1:0")
    async with open_channel(running.address) as channel:
        yield channel
    await running.stop(0)


class FakeClock:
    """Sleeps by moving on; `at` is called after each sleep."""

    def __init__(self) -> None:
        self.seconds = NOW
        self.at: Callable[[], None] = lambda: None

    def now(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        self.at()


class LateClock(FakeClock):
    """Every lease that began at NOW is over."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = NOW + LEASE_SECONDS


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def ledger(channel: grpc.aio.Channel, clock: FakeClock) -> AsyncIterator[GrpcLedger]:
    ledger = GrpcLedger(channel, PATIENT_SECONDS, clock)
    yield ledger
    await ledger.close()


async def hold(ledger: GrpcLedger) -> LedgerCall:
    return await ledger.hold(ADMITTED, TOKEN, HoldCause.HTTP_STATUS, "RESPONSE_STARTED", 503)


ASKING: dict[str, Callable[[GrpcLedger], Any]] = {
    "Reserve": lambda ledger: ledger.reserve(an_order(), TOKEN),
    "RecordReceipt": lambda ledger: ledger.record_receipt(ADMITTED, TOKEN, EVIDENCE),
    "Hold": hold,
    "GetCall": lambda ledger: ledger.latest_call(SLOT),
}


async def test_an_order_is_reserved_as_it_stands(ledger: GrpcLedger, script: Script) -> None:
    assert await ledger.reserve(an_order(), TOKEN) == ADMITTED
    assert script.asked == [
        pb.ReserveRequest(
            slot=WIRE_SLOT,
            attempt_token=TOKEN,
            amount=WireMoney(currency_code="USD", nanos=5),
            basis=pb.AMOUNT_BASIS_FREE_ROUTE,
            request=an_order().request,
            lease=Duration(seconds=LEASE_SECONDS),
        )
    ]


async def test_a_stored_answer_comes_with_the_attempt_that_it_belongs_to(ledger: GrpcLedger, script: Script) -> None:
    receipt = pb.Receipt(call_id=CALL_ID, attempt=1, http_status=201, response=b"stored")
    script.answers["Reserve"] = [pb.ReserveResponse(receipt=receipt)]
    assert await ledger.reserve(an_order(), TOKEN) == StoredAnswer(CHARGED, 201, b"stored")
    assert script.asked[1:] == [pb.GetCallRequest(slot=WIRE_SLOT)]


async def test_a_receipt_is_recorded_with_its_cost(ledger: GrpcLedger, script: Script) -> None:
    assert await ledger.record_receipt(ADMITTED, TOKEN, EVIDENCE) == CHARGED
    cost = pb.Cost(basis=pb.COST_BASIS_PRICED_USAGE, amount_text="0.5")
    assert script.asked == [
        pb.RecordReceiptRequest(call_id=CALL_ID, attempt_token=TOKEN, http_status=201, response=b"body", cost=cost)
    ]


async def test_an_unknown_cost_has_no_basis(ledger: GrpcLedger, script: Script) -> None:
    await ledger.record_receipt(ADMITTED, TOKEN, Evidence(200, b"", "", ""))
    assert script.asked[0].cost == pb.Cost(basis=pb.COST_BASIS_UNSPECIFIED)


@pytest.mark.parametrize("cause", list(HoldCause))
@pytest.mark.parametrize("progress", [*(step.value for step in RequestProgress), "UNSPECIFIED"])
async def test_every_cause_and_every_progress_has_its_name_in_the_contract(
    ledger: GrpcLedger, script: Script, cause: HoldCause, progress: str
) -> None:
    await ledger.hold(ADMITTED, TOKEN, cause, progress, None)
    (asked,) = script.asked
    assert pb.HoldCategory.Name(asked.category) == f"HOLD_CATEGORY_{cause.value}"
    assert pb.RequestProgress.Name(asked.progress) == f"REQUEST_PROGRESS_{progress}"
    assert not asked.HasField("http_status")


async def test_a_hold_tells_the_status_where_there_is_one(ledger: GrpcLedger, script: Script) -> None:
    held = a_call(state=pb.CALL_STATE_HELD, hold_category=pb.HOLD_CATEGORY_HTTP_STATUS, response_digest=b"")
    script.answers["Hold"] = [pb.HoldResponse(call=held)]
    call = await hold(ledger)
    assert (call.state, call.hold_category, call.response_digest) == (CallState.HELD, "HTTP_STATUS", b"")
    assert script.asked[0].http_status == 503


async def test_the_latest_attempt_is_the_slots_call(ledger: GrpcLedger) -> None:
    assert (await ledger.latest_call(SLOT)).attempt == 2


@pytest.mark.parametrize("state", [state for state in pb.CallState.values() if state])
async def test_every_state_of_a_call_is_known(ledger: GrpcLedger, script: Script, state: Any) -> None:
    script.answers["GetCall"] = [pb.GetCallResponse(attempts=[a_call(state=state)])]
    assert (await ledger.latest_call(SLOT)).state.value == pb.CallState.Name(state).removeprefix("CALL_STATE_")


@pytest.mark.parametrize("method", ASKING)
async def test_what_may_pass_is_asked_again_with_the_same_inputs(
    ledger: GrpcLedger, script: Script, method: str
) -> None:
    broken = [StoreUnavailable("wait"), grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN]
    script.answers[method] = [*broken, *script.answers[method]]
    await ASKING[method](ledger)
    assert len(script.asked) == 5
    assert all(asked == script.asked[0] for asked in script.asked)


@pytest.mark.parametrize("method", ASKING)
@pytest.mark.parametrize("reason", ["BUDGET_EXHAUSTED", "REPLAY_DENIED", "ALREADY_HELD", "INTERNAL", "STORE_CORRUPT"])
async def test_a_decision_is_not_asked_for_again(ledger: GrpcLedger, script: Script, method: str, reason: str) -> None:
    script.answers[method] = [decided(reason)]
    with pytest.raises(ServiceError) as caught:
        await ASKING[method](ledger)
    assert (caught.value.reason, caught.value.metadata) == (reason, {"call_id": CALL_ID.hex()})
    assert len(script.asked) == 1


@pytest.mark.parametrize("method", ["Reserve", "GetCall"])
async def test_patience_ends(ledger: GrpcLedger, script: Script, clock: FakeClock, method: str) -> None:
    script.answers[method] = [StoreUnavailable("wait")]
    with pytest.raises(ServiceError) as caught:
        await ASKING[method](ledger)
    assert caught.value.reason == "STORE_UNAVAILABLE"
    assert NOW + PATIENT_SECONDS - ledger_client.LONGEST_PAUSE_SECONDS < clock.seconds <= NOW + PATIENT_SECONDS


@pytest.mark.parametrize("method", ["RecordReceipt", "Hold"])
async def test_a_mark_is_offered_until_its_lease_is_over(
    ledger: GrpcLedger, script: Script, clock: FakeClock, method: str
) -> None:
    script.answers[method] = [StoreUnavailable("wait")]
    with pytest.raises(ServiceError) as caught:
        await ASKING[method](ledger)
    assert caught.value.reason == "STORE_UNAVAILABLE"
    lease_end = NOW + LEASE_SECONDS
    assert lease_end - ledger_client.LONGEST_PAUSE_SECONDS < clock.seconds <= lease_end


@pytest.mark.parametrize("method", ["RecordReceipt", "Hold"])
async def test_a_ledger_that_comes_back_late_within_the_lease_is_told(
    ledger: GrpcLedger, script: Script, clock: FakeClock, method: str
) -> None:
    usual = script.answers[method]
    script.answers[method] = [StoreUnavailable("wait")]

    def come_back() -> None:
        if clock.seconds > NOW + PATIENT_SECONDS + 20:
            script.answers[method] = usual

    clock.at = come_back
    assert await ASKING[method](ledger) == CHARGED
    assert all(asked == script.asked[0] for asked in script.asked)


@pytest.mark.parametrize("method", ["RecordReceipt", "Hold"])
async def test_a_mark_whose_lease_is_nearly_over_is_offered_as_long_as_anything(
    ledger: GrpcLedger, script: Script, clock: FakeClock, method: str
) -> None:
    clock.seconds = begun_at = NOW + LEASE_SECONDS - 1
    script.answers[method] = [StoreUnavailable("wait")]
    with pytest.raises(ServiceError):
        await ASKING[method](ledger)
    end = begun_at + PATIENT_SECONDS
    assert end - ledger_client.LONGEST_PAUSE_SECONDS < clock.seconds <= end


@pytest.mark.parametrize("hurried_at", [0, 10, 20])
async def test_who_is_to_stop_waits_no_longer_than_usual(
    ledger: GrpcLedger, script: Script, clock: FakeClock, hurried_at: int
) -> None:
    def hurry() -> None:
        if clock.seconds >= NOW + hurried_at:
            ledger.hurry()

    clock.at = hurry
    hurry()
    script.answers["RecordReceipt"] = [StoreUnavailable("wait")]
    with pytest.raises(ServiceError):
        await ASKING["RecordReceipt"](ledger)
    waited = clock.seconds - NOW
    assert abs(waited - (hurried_at + PATIENT_SECONDS)) < 2 * ledger_client.LONGEST_PAUSE_SECONDS


async def test_what_is_begun_after_the_order_to_stop_has_the_usual_time(
    ledger: GrpcLedger, script: Script, clock: FakeClock
) -> None:
    ledger.hurry()
    clock.seconds = begun_at = NOW + 5
    script.answers["RecordReceipt"] = [StoreUnavailable("wait")]
    with pytest.raises(ServiceError):
        await ASKING["RecordReceipt"](ledger)
    end = begun_at + PATIENT_SECONDS
    assert end - ledger_client.LONGEST_PAUSE_SECONDS < clock.seconds <= end


@pytest.mark.parametrize("method", ASKING)
async def test_a_ledger_that_never_answers_is_not_waited_for_without_end(
    channel: grpc.aio.Channel, script: Script, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.setattr(ledger_client, "CALL_TIMEOUT_SECONDS", 0.01)
    script.answers[method] = [asyncio.Event()]
    with pytest.raises(ServiceError) as caught:
        await ASKING[method](GrpcLedger(channel, IMPATIENT_SECONDS, LateClock()))
    assert caught.value.status is grpc.StatusCode.DEADLINE_EXCEEDED
    assert caught.value.is_unreachable


async def test_all_mutations_share_one_stream(ledger: GrpcLedger, script: Script) -> None:
    await asyncio.gather(*(ASKING[method](ledger) for method in sorted(FIELDS.values()) * 10))
    assert (script.streams_count, len(script.asked)) == (1, 30)


async def test_another_stream_follows_one_that_broke(ledger: GrpcLedger, script: Script) -> None:
    script.answers["Reserve"] = [grpc.StatusCode.UNAVAILABLE, ADMISSION]
    assert (await ASKING["Reserve"](ledger)).attempt == ADMITTED.attempt
    await ASKING["Hold"](ledger)
    assert script.streams_count == 2


async def test_no_stream_is_opened_for_a_read(ledger: GrpcLedger, script: Script) -> None:
    await ASKING["GetCall"](ledger)
    assert script.streams_count == 0


@pytest.mark.parametrize("method", sorted(FIELDS.values()))
async def test_nothing_is_changed_through_a_client_that_was_closed(
    channel: grpc.aio.Channel, script: Script, method: str
) -> None:
    ledger = GrpcLedger(channel, IMPATIENT_SECONDS, LateClock())
    await ASKING[method](ledger)
    await ledger.close()
    await ledger.close()
    with pytest.raises(ServiceError):
        await ASKING[method](ledger)
    assert len(script.asked) == 1


async def test_a_ledger_that_nobody_serves_is_unreachable(tmp_path: Path) -> None:
    async with open_channel(f"unix:{tmp_path}/l.sock") as channel:
        with pytest.raises(ServiceError) as caught:
            await GrpcLedger(channel, IMPATIENT_SECONDS).reserve(an_order(), TOKEN)
    assert caught.value.is_unreachable


class Warnings:
    """Takes the client's log; `given` is set once it has complained."""

    def __init__(self) -> None:
        self.given = asyncio.Event()

    def warning(self, event: str, **facts: object) -> None:
        assert event == "ledger_unreachable"
        self.given.set()


async def test_a_ledger_that_comes_back_is_found(
    tmp_path: Path, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings = Warnings()
    monkeypatch.setattr(ledger_client, "log", warnings)
    address = f"unix:{tmp_path}/l.sock"
    async with open_channel(address) as channel:
        recording = asyncio.create_task(GrpcLedger(channel, PATIENT_SECONDS).record_receipt(ADMITTED, TOKEN, EVIDENCE))
        await warnings.given.wait()
        running = await start_server(spec_of(script), address)
        assert await recording == CHARGED
    await running.stop(0)
