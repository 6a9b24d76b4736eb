"""`Transact` over a real channel: it answers as unary calls do, and no broken stream loses or undoes anything."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from countersign.kit.channel import call, open_channel
from countersign.kit.rpc_errors import ServiceError
from countersign.kit.server import RunningServer, start_server
from countersign.ledger.v1 import ledger_pb2 as pb
from countersign.ledger.v1.ledger_pb2_grpc import LedgerServiceStub
from ledger_svc import limits, mutations
from ledger_svc.ledger import Ledger
from ledger_svc.service import LedgerServicer, service_spec
from ledger_svc.storage.sqlite import SqliteStore
from tests.ledger_svc import support
from tests.ledger_svc.support import OTHER_TOKEN, Clock, make_ledger
from tests.ledger_svc.test_service import grant, hold, open_account, open_study, receipt, reserve, resolve, usd
from tests.ledger_svc.test_writer import GatedStore

PRIOR_SPEND = pb.RecordPriorSpendRequest(
    request_id="prior", account_id="lab", amount=usd(4), recorded_by="Ann", reason="tests by hand"
)
EVERYTHING: list[tuple[str, Any]] = [
    ("open_account", open_account()),
    ("open_account", open_account()),
    ("grant_budget", grant()),
    ("record_prior_spend", PRIOR_SPEND),
    ("open_study", open_study(call_ceiling=usd(30))),
    ("reserve", reserve(amount=usd(31))),
    ("reserve", reserve(attempt_token=b"short")),
    ("reserve", pb.ReserveRequest()),
    ("reserve", reserve()),
    ("reserve", reserve()),
    ("reserve", reserve(request=b"another")),
    ("hold", hold()),
    ("hold", hold()),
    ("record_receipt", receipt()),
    ("resolve_hold", resolve(charged=usd(3), evidence=" ")),
    ("resolve_hold", resolve(open_new_attempt=True)),
    ("reserve", reserve(attempt_token=OTHER_TOKEN)),
    ("record_receipt", receipt(attempt_token=OTHER_TOKEN)),
    ("record_receipt", receipt(attempt_token=OTHER_TOKEN)),
    ("record_receipt", receipt(call_id=bytes(32))),
    ("reserve", reserve(attempt_token=b"a third token....")),
    ("open_account", pb.OpenAccountRequest()),
]
"""Every kind of mutation, replays, refusals and malformed ones, in an order that makes sense."""


@asynccontextmanager
async def serving(ledger: Ledger) -> AsyncIterator[tuple[RunningServer, Any]]:
    """A server and the stub of a channel to it."""
    draining = asyncio.Event()
    running = await start_server(service_spec(LedgerServicer(ledger, draining)), "127.0.0.1:0", draining)
    async with open_channel(running.address) as channel:
        yield running, LedgerServiceStub(channel)
    await running.stop(0)


@pytest.fixture
async def stub(ledger: Ledger) -> AsyncIterator[Any]:
    """The furnished ledger's methods."""
    async with serving(ledger) as (_, stub):
        yield stub


def message(*asked: tuple[str, Any], first: int = 1) -> pb.TransactRequest:
    """One message, its mutations numbered from `first`."""
    return pb.TransactRequest(
        mutations=[
            pb.Mutation(correlation_id=first + index, **{kind: request}) for index, (kind, request) in enumerate(asked)
        ]
    )


async def exchange(stub: Any, *messages: pb.TransactRequest) -> dict[int, pb.MutationReply]:
    """Send messages on one stream, end it, and give all replies by their number."""
    replies = [reply async for response in stub.Transact(iter(messages)) for reply in response.replies]
    assert len({reply.correlation_id for reply in replies}) == len(replies)
    return {reply.correlation_id: reply for reply in replies}


async def unary(stub: Any, kind: str, request: Any) -> pb.MutationReply:
    """The unary call's answer or refusal, in the form of a reply."""
    reply = pb.MutationReply()
    try:
        answer = await call(getattr(stub, mutations.BY_FIELD[kind].method), request, 10)
    except ServiceError as error:
        reply.refusal.code = error.status.value[0]
        reply.refusal.reason, reply.refusal.message = error.reason, error.message
        reply.refusal.metadata.update(error.metadata)
    else:
        getattr(reply, kind).CopyFrom(answer)
    return reply


