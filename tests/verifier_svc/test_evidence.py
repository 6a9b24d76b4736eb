"""Evidence out of a ledger over gRPC: every attempt of an episode, as stored."""

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from google.type.money_pb2 import Money

from countersign.kit.channel import open_channel
from countersign.kit.errors import CountersignError
from countersign.kit.rpc_errors import ServiceError
from countersign.kit.server import ServiceSpec, start_server
from countersign.ledger.v1 import ledger_pb2 as pb
from countersign.ledger.v1 import ledger_pb2_grpc as stubs
from verifier_svc.episode import StoredCall
from verifier_svc.evidence import LedgerEvidence
from verifier_svc.receipts.cost import CostBasis


class StoreCorrupt(CountersignError):
    """The store is damaged."""

    reason = "STORE_CORRUPT"
    status = grpc.StatusCode.DATA_LOSS


def call_id(turn: int) -> bytes:
    return bytes([turn]) * 32


class Ledger(stubs.LedgerServiceServicer):
    """Sends what it keeps of an episode, a message a turn, then raises what it is to fail with."""

    def __init__(self) -> None:
        self.kept: list[list[pb.AttemptReceipt]] = []
        self.fault: CountersignError | None = None
        self.asked: list[tuple[str, str]] = []

    def keep(self, turn: int, *kept: tuple[Any, pb.Receipt], units: int = 0, nanos: int = 7) -> None:
        attempts = []
        for number, (state, receipt) in enumerate(kept, start=1):
            accounted = Money(currency_code="USD", units=units, nanos=nanos)
            slot = pb.Slot(study_id="s", episode_id="e", turn=turn)
            call = pb.Call(call_id=call_id(turn), slot=slot, attempt=number, state=state, accounted=accounted)
            if units:
                call.reserved.CopyFrom(Money(currency_code="USD", units=units + 1, nanos=nanos))
            attempts.append(pb.AttemptReceipt(call=call, receipt=receipt))
        self.kept.append(attempts)

    async def ListReceipts(
        self, request: pb.ListReceiptsRequest, context: Any
    ) -> AsyncIterator[pb.ListReceiptsResponse]:
        self.asked.append((request.study_id, request.episode_id))
        for attempts in self.kept:
            yield pb.ListReceiptsResponse(attempts=attempts)
        if self.fault is not None:
            raise self.fault


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()  # type: ignore[abstract]


@pytest.fixture
async def evidence(ledger: Ledger) -> AsyncIterator[LedgerEvidence]:
    name = pb.DESCRIPTOR.services_by_name["LedgerService"].full_name
    spec = ServiceSpec("ledger", name, lambda server: stubs.add_LedgerServiceServicer_to_server(ledger, server))
    running = await start_server(spec, "127.0.0.1:0")
    async with open_channel(running.address) as channel:
        yield LedgerEvidence(channel)
    await running.stop(0)


def answered(turn: int, basis: Any = pb.COST_BASIS_PRICED_USAGE, amount: str = "0.5") -> pb.Receipt:
    return pb.Receipt(
        request=b"request %d" % turn,
        http_status=201,
        response=b"response",
        response_digest=b"d" * 32,
        cost=pb.Cost(basis=basis, amount_text=amount),
    )


async def test_every_turn_of_the_episode_is_read_with_one_question(ledger: Ledger, evidence: LedgerEvidence) -> None:
    for turn in (1, 2, 3):
        ledger.keep(turn, (pb.CALL_STATE_CHARGED, answered(turn)))
    stored = await evidence.of_episode("s", "e")
    assert [(call.turn, call.request) for call in stored] == [(turn, b"request %d" % turn) for turn in (1, 2, 3)]
    assert ledger.asked == [("s", "e")]


async def test_a_receipt_is_taken_as_it_was_stored(ledger: Ledger, evidence: LedgerEvidence) -> None:
    ledger.keep(1, (pb.CALL_STATE_CHARGED, answered(1)), units=2, nanos=3)
    assert await evidence.of_episode("s", "e") == [
        StoredCall(
            call_id=call_id(1),
            turn=1,
            attempt=1,
            state="CHARGED",
            request=b"request 1",
            accounted_nanos=2_000_000_003,
            response=b"response",
            http_status=201,
            cost_basis=CostBasis.PRICED_USAGE,
            cost_text="0.5",
            reserved_nanos=3_000_000_003,
        )
    ]


async def test_a_request_without_a_response_has_none_of_its_parts(ledger: Ledger, evidence: LedgerEvidence) -> None:
    ledger.keep(1, (pb.CALL_STATE_HELD, pb.Receipt(request=b"request")))
    (call,) = await evidence.of_episode("s", "e")
    assert (call.state, call.request) == ("HELD", b"request")
    assert (call.response, call.http_status, call.cost_basis, call.cost_text) == (None, None, None, None)


async def test_an_empty_response_is_one(ledger: Ledger, evidence: LedgerEvidence) -> None:
    receipt = pb.Receipt(request=b"request", http_status=200, response_digest=b"d" * 32)
    ledger.keep(1, (pb.CALL_STATE_HELD, receipt))
    (call,) = await evidence.of_episode("s", "e")
    assert (call.response, call.http_status, call.cost_basis) == (b"", 200, None)


async def test_a_cost_that_was_not_known_is_none(ledger: Ledger, evidence: LedgerEvidence) -> None:
    ledger.keep(1, (pb.CALL_STATE_HELD, answered(1, pb.COST_BASIS_UNSPECIFIED, "")))
    (call,) = await evidence.of_episode("s", "e")
    assert (call.response, call.cost_basis, call.cost_text) == (b"response", None, None)


@pytest.mark.parametrize("basis", list(CostBasis))
async def test_every_basis_of_a_cost_is_known(ledger: Ledger, evidence: LedgerEvidence, basis: CostBasis) -> None:
    ledger.keep(1, (pb.CALL_STATE_CHARGED, answered(1, pb.CostBasis.Value(f"COST_BASIS_{basis.value}"))))
    (call,) = await evidence.of_episode("s", "e")
    assert call.cost_basis is basis


async def test_every_attempt_of_a_turn_is_read(ledger: Ledger, evidence: LedgerEvidence) -> None:
    ledger.keep(
        1,
        (pb.CALL_STATE_RESOLVED, pb.Receipt(request=b"first")),
        (pb.CALL_STATE_CHARGED, answered(1)),
    )
    stored = await evidence.of_episode("s", "e")
    assert [(call.attempt, call.state, call.is_answered) for call in stored] == [
        (1, "RESOLVED", False),
        (2, "CHARGED", True),
    ]


async def test_an_episode_that_never_reserved_has_no_evidence(evidence: LedgerEvidence) -> None:
    assert await evidence.of_episode("s", "e") == []


async def test_a_ledger_that_fails_is_not_taken_for_one_that_knows_nothing(
    ledger: Ledger, evidence: LedgerEvidence
) -> None:
    ledger.keep(1, (pb.CALL_STATE_CHARGED, answered(1)))
    ledger.fault = StoreCorrupt("damaged")
    with pytest.raises(ServiceError) as caught:
        await evidence.of_episode("s", "e")
    assert caught.value.reason == "STORE_CORRUPT"
