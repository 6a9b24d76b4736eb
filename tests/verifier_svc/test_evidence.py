"""Evidence out of a ledger over gRPC: every attempt of every turn, as stored."""

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


class UnknownCall(CountersignError):
    """No such slot."""

    reason = "UNKNOWN_CALL"
    status = grpc.StatusCode.NOT_FOUND


class StoreCorrupt(CountersignError):
    """The store is damaged."""

    reason = "STORE_CORRUPT"
    status = grpc.StatusCode.DATA_LOSS


def call_id(turn: int) -> bytes:
    return bytes([turn]) * 32


class Ledger(stubs.LedgerServiceServicer):
    """Knows `attempts` by turn and `receipts` by turn and attempt; an error among them is raised."""

    def __init__(self) -> None:
        self.attempts: dict[int, list[pb.Call] | CountersignError] = {}
        self.receipts: dict[tuple[bytes, int], pb.Receipt] = {}
        self.slots: list[pb.Slot] = []

    def keep(self, turn: int, *kept: tuple[Any, pb.Receipt], units: int = 0, nanos: int = 7) -> None:
        calls = []
        for number, (state, receipt) in enumerate(kept, start=1):
            accounted = Money(currency_code="USD", units=units, nanos=nanos)
            slot = pb.Slot(study_id="s", episode_id="e", turn=turn)
            call = pb.Call(call_id=call_id(turn), slot=slot, attempt=number, state=state, accounted=accounted)
            if units:
                call.reserved.CopyFrom(Money(currency_code="USD", units=units + 1, nanos=nanos))
            calls.append(call)
            self.receipts[call_id(turn), number] = receipt
        self.attempts[turn] = calls

    async def GetCall(self, request: pb.GetCallRequest, context: Any) -> pb.GetCallResponse:
        self.slots.append(request.slot)
        known = self.attempts.get(request.slot.turn, UnknownCall("no such call"))
        if isinstance(known, CountersignError):
            raise known
        return pb.GetCallResponse(attempts=known)

    async def GetReceipt(self, request: pb.GetReceiptRequest, context: Any) -> pb.GetReceiptResponse:
        return pb.GetReceiptResponse(receipt=self.receipts[request.call_id, request.attempt])


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


async def test_turns_are_read_until_the_ledger_knows_no_more(ledger: Ledger, evidence: LedgerEvidence) -> None:
    for turn in (1, 2, 4):
        ledger.keep(turn, (pb.CALL_STATE_CHARGED, answered(turn)))
    stored = await evidence.of_episode("s", "e")
    assert [call.turn for call in stored] == [1, 2]
    assert [(slot.study_id, slot.episode_id, slot.turn) for slot in ledger.slots] == [
        ("s", "e", 1),
        ("s", "e", 2),
        ("s", "e", 3),
    ]


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
    ledger.attempts[2] = StoreCorrupt("damaged")
    with pytest.raises(ServiceError) as caught:
        await evidence.of_episode("s", "e")
    assert caught.value.reason == "STORE_CORRUPT"