async def replies_of(path: Path, *, streamed: bool, together: bool = True) -> list[pb.MutationReply]:
    """What a fresh ledger answers to everything, and that its journal verifies."""
    ledger = make_ledger(path, Clock())
    async with serving(ledger) as (_, stub):
        if not streamed:
            replies = [await unary(stub, *asked) for asked in EVERYTHING]
        elif together:
            replies = [reply for _, reply in sorted((await exchange(stub, message(*EVERYTHING))).items())]
        else:
            replies = [(await exchange(stub, message(asked)))[1] for asked in EVERYTHING]
    assert (await ledger.verify(None)).differences == []
    await ledger.close()
    for reply in replies:
        reply.correlation_id = 0
    return replies


def test_table_has_every_mutation_of_the_contract() -> None:
    fields = {field.name for field in pb.Mutation.DESCRIPTOR.oneofs_by_name["request"].fields}
    assert set(mutations.BY_FIELD) == fields
    assert {field.name for field in pb.MutationReply.DESCRIPTOR.oneofs_by_name["reply"].fields} == fields | {"refusal"}
    for name, mutation in mutations.BY_FIELD.items():
        assert pb.MutationReply.DESCRIPTOR.fields_by_name[name].message_type == mutation.response.DESCRIPTOR
        assert hasattr(LedgerServicer, mutation.method)


async def test_stream_answers_as_unary_calls_do(tmp_path: Path) -> None:
    expected = await replies_of(tmp_path / "unary.db", streamed=False)
    assert [reply.WhichOneof("reply") for reply in expected].count("refusal") == 8
    assert await replies_of(tmp_path / "together.db", streamed=True) == expected
    assert await replies_of(tmp_path / "apart.db", streamed=True, together=False) == expected


async def test_refused_mutation_costs_its_message_nothing(stub: Any, ledger: Ledger) -> None:
    replies = await exchange(
        stub,
        message(
            ("reserve", reserve(amount=usd(101))),
            ("reserve", reserve(slot=pb.Slot(study_id="study"))),
            ("reserve", reserve(amount=usd(60))),
            ("reserve", reserve(amount=usd(60), slot=pb.Slot(study_id="study", episode_id="other", turn=1))),
        ),
    )
    reasons = {number: reply.refusal.reason for number, reply in replies.items()}
    assert reasons == {1: "STUDY_CAP_EXCEEDED", 2: "INVALID_ARGUMENT", 3: "", 4: "TOO_MANY_IN_FLIGHT"}
    assert replies[3].reserve.admission.attempt == 1
    account = (await ledger.summarize("lab", None, 0, 10)).balances.account
    assert (account.totals.reserved.count, account.totals.reserved.nanos) == (1, 60)


async def test_mutation_without_a_request_is_refused(stub: Any) -> None:
    replies = await exchange(stub, pb.TransactRequest(mutations=[pb.Mutation(correlation_id=7)]))
    assert replies[7].refusal.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    assert (replies[7].refusal.reason, dict(replies[7].refusal.metadata)) == ("INVALID_ARGUMENT", {"field": "request"})


