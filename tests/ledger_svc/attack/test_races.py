"""64 clients over real channels against budgets made a moment ago: exactly what fits is admitted, whoever is first."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from typing import Any

import grpc
import pytest

from countersign.kit.channel import CHANNEL_OPTIONS
from countersign.kit.server import start_server
from countersign.ledger.v1 import ledger_pb2 as pb
from countersign.ledger.v1.ledger_pb2_grpc import LedgerServiceStub
from ledger_svc.ledger import Ledger
from ledger_svc.service import LedgerServicer, service_spec
from tests.ledger_svc.attack import wire
from tests.ledger_svc.attack.rounds import seeds

CLIENTS = 64


@pytest.fixture
async def stubs(empty_ledger: Ledger) -> AsyncIterator[Sequence[Any]]:
    """A stub for each client, each with a connection of its own."""
    running = await start_server(service_spec(LedgerServicer(empty_ledger)), "127.0.0.1:0")
    async with AsyncExitStack() as channels:
        # Channels to one address share a connection unless told not to.
        options = [*CHANNEL_OPTIONS, ("grpc.use_local_subchannel_pool", 1)]
        opened = [grpc.aio.insecure_channel(running.address, options=options) for _ in range(CLIENTS)]
        yield [LedgerServiceStub(await channels.enter_async_context(channel)) for channel in opened]
    await running.stop(0)


async def all_at_once(stubs: Sequence[Any], requests: Sequence[Any]) -> list[str]:
    """What each client's request came to, all sent before any is answered."""
    return list(
        await asyncio.gather(*(wire.outcome(stub, request) for stub, request in zip(stubs, requests, strict=True)))
    )


async def in_order(stub: Any, requests: Sequence[Any]) -> None:
    """One request after the other."""
    for request in requests:
        await wire.ask(stub, request)


async def study_of(stub: Any, account_id: str) -> pb.Balances:
    """The balances of an account of one study, both the same, and both intact in the journal."""
    summary = await wire.ask(stub, pb.SummarizeRequest(account_id=account_id))
    assert summary.balances.reserved == summary.studies[0].balances.reserved
    verified = await wire.ask(stub, pb.VerifyJournalRequest(account_id=account_id))
    assert verified.intact
    return summary.balances


async def test_new_account_admits_exactly_what_its_budget_holds(stubs: Sequence[Any]) -> None:
    for seed in seeds(12):
        source, account = random.Random(seed), f"lab-{seed}"
        fitting, amount = source.randrange(0, CLIENTS + 1), source.randrange(1, 1_000)
        budget, cap = fitting * amount + source.randrange(0, amount), CLIENTS * amount
        if source.random() < 0.5:
            budget, cap = cap, budget
        await wire.ask(stubs[0], wire.open_account(account))
        if budget:
            await wire.ask(stubs[1], wire.grant(budget, f"grant-{seed}", account))
        await wire.ask(stubs[2], wire.open_study(cap, f"study-{seed}", account))
        requests = [
            wire.reserve(amount, wire.slot(turn + 1, f"study-{seed}"), wire.token(source)) for turn in range(CLIENTS)
        ]
        outcomes = Counter(await all_at_once(stubs, requests))
        refusal = "STUDY_CAP_EXCEEDED" if cap < budget else "BUDGET_EXHAUSTED"
        assert outcomes == +Counter({"admitted": fitting, refusal: CLIENTS - fitting}), f"seed {seed}"
        assert wire.nanos((await study_of(stubs[0], account)).reserved) == fitting * amount


async def test_opening_races_with_the_first_reservations(stubs: Sequence[Any]) -> None:
    """A reservation meets the account and the study in full or not at all, never without its budget counted."""
    for seed in seeds(6):
        source, account, study = random.Random(seed), f"lab-{seed}", f"study-{seed}"
        opening = [
            wire.open_account(account),
            wire.grant(50, f"grant-{seed}", account),
            wire.open_study(50, study, account),
        ]
        requests = [wire.reserve(10, wire.slot(turn, study), wire.token(source)) for turn in range(1, 62)]
        _, *outcomes = await asyncio.gather(
            in_order(stubs[-1], opening),
            *(wire.outcome(stub, request) for stub, request in zip(stubs, requests, strict=False)),
        )
        counted = Counter(outcomes)
        assert set(counted) <= {"admitted", "STUDY_CAP_EXCEEDED", "BUDGET_EXHAUSTED", "UNKNOWN_STUDY"}, f"seed {seed}"
        assert counted["admitted"] <= 5
        assert wire.nanos((await study_of(stubs[0], account)).reserved) == 10 * counted["admitted"]


