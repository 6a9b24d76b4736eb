"""`LedgerService` over a real channel: the mapping, the refusals' reasons, and every RPC once."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.type import money_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc

from countersign.kit.canonical import sha256
from countersign.kit.channel import call, open_channel
from countersign.kit.rpc_errors import ServiceError, from_rpc_error
from countersign.kit.server import RunningServer, start_server
from countersign.ledger.v1 import ledger_pb2 as pb
from countersign.ledger.v1.ledger_pb2_grpc import LedgerServiceStub
from ledger_svc import limits
from ledger_svc.ledger import Ledger
from ledger_svc.service import MUTATIONS, LedgerServicer, service_spec
from tests.ledger_svc import support
from tests.ledger_svc.support import LEASE, MANIFEST, OTHER_TOKEN, START, TOKEN, Clock

SLOT = pb.Slot(study_id="study", episode_id="episode", turn=1)
CALL_ID = support.slot().call_id()
REPORTED = pb.COST_BASIS_PROVIDER_REPORTED


@pytest.fixture
async def server(empty_ledger: Ledger) -> AsyncIterator[RunningServer]:
    """A server on a port of its own."""
    running = await start_server(service_spec(LedgerServicer(empty_ledger)), "127.0.0.1:0")
    yield running
    await running.stop(0)


@pytest.fixture
async def channel(server: RunningServer) -> AsyncIterator[grpc.aio.Channel]:
    """A channel to it."""
    async with open_channel(server.address) as channel:
        yield channel


@pytest.fixture
async def stub(channel: grpc.aio.Channel) -> Any:
    """The service's methods, with an account, a budget of 100 and a study."""
    stub = LedgerServiceStub(channel)
    await ask(stub.OpenAccount, open_account())
    await ask(stub.GrantBudget, grant())
    await ask(stub.OpenStudy, open_study())
    return stub


async def ask(method: Any, request: Any) -> Any:
    return await call(method, request, 10)


async def refusal(method: Any, request: Any) -> ServiceError:
    with pytest.raises(ServiceError) as refused:
        await ask(method, request)
    return refused.value


def usd(nanos: int) -> money_pb2.Money:
    return money_pb2.Money(currency_code="USD", nanos=nanos)


def open_account() -> pb.OpenAccountRequest:
    return pb.OpenAccountRequest(request_id="open", account_id="lab", currency_code="USD", opened_by="Ann")


def grant() -> pb.GrantBudgetRequest:
    return pb.GrantBudgetRequest(
        request_id="grant", account_id="lab", amount=usd(100), granted_by="Ann", reason="the pilot"
    )


def open_study(**changes: Any) -> pb.OpenStudyRequest:
    values: dict[str, Any] = {
        "request_id": "study",
        "account_id": "lab",
        "study_id": "study",
        "cap": usd(80),
        "manifest_digest": MANIFEST,
        "opened_by": "Ann",
        **changes,
    }
    return pb.OpenStudyRequest(**values)


def reserve(**changes: Any) -> pb.ReserveRequest:
    values: dict[str, Any] = {
        "slot": SLOT,
        "attempt_token": TOKEN,
        "amount": usd(10),
        "basis": pb.AMOUNT_BASIS_PRICED_BOUND,
        "price_table_digest": MANIFEST,
        "request": b"request",
        "lease": Duration(seconds=60),
        **changes,
    }
    return pb.ReserveRequest(**values)


def receipt(**changes: Any) -> pb.RecordReceiptRequest:
    values: dict[str, Any] = {
        "call_id": CALL_ID,
        "attempt_token": TOKEN,
        "http_status": 200,
        "response": b"response",
        "cost": pb.Cost(basis=REPORTED, amount_text="7e-9"),
        **changes,
    }
    return pb.RecordReceiptRequest(**values)


def hold() -> pb.HoldRequest:
    return pb.HoldRequest(
        call_id=CALL_ID,
        attempt_token=TOKEN,
        category=pb.HOLD_CATEGORY_HTTP_STATUS,
        progress=pb.REQUEST_PROGRESS_RESPONSE_STARTED,
        http_status=502,
    )