async def test_message_with_too_many_mutations_changes_nothing(stub: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_STREAM_BATCH", 1)
    replies = await exchange(stub, message(("reserve", reserve()), ("hold", hold())))
    assert [reply.refusal.metadata["field"] for reply in replies.values()] == ["mutations", "mutations"]
    assert not (await exchange(stub, message(("reserve", reserve()))))[1].reserve.admission.replayed


async def test_stored_receipts_come_in_messages_of_their_own(stub: Any) -> None:
    await exchange(stub, message(("reserve", reserve()), ("record_receipt", receipt())))
    asked = [("reserve", reserve(attempt_token=b"token of another %d" % number)) for number in range(3)]
    responses = [response async for response in stub.Transact(iter([message(*asked)]))]
    assert [len(response.replies) for response in responses] == [1, 1, 1]
    assert {response.replies[0].reserve.receipt.response for response in responses} == {b"response"}


@pytest.fixture
def gated(ledger: Ledger) -> GatedStore:
    """The furnished ledger's own store, holding back what comes next."""
    store = ledger._store
    assert isinstance(store, SqliteStore)
    store.__class__ = GatedStore
    assert isinstance(store, GatedStore)
    store.hold_back()
    return store


async def test_stream_cancelled_during_the_commit_undoes_nothing(stub: Any, gated: GatedStore) -> None:
    stream = stub.Transact()
    await stream.write(message(("reserve", reserve())))
    await gated.entered.wait()
    stream.cancel()
    gated.gate.set()
    again = await call(stub.Reserve, reserve(), 10)
    assert again.admission.replayed
    streamed = await exchange(stub, message(("reserve", reserve())))
    assert streamed[1].reserve.admission == again.admission


async def test_one_message_is_one_transaction_and_failing_it_refuses_all(
    stub: Any, gated: GatedStore, database: Path
) -> None:
    gated.gate.set()
    await exchange(stub, message(("reserve", reserve()), ("record_receipt", receipt())))
    assert gated.transactions_count == 1
    database.rename(database.with_name("elsewhere"))
    replies = await exchange(stub, message(("reserve", reserve()), ("hold", hold())))
    assert [(reply.refusal.code, reply.refusal.reason) for reply in replies.values()] == [
        (grpc.StatusCode.UNAVAILABLE.value[0], "STORE_UNAVAILABLE")
    ] * 2


async def test_unexpected_failure_is_a_refusal_without_text(
    stub: Any, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> object:
        raise RuntimeError("secret")

    monkeypatch.setattr(ledger._store, "transact", fail)
    refusal = (await exchange(stub, message(("reserve", reserve()))))[1].refusal
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.INTERNAL.value[0], "INTERNAL")
    assert "secret" not in str(refusal)


async def test_no_more_messages_are_taken_than_may_be_under_way(
    stub: Any, gated: GatedStore, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    submit_parts = ledger.submit_parts

    def counted(commands: Any) -> Any:
        taken.append(len(commands))
        if len(taken) == limits.MAX_STREAM_MESSAGES:
            full.set()
        return submit_parts(commands)

    full = asyncio.Event()
    monkeypatch.setattr(ledger, "submit_parts", counted)
    count = limits.MAX_STREAM_MESSAGES + 3
    sent = [
        message(("open_account", pb.OpenAccountRequest()), ("reserve", reserve()), first=10 * n) for n in range(count)
    ]
    asking = asyncio.create_task(exchange(stub, *sent))
    await full.wait()
    # A unary call that is made now is served: the others are in nobody's way.
    summary = await call(stub.Summarize, pb.SummarizeRequest(account_id="lab"), 10)
    assert (summary.balances.reserved_count, len(taken)) == (0, limits.MAX_STREAM_MESSAGES)
    gated.gate.set()
    assert len(await asking) == 2 * count
    assert len(taken) == count


async def test_draining_server_answers_what_it_took_and_ends_the_stream(ledger: Ledger, gated: GatedStore) -> None:
    async with serving(ledger) as (running, stub):
        stream = stub.Transact()
        await stream.write(message(("reserve", reserve())))
        await gated.entered.wait()
        stopping = asyncio.create_task(running.stop(30))
        await running.draining.wait()
        gated.gate.set()
        responses = [response async for response in stream]
        assert [reply.reserve.admission.attempt for response in responses for reply in response.replies] == [1]
        assert await stream.code() is grpc.StatusCode.OK
        await stopping


async def test_two_streams_and_unary_calls_share_one_budget(stub: Any, ledger: Ledger) -> None:
    await call(stub.OpenStudy, open_study(study_id="wide", request_id="wide", cap=usd(1000), max_in_flight=1000), 10)

    def batch(first: int) -> pb.TransactRequest:
        slots = [pb.Slot(study_id="wide", episode_id="e", turn=first + n) for n in range(8)]
        return message(*(("reserve", reserve(slot=slot, amount=usd(10))) for slot in slots))

    alone = [
        unary(stub, *("reserve", reserve(slot=pb.Slot(study_id="wide", episode_id="u", turn=1 + n)))) for n in range(8)
    ]
    *unaries, one, two = await asyncio.gather(*alone, exchange(stub, batch(1)), exchange(stub, batch(101)))
    replies = [*unaries, *one.values(), *two.values()]
    reasons = [reply.refusal.reason for reply in replies]
    assert (reasons.count(""), reasons.count("BUDGET_EXHAUSTED")) == (10, 14)
    assert (await ledger.verify(None)).differences == []
    account = (await ledger.summarize("lab", None, 0, 10)).balances.account
    assert (account.available_nanos, account.totals.reserved.count) == (0, 10)


async def test_copies_of_one_reservation_in_one_message_admit_once(stub: Any) -> None:
    replies = await exchange(stub, message(*[("reserve", reserve())] * 5))
    assert [replies[number].reserve.admission.replayed for number in range(1, 6)] == [False, True, True, True, True]
    assert support.slot().call_id() == replies[1].reserve.admission.call_id