async def test_mixed_amounts_fill_the_cap_to_the_last_nano_and_no_further(stubs: Sequence[Any]) -> None:
    """Any refused amount must not have fitted at the end; amounts that sum to the cap are all admitted."""
    for seed in seeds(12):
        source, account, study = random.Random(seed), f"lab-{seed}", f"study-{seed}"
        amounts = [source.randrange(1, 100) for _ in range(CLIENTS)]
        budget = sum(amounts) if source.random() < 0.5 else source.randrange(1, sum(amounts))
        await wire.ask(stubs[0], wire.open_account(account))
        await wire.ask(stubs[0], wire.grant(budget, f"grant-{seed}", account))
        await wire.ask(stubs[0], wire.open_study(budget + source.randrange(0, 2), study, account))
        requests = [
            wire.reserve(amount, wire.slot(turn, study), wire.token(source)) for turn, amount in enumerate(amounts, 1)
        ]
        outcomes = await all_at_once(stubs, requests)
        admitted = sum(amount for amount, came in zip(amounts, outcomes, strict=True) if came == "admitted")
        refused = [amount for amount, came in zip(amounts, outcomes, strict=True) if came != "admitted"]
        balances = await study_of(stubs[0], account)
        assert wire.nanos(balances.reserved) == admitted <= budget, f"seed {seed}"
        assert wire.nanos(balances.available) == budget - admitted
        assert all(amount > budget - admitted for amount in refused), f"seed {seed}"
        assert refused or budget == sum(amounts)


async def test_one_slot_admits_one_token_and_answers_it_alone(stubs: Sequence[Any]) -> None:
    """64 clients with tokens of their own, some twice: one token is admitted, its own copies again, the rest denied."""
    for seed in seeds(12):
        source, account, study = random.Random(seed), f"lab-{seed}", f"study-{seed}"
        tokens = [wire.token(source) for _ in range(source.choice([2, 8, CLIENTS]))]
        chosen = [source.choice(tokens) for _ in range(CLIENTS)]
        await wire.ask(stubs[0], wire.open_account(account))
        await wire.ask(stubs[0], wire.grant(10, f"grant-{seed}", account))
        await wire.ask(stubs[0], wire.open_study(10, study, account))
        outcomes = await all_at_once(stubs, [wire.reserve(10, wire.slot(1, study), token) for token in chosen])
        (winner,) = [token for token, came in zip(chosen, outcomes, strict=True) if came == "admitted"]
        for token, came in zip(chosen, outcomes, strict=True):
            assert came == "admitted" or came == ("again" if token == winner else "REPLAY_DENIED"), f"seed {seed}"
        assert (await study_of(stubs[0], account)).reserved_count == 1


async def test_receipt_and_hold_race_for_one_call(stubs: Sequence[Any]) -> None:
    """Whichever comes first decides; every copy of it is answered the same, every copy of the other is refused."""
    for seed in seeds(8):
        source, account, study = random.Random(seed), f"lab-{seed}", f"study-{seed}"
        await wire.ask(stubs[0], wire.open_account(account))
        await wire.ask(stubs[0], wire.grant(10, f"grant-{seed}", account))
        await wire.ask(stubs[0], wire.open_study(10, study, account))
        token = wire.token(source)
        admission = (await wire.ask(stubs[0], wire.reserve(10, wire.slot(1, study), token))).admission
        choices = [wire.receipt(admission.call_id, token, 7, b"response"), wire.hold(admission.call_id, token)]
        sent = [source.choice(choices) for _ in range(CLIENTS)]
        replies = await asyncio.gather(
            *(wire.ask(stub, request) for stub, request in zip(stubs, sent, strict=True)), return_exceptions=True
        )
        done = [reply for reply in replies if not isinstance(reply, BaseException)]
        assert sum(not reply.replayed for reply in done) == 1, f"seed {seed}"
        assert len({reply.call.SerializeToString(deterministic=True) for reply in done}) == 1
        state = done[0].call.state
        winner = pb.RecordReceiptRequest if state == pb.CALL_STATE_CHARGED else pb.HoldRequest
        assert len(done) == sum(isinstance(request, winner) for request in sent)
        reasons = {reply.reason for reply in replies if isinstance(reply, BaseException)}
        assert reasons <= {"ALREADY_CHARGED" if state == pb.CALL_STATE_CHARGED else "ALREADY_HELD"}
        summary = await wire.ask(stubs[0], pb.SummarizeRequest(account_id=account))
        accounted = 7 if state == pb.CALL_STATE_CHARGED else 10
        assert wire.nanos(summary.balances.available) == 10 - accounted