def resolve(**changes: Any) -> pb.ResolveHoldRequest:
    values: dict[str, Any] = {
        "request_id": "resolve",
        "call_id": CALL_ID,
        "attempt": 1,
        "charged": usd(3),
        "evidence": "invoice 12",
        "resolved_by": "Ann",
        **changes,
    }
    return pb.ResolveHoldRequest(**values)


def heads(*expected: pb.JournalHead) -> pb.VerifyJournalRequest:
    return pb.VerifyJournalRequest(account_id="lab", expected_heads=expected)


async def test_accounts_grants_and_prior_spend(stub: Any) -> None:
    assert await ask(stub.OpenAccount, open_account()) == pb.OpenAccountResponse(replayed=True)
    assert await ask(stub.GrantBudget, grant()) == pb.GrantBudgetResponse(replayed=True, granted_total=usd(100))
    prior = pb.RecordPriorSpendRequest(
        request_id="prior", account_id="lab", amount=usd(4), recorded_by="Ann", reason="tests by hand"
    )
    expected = pb.RecordPriorSpendResponse(prior_spend_total=usd(4))
    assert await ask(stub.RecordPriorSpend, prior) == expected
    assert await ask(stub.OpenStudy, open_study()) == pb.OpenStudyResponse(replayed=True)


async def test_admission_receipt_and_replay(stub: Any) -> None:
    admission = (await ask(stub.Reserve, reserve())).admission
    assert (admission.call_id, admission.attempt, admission.replayed) == (CALL_ID, 1, False)
    assert admission.lease_expires_at.ToMicroseconds() == START + LEASE
    assert (await ask(stub.Reserve, reserve())).admission.replayed
    recorded = await ask(stub.RecordReceipt, receipt())
    assert not recorded.replayed
    assert recorded.call.state == pb.CALL_STATE_CHARGED
    assert recorded.call.accounted == usd(7)
    assert (await ask(stub.RecordReceipt, receipt())).replayed
    answer = await ask(stub.Reserve, reserve(attempt_token=OTHER_TOKEN))
    assert answer.WhichOneof("answer") == "receipt"
    stored = await ask(stub.GetReceipt, pb.GetReceiptRequest(call_id=CALL_ID))
    assert stored.receipt == answer.receipt
    assert (stored.receipt.request, stored.receipt.response) == (b"request", b"response")
    assert (stored.receipt.http_status, stored.receipt.late) == (200, False)
    assert stored.receipt.cost == pb.Cost(basis=REPORTED, amount_text="7e-9")
    assert stored.receipt.received_at.ToMicroseconds() == START


async def test_call_is_given_by_id_and_by_slot_with_all_that_is_known(stub: Any) -> None:
    await ask(stub.Reserve, reserve())
    by_slot = (await ask(stub.GetCall, pb.GetCallRequest(slot=SLOT))).attempts
    by_id = (await ask(stub.GetCall, pb.GetCallRequest(call_id=CALL_ID))).attempts
    assert list(by_slot) == list(by_id)
    (found,) = by_id
    assert (found.call_id, found.slot, found.attempt) == (CALL_ID, SLOT, 1)
    assert (found.reserved, found.accounted) == (usd(10), usd(10))
    assert (found.basis, found.price_table_digest) == (pb.AMOUNT_BASIS_PRICED_BOUND, MANIFEST)
    assert (found.state, found.hold_category) == (pb.CALL_STATE_RESERVED, pb.HOLD_CATEGORY_UNSPECIFIED)
    assert [name for name in ("cost", "http_status", "resolution") if found.HasField(name)] == []
    assert found.response_digest == b""


async def test_hold_and_resolution(stub: Any) -> None:
    await ask(stub.Reserve, reserve())
    held = (await ask(stub.Hold, hold())).call
    assert (held.state, held.hold_category) == (pb.CALL_STATE_HELD, pb.HOLD_CATEGORY_HTTP_STATUS)
    assert (held.progress, held.http_status) == (pb.REQUEST_PROGRESS_RESPONSE_STARTED, 502)
    assert (await ask(stub.Hold, hold())).replayed
    resolved = await ask(stub.ResolveHold, resolve(open_new_attempt=True))
    assert resolved.call.state == pb.CALL_STATE_RESOLVED
    assert resolved.call.resolution == pb.Resolution(
        charged=usd(3), evidence="invoice 12", resolved_by="Ann", opened_new_attempt=True
    )
    assert (await ask(stub.ResolveHold, resolve(open_new_attempt=True))).replayed
    assert (await ask(stub.Reserve, reserve(attempt_token=OTHER_TOKEN))).admission.attempt == 2


