"""Callers that ask a ledger for reservations in a closed loop, check every reply, and note how long each took."""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256

import grpc
from google.protobuf.duration_pb2 import Duration
from google.type import money_pb2

from countersign.kit.channel import call
from countersign.kit.ledger_stream import LedgerStream
from countersign.ledger.v1 import ledger_pb2 as pb
from countersign.ledger.v1.ledger_pb2_grpc import LedgerServiceStub

ACCOUNT = "bench"
STUDY = "bench"
TIMEOUT_SECONDS = 60.0
PRICE = money_pb2.Money(currency_code="USD", nanos=1_000)
BUDGET = money_pb2.Money(currency_code="USD", units=9_000_000)
REQUEST_BYTES = 256
LEASE = Duration(seconds=86_400)
_SAME = pb.ReserveRequest(amount=PRICE, basis=pb.AMOUNT_BASIS_FLAT, lease=LEASE)


@dataclass(frozen=True, slots=True)
class Asker:
    """How a caller asks: for a reservation and, where it charges, with the receipt."""

    reserve: Callable[[pb.ReserveRequest], Awaitable[pb.ReserveResponse]]
    record_receipt: Callable[[pb.RecordReceiptRequest], Awaitable[pb.RecordReceiptResponse]] | None = None


@dataclass(slots=True)
class Run:
    """What one run did: operations, wall-clock seconds, each operation's seconds, sorted once it is over."""

    count: int = 0
    seconds: float = 0.0
    client_cpu_seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)

    def latency_millis(self, share: float) -> float:
        """The latency that a share of the operations did not exceed."""
        return self.latencies[min(len(self.latencies) - 1, int(len(self.latencies) * share))] * 1_000


def unary(channel: grpc.aio.Channel, *, charge: bool) -> Asker:
    """One call for each mutation."""
    stub = LedgerServiceStub(channel)
    return Asker(
        lambda request: call(stub.Reserve, request, TIMEOUT_SECONDS),
        (lambda request: call(stub.RecordReceipt, request, TIMEOUT_SECONDS)) if charge else None,
    )


def coalesced(stream: LedgerStream, *, charge: bool) -> Asker:
    """All callers' mutations over one stream."""
    return Asker(
        lambda request: stream.reserve(request, TIMEOUT_SECONDS),
        (lambda request: stream.record_receipt(request, TIMEOUT_SECONDS)) if charge else None,
    )


async def furnish(channel: grpc.aio.Channel) -> None:
    """Open the account, its budget and its study; doing so twice is harmless."""
    stub = LedgerServiceStub(channel)
    who = {"account_id": ACCOUNT}
    await call(stub.OpenAccount, pb.OpenAccountRequest(request_id="o", currency_code="USD", opened_by="b", **who), 60)
    grant = pb.GrantBudgetRequest(request_id="g", amount=BUDGET, granted_by="b", reason="b", **who)
    await call(stub.GrantBudget, grant, 60)
    study = pb.OpenStudyRequest(
        request_id="s", study_id=STUDY, cap=BUDGET, max_in_flight=2**31, manifest_digest=bytes(32), opened_by="b", **who
    )
    await call(stub.OpenStudy, study, 60)


def slot_of(number: int) -> pb.Slot:
    """The slot of the run's nth reservation: ten turns an episode, episodes named by a digest as plans name them."""
    episode, turn = divmod(number, 10)
    return pb.Slot(study_id=STUDY, episode_id=sha256(b"%d" % episode).hexdigest(), turn=turn + 1)


def call_id_of(slot: pb.Slot) -> bytes:
    """The call id that the ledger must derive (protos/countersign/ledger/v1/ledger.proto, Admission)."""
    parts = [part.encode() for part in (slot.study_id, slot.episode_id, str(slot.turn))]
    return sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).digest()


def token_of(number: int) -> bytes:
    """The attempt token of the nth reservation; random in real life."""
    return b"%032d" % number


async def run(asker: Asker, callers: int, first: int, most: int, most_seconds: float) -> Run:
    """Let callers ask one after another, each in a slot of its own, until a count or a time is reached.

    Raises AssertionError for a reply that is not the admission, or the charge, that it must be.
    """
    result = Run()
    numbers: Iterator[int] = itertools.count(first)
    end = time.perf_counter() + most_seconds
    start, cpu = time.perf_counter(), time.process_time()

    async def caller() -> None:
        while result.count < most and time.perf_counter() < end:
            result.count += 1
            await _operation(asker, next(numbers), result.latencies)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(callers):
            tasks.create_task(caller())
    result.seconds = time.perf_counter() - start
    result.client_cpu_seconds = time.process_time() - cpu
    result.latencies.sort()
    return result


def request_of(number: int) -> pb.ReserveRequest:
    """The request for the nth reservation."""
    request = pb.ReserveRequest()
    # What all requests share is copied, in a third of the time: the callers' work is not what is measured.
    request.CopyFrom(_SAME)
    request.slot.CopyFrom(slot_of(number))
    request.attempt_token = token_of(number)
    request.request = b"%0*d" % (REQUEST_BYTES, number)
    return request


async def _operation(asker: Asker, number: int, latencies: list[float]) -> None:
    request = request_of(number)
    start = time.perf_counter()
    admission = (await asker.reserve(request)).admission
    if asker.record_receipt is not None:
        await _charge(asker.record_receipt, admission, number)
    latencies.append(time.perf_counter() - start)
    if (admission.attempt, admission.replayed) != (1, False) or admission.call_id != call_id_of(request.slot):
        raise AssertionError(f"reservation {number} was not admitted as it should")


async def _charge(
    record_receipt: Callable[[pb.RecordReceiptRequest], Awaitable[pb.RecordReceiptResponse]],
    admission: pb.Admission,
    number: int,
) -> None:
    receipt = pb.RecordReceiptRequest(
        call_id=admission.call_id,
        attempt_token=token_of(number),
        http_status=200,
        response=b"%0*d" % (REQUEST_BYTES, number),
        cost=pb.Cost(basis=pb.COST_BASIS_PROVIDER_REPORTED, amount_text="0.0000005"),
    )
    charged = await record_receipt(receipt)
    if charged.replayed or charged.call.state != pb.CALL_STATE_CHARGED or charged.call.accounted.nanos != 500:
        raise AssertionError(f"receipt {number} was not charged as it should")