async def test_never_sent_charges_nothing(stub: Any) -> None:
    await ask(stub.Reserve, reserve())
    await ask(stub.Hold, hold())
    resolved = (await ask(stub.ResolveHold, resolve(charged=None, never_sent=pb.NeverSent()))).call
    assert not resolved.resolution.HasField("charged")
    assert resolved.accounted == usd(0)


async def test_absent_cost_is_unknown_and_not_zero(stub: Any) -> None:
    await ask(stub.Reserve, reserve())
    held = (await ask(stub.RecordReceipt, receipt(cost=None))).call
    assert (held.state, held.hold_category) == (pb.CALL_STATE_HELD, pb.HOLD_CATEGORY_COST_UNRESOLVED)
    assert held.accounted == usd(10)


async def test_calls_are_listed_in_pages(stub: Any) -> None:
    wide = open_study(request_id="wide", study_id="wide", max_in_flight=3, call_ceiling=usd(10))
    await ask(stub.OpenStudy, wide)
    for turn in (1, 2, 3):
        await ask(stub.Reserve, reserve(slot=pb.Slot(study_id="wide", episode_id="e", turn=turn)))
    first = await ask(stub.ListCalls, pb.ListCallsRequest(study_id="wide", page_size=2))
    assert [found.slot.turn for found in first.calls] == [1, 2]
    following = pb.ListCallsRequest(study_id="wide", page_size=2, page_token=first.next_page_token)
    second = await ask(stub.ListCalls, following)
    assert ([found.slot.turn for found in second.calls], second.next_page_token) == ([3], "")
    held = pb.ListCallsRequest(study_id="wide", states=[pb.CALL_STATE_HELD])
    assert await ask(stub.ListCalls, held) == pb.ListCallsResponse()


async def test_page_that_would_grow_too_large_ends_early(stub: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_PAGE_BYTES", 1)
    await ask(stub.OpenStudy, open_study(request_id="wide", study_id="wide", max_in_flight=3))
    for turn in (1, 2):
        await ask(stub.Reserve, reserve(slot=pb.Slot(study_id="wide", episode_id="e", turn=turn)))
    first = await ask(stub.ListCalls, pb.ListCallsRequest(study_id="wide"))
    assert [found.slot.turn for found in first.calls] == [1]
    second = await ask(stub.ListCalls, pb.ListCallsRequest(study_id="wide", page_token=first.next_page_token))
    assert ([found.slot.turn for found in second.calls], second.next_page_token) == ([2], "")


async def test_summary_and_verification(stub: Any) -> None:
    await ask(stub.Reserve, reserve())
    await ask(stub.Hold, hold())
    summary = await ask(stub.Summarize, pb.SummarizeRequest(account_id="lab"))
    assert summary.account_id == "lab"
    assert summary.balances == pb.Balances(
        granted=usd(100),
        prior_spend=usd(0),
        charged=usd(0),
        reserved=usd(0),
        held=usd(10),
        resolved=usd(0),
        available=usd(90),
        held_count=1,
    )
    (study,) = summary.studies
    assert (study.study_id, study.blocked, study.max_in_flight) == ("study", True, 1)
    assert (study.call_ceiling, study.manifest_digest) == (usd(80), MANIFEST)
    assert (study.balances.granted, study.balances.available) == (usd(80), usd(70))
    for asked in (pb.VerifyJournalRequest(), pb.VerifyJournalRequest(account_id="lab")):
        found = await ask(stub.VerifyJournal, asked)
        (head,) = found.heads
        assert (head.account_id, head.sequence, len(head.chain_digest)) == ("lab", 5, 32)
        assert found == pb.VerifyJournalResponse(intact=True, entries_count=5, accounts_count=1, heads=[head])


async def test_noted_head_must_still_be_in_the_journal(stub: Any) -> None:
    (head,) = (await ask(stub.VerifyJournal, pb.VerifyJournalRequest())).heads
    await ask(stub.Reserve, reserve())
    assert (await ask(stub.VerifyJournal, heads(head))).intact
    head.chain_digest = bytes(32)
    found = await ask(stub.VerifyJournal, heads(head))
    assert not found.intact
    assert list(found.differences) == [pb.JournalDifference(account_id="lab", sequence=3, what="expected_head")]


async def test_journal_is_exported_in_order_with_its_digests(stub: Any) -> None:
    await ask(stub.Reserve, reserve())
    (message,) = [each async for each in stub.ExportJournal(pb.ExportJournalRequest(account_id="lab"))]
    assert [(entry.sequence, entry.kind) for entry in message.entries] == [
        (1, "ACCOUNT_OPENED"),
        (2, "BUDGET_GRANTED"),
        (3, "STUDY_OPENED"),
        (4, "CALL_RESERVED"),
    ]
    chain = bytes(32)
    for entry in message.entries:
        assert entry.account_id == "lab"
        assert entry.body_digest == sha256(entry.body)
        assert entry.written_at.ToMicroseconds() == START
        assert entry.previous_chain_digest == chain
        chain = entry.chain_digest
    (head,) = (await ask(stub.VerifyJournal, pb.VerifyJournalRequest())).heads
    assert head.chain_digest == chain
    (rest,) = [each async for each in stub.ExportJournal(pb.ExportJournalRequest(account_id="lab", from_sequence=3))]
    assert list(rest.entries) == list(message.entries)[2:]
    past = pb.ExportJournalRequest(account_id="lab", from_sequence=5)
    assert [each async for each in stub.ExportJournal(past)] == []


async def test_export_comes_in_messages_of_bounded_count_and_size(stub: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def exported() -> list[list[int]]:
        messages = [each async for each in stub.ExportJournal(pb.ExportJournalRequest(account_id="lab"))]
        return [[entry.sequence for entry in each.entries] for each in messages]

    monkeypatch.setattr(limits, "MAX_PAGE_SIZE", 2)
    assert await exported() == [[1, 2], [3]]
    monkeypatch.setattr(limits, "MAX_PAGE_BYTES", 1)
    assert await exported() == [[1], [2], [3]]


async def test_export_of_an_unknown_account_or_entry_is_refused(stub: Any) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        _ = [each async for each in stub.ExportJournal(pb.ExportJournalRequest(account_id="nowhere"))]
    error = from_rpc_error(refused.value)
    assert (error.status, error.reason) == (grpc.StatusCode.NOT_FOUND, "UNKNOWN_ACCOUNT")
    beyond = pb.ExportJournalRequest(account_id="lab", from_sequence=2**63)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        _ = [each async for each in stub.ExportJournal(beyond)]
    assert from_rpc_error(refused.value).metadata == {"field": "from_sequence"}


async def test_calls_of_an_account_are_listed_in_pages(stub: Any) -> None:
    await ask(stub.OpenStudy, open_study(request_id="wide", study_id="wide"))
    await ask(stub.Reserve, reserve(slot=pb.Slot(study_id="wide", episode_id="e", turn=1)))
    await ask(stub.Reserve, reserve())
    first = await ask(stub.ListCalls, pb.ListCallsRequest(account_id="lab", page_size=1))
    assert [found.slot.study_id for found in first.calls] == ["wide"]
    following = pb.ListCallsRequest(account_id="lab", page_size=1, page_token=first.next_page_token)
    second = await ask(stub.ListCalls, following)
    assert ([found.slot.study_id for found in second.calls], second.next_page_token) == (["study"], "")
    held = pb.ListCallsRequest(account_id="lab", states=[pb.CALL_STATE_HELD])
    assert await ask(stub.ListCalls, held) == pb.ListCallsResponse()
    error = await refusal(stub.ListCalls, pb.ListCallsRequest(account_id="nowhere"))
    assert error.reason == "UNKNOWN_ACCOUNT"


async def test_accounts_are_listed_in_pages_in_the_order_of_their_ids(stub: Any) -> None:
    for account_id in ("é", "z", "Lab"):
        request_id = f"open-{account_id}"
        opening = pb.OpenAccountRequest(
            request_id=request_id, account_id=account_id, currency_code="EUR", opened_by="Ann"
        )
        await ask(stub.OpenAccount, opening)
    await ask(stub.Reserve, reserve())
    first = await ask(stub.ListAccounts, pb.ListAccountsRequest(page_size=2))
    assert [each.account_id for each in first.accounts] == ["Lab", "lab"]
    assert first.accounts[1].balances == (await ask(stub.Summarize, pb.SummarizeRequest(account_id="lab"))).balances
    assert first.accounts[1].balances.reserved_count == 1
    following = pb.ListAccountsRequest(page_size=2, page_token=first.next_page_token)
    second = await ask(stub.ListAccounts, following)
    assert ([each.account_id for each in second.accounts], second.next_page_token) == (["z", "é"], "")
    beyond = await ask(stub.ListAccounts, pb.ListAccountsRequest(page_token="é"))
    assert beyond == pb.ListAccountsResponse()


async def test_study_is_summarized_without_its_account(stub: Any) -> None:
    named = await ask(stub.Summarize, pb.SummarizeRequest(account_id="lab", study_id="study"))
    assert await ask(stub.Summarize, pb.SummarizeRequest(study_id="study")) == named
    error = await refusal(stub.Summarize, pb.SummarizeRequest(study_id="nowhere"))
    assert error.reason == "UNKNOWN_STUDY"


async def test_studies_are_summarized_in_pages(stub: Any) -> None:
    await ask(stub.OpenStudy, open_study(request_id="b", study_id="b"))
    first = await ask(stub.Summarize, pb.SummarizeRequest(account_id="lab", page_size=1))
    assert [study.study_id for study in first.studies] == ["study"]
    following = pb.SummarizeRequest(account_id="lab", page_size=1, page_token=first.next_page_token)
    second = await ask(stub.Summarize, following)
    assert ([study.study_id for study in second.studies], second.next_page_token) == (["b"], "")
    one = await ask(stub.Summarize, pb.SummarizeRequest(account_id="lab", study_id="b"))
    assert [study.study_id for study in one.studies] == ["b"]


@pytest.mark.parametrize(
    ("method", "request_", "field"),
    [
        ("OpenAccount", pb.OpenAccountRequest(), "request_id"),
        ("GrantBudget", pb.GrantBudgetRequest(request_id="x", account_id="lab"), "amount"),
        ("OpenStudy", pb.OpenStudyRequest(request_id="x", account_id="lab", study_id="x"), "cap"),
        ("OpenStudy", open_study(request_id="x", study_id="x", max_in_flight=0), "max_in_flight"),
        ("Reserve", reserve(slot=None), "slot.study_id"),
        ("Reserve", reserve(amount=None), "amount"),
        ("Reserve", reserve(basis=pb.AMOUNT_BASIS_UNSPECIFIED), "basis"),
        ("Reserve", reserve(basis=99), "basis"),
        ("Reserve", reserve(lease=None), "lease_micros"),
        ("Reserve", reserve(lease=Duration(nanos=999_999_999)), "lease_micros"),
        ("RecordReceipt", receipt(http_status=500), "http_status"),
        ("RecordReceipt", receipt(cost=pb.Cost.FromString(b"\x08\x63")), "cost.basis"),
        ("Hold", pb.HoldRequest(call_id=CALL_ID, attempt_token=TOKEN), "category"),
        ("ResolveHold", resolve(charged=None), "disposition"),
        ("GetCall", pb.GetCallRequest(), "key"),
        ("GetCall", pb.GetCallRequest(call_id=b"short"), "call_id"),
        ("GetReceipt", pb.GetReceiptRequest(call_id=b"short"), "call_id"),
        ("ListCalls", pb.ListCallsRequest(study_id="study", page_size=1001), "page_size"),
        ("ListAccounts", pb.ListAccountsRequest(page_size=1001), "page_size"),
        ("ListAccounts", pb.ListAccountsRequest(page_token="a\0b"), "page_token"),
        ("ListCalls", pb.ListCallsRequest(study_id="study", page_token="next"), "page_token"),
        ("ListCalls", pb.ListCallsRequest(study_id="study", states=[pb.CALL_STATE_UNSPECIFIED]), "states"),
        ("ListCalls", pb.ListCallsRequest(study_id="study", account_id="lab"), "account_id"),
        ("Summarize", pb.SummarizeRequest(account_id="lab", page_token="-1"), "page_token"),
        ("VerifyJournal", heads(pb.JournalHead(sequence=1, chain_digest=MANIFEST)), "expected_heads.account_id"),
        (
            "VerifyJournal",
            heads(pb.JournalHead(account_id="other", sequence=1, chain_digest=MANIFEST)),
            "expected_heads.account_id",
        ),
        ("VerifyJournal", heads(pb.JournalHead(account_id="lab", sequence=1)), "expected_heads.chain_digest"),
        ("VerifyJournal", heads(pb.JournalHead(account_id="lab", chain_digest=b"x")), "expected_heads.chain_digest"),
    ],
)
async def test_malformed_request_names_its_field(stub: Any, method: str, request_: Any, field: str) -> None:
    error = await refusal(getattr(stub, method), request_)
    assert (error.status, error.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_ARGUMENT")
    assert error.metadata == {"field": field}


@pytest.mark.parametrize(
    "amount",
    [
        money_pb2.Money(currency_code="USD", units=1, nanos=-1),
        money_pb2.Money(currency_code="USD", nanos=1_000_000_000),
        money_pb2.Money(currency_code="USD", units=10_000_000_000),
        money_pb2.Money(units=1),
        usd(-5),
        usd(0),
    ],
)
async def test_amount_that_is_none_is_refused(stub: Any, amount: money_pb2.Money) -> None:
    error = await refusal(stub.Reserve, reserve(amount=amount))
    assert (error.status, error.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_AMOUNT")
    assert error.metadata == {"field": "amount"}


async def test_refusals_carry_reason_status_and_numbers(stub: Any) -> None:
    error = await refusal(stub.Reserve, reserve(amount=usd(81)))
    assert (error.status, error.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "STUDY_CAP_EXCEEDED")
    assert error.metadata == {"available_nanos": "80", "requested_nanos": "81"}
    await ask(stub.Reserve, reserve())
    error = await refusal(stub.Reserve, reserve(attempt_token=OTHER_TOKEN))
    assert (error.status, error.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "REPLAY_DENIED")
    assert error.metadata == {"call_id": CALL_ID.hex(), "state": "RESERVED"}
    error = await refusal(stub.GetReceipt, pb.GetReceiptRequest(call_id=CALL_ID, attempt=0))
    assert (error.status, error.reason) == (grpc.StatusCode.NOT_FOUND, "UNKNOWN_RECEIPT")
    named = (await ask(stub.GetReceipt, pb.GetReceiptRequest(call_id=CALL_ID, attempt=1))).receipt
    assert (named.request, named.response, named.response_digest) == (reserve().request, b"", b"")
    assert not named.HasField("cost")


async def receipts_of(stub: Any, study_id: str = "study", episode_id: str = "episode") -> list[list[Any]]:
    asked = pb.ListReceiptsRequest(study_id=study_id, episode_id=episode_id)
    return [list(message.attempts) async for message in stub.ListReceipts(asked, timeout=10)]


def slot(turn: int, episode_id: str = "episode") -> pb.Slot:
    return pb.Slot(study_id="study", episode_id=episode_id, turn=turn)


async def test_an_episodes_receipts_come_turn_by_turn_with_every_attempt(stub: Any) -> None:
    await ask(stub.OpenStudy, open_study(request_id="wide", study_id="wide", max_in_flight=9))
    assert await receipts_of(stub) == []
    await ask(stub.Reserve, reserve())
    await ask(stub.Hold, hold())
    await ask(stub.ResolveHold, resolve(charged=None, never_sent=pb.NeverSent(), open_new_attempt=True))
    await ask(stub.Reserve, reserve(attempt_token=OTHER_TOKEN))
    await ask(stub.RecordReceipt, receipt(attempt_token=OTHER_TOKEN))
    for turn in (2, 4):
        await ask(stub.Reserve, reserve(slot=slot(turn), request=b"turn %d" % turn))
        call_id = support.slot(turn=turn).call_id()
        await ask(stub.RecordReceipt, receipt(call_id=call_id, response=b"answer %d" % turn))
    await ask(stub.Reserve, reserve(slot=slot(1, "another")))
    (attempts,) = await receipts_of(stub)
    assert [(one.call.slot.turn, one.call.attempt, one.receipt.request, one.receipt.response) for one in attempts] == [
        (1, 1, b"request", b""),
        (1, 2, b"request", b"response"),
        (2, 1, b"turn 2", b"answer 2"),
    ]
    for one in attempts:
        assert one.call in (await ask(stub.GetCall, pb.GetCallRequest(slot=one.call.slot))).attempts
        named = pb.GetReceiptRequest(call_id=one.call.call_id, attempt=one.call.attempt)
        assert one.receipt == (await ask(stub.GetReceipt, named)).receipt
    assert await receipts_of(stub, "wide") == await receipts_of(stub, "nothing") == []
    for study_id, episode_id, wrong in (("", "episode", "study_id"), ("study", "", "episode_id")):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await receipts_of(stub, study_id, episode_id)
        assert from_rpc_error(refused.value).metadata["field"] == wrong


async def test_receipts_come_in_messages_of_bounded_size_whatever_the_turns(
    stub: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for turn in range(1, 8):
        await ask(stub.Reserve, reserve(slot=slot(turn), request=bytes(1_000)))
        call_id = support.slot(turn=turn).call_id()
        await ask(stub.RecordReceipt, receipt(call_id=call_id, response=bytes(1_000 * turn)))
    for slots, most in ((32, 8 * 2**20), (2, 8 * 2**20), (3, 5_000), (7, 5_000), (8, 1), (2, 1)):
        monkeypatch.setattr(limits, "MAX_PAGE_SLOTS", slots)
        monkeypatch.setattr(limits, "MAX_PAGE_BYTES", most)
        messages = await receipts_of(stub)
        assert [one.call.slot.turn for message in messages for one in message] == [1, 2, 3, 4, 5, 6, 7]
        for message in messages:
            assert len(message) == 1 or sum(one.ByteSize() for one in message) <= most


async def test_a_changed_payload_is_no_receipt(stub: Any, database: Path) -> None:
    await ask(stub.Reserve, reserve())
    await ask(stub.RecordReceipt, receipt())
    with closing(sqlite3.connect(database)) as db, db:
        db.execute("UPDATE payloads SET body = x'00' WHERE body = CAST('response' AS BLOB)")
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await receipts_of(stub)
    assert from_rpc_error(refused.value).reason == "STORE_CORRUPT"


async def test_every_mutation_needs_a_deadline_and_no_read_does(stub: Any) -> None:
    for name in sorted(MUTATIONS):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await getattr(stub, name)(getattr(pb, f"{name}Request")())
        assert "deadline" in (refused.value.details() or "")
    assert (await stub.VerifyJournal(pb.VerifyJournalRequest())).intact


async def test_largest_payloads_pass_and_larger_are_refused(stub: Any) -> None:
    largest = bytes(limits.MAX_PAYLOAD_BYTES)
    await ask(stub.Reserve, reserve(request=largest))
    error = await refusal(stub.RecordReceipt, receipt(response=largest + b"x"))
    assert (error.status, error.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "SIZE_LIMIT_EXCEEDED")
    await ask(stub.RecordReceipt, receipt(response=largest))
    stored = (await ask(stub.GetReceipt, pb.GetReceiptRequest(call_id=CALL_ID))).receipt
    assert (len(stored.request), len(stored.response)) == (len(largest), len(largest))


async def test_failed_store_is_unavailable_and_admits_nothing(
    stub: Any, empty_ledger: Ledger, database: Path, clock: Clock
) -> None:
    database.rename(database.with_name("elsewhere"))
    error = await refusal(stub.Reserve, reserve())
    assert (error.status, error.reason) == (grpc.StatusCode.UNAVAILABLE, "STORE_UNAVAILABLE")
    assert error.metadata == {"problem": "moved"}
    assert not support.is_healthy(empty_ledger)
    database.with_name("elsewhere").rename(database)
    await empty_ledger.tend()
    assert support.is_healthy(empty_ledger)
    assert (await ask(stub.Summarize, pb.SummarizeRequest(account_id="lab"))).balances.reserved_count == 0


async def test_server_reports_its_health(channel: grpc.aio.Channel) -> None:
    health = health_pb2_grpc.HealthStub(channel)
    request = health_pb2.HealthCheckRequest(service="countersign.ledger.v1.LedgerService")
    assert (await health.Check(request)).status == health_pb2.HealthCheckResponse.SERVING
