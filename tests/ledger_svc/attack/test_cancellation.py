"""Clients that go away at every point at which they could: what they asked for is done once or not at all."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import grpc
import pytest
from msgspec.structs import replace

from countersign.kit.channel import open_channel
from countersign.kit.server import start_server
from countersign.ledger.v1 import ledger_pb2 as pb
from countersign.ledger.v1.ledger_pb2_grpc import LedgerServiceStub
from ledger_svc import errors
from ledger_svc.ledger import Ledger
from ledger_svc.service import LedgerServicer, service_spec
from ledger_svc.storage.sqlite import SqliteStore
from ledger_svc.workspace import Wanted, Workspace
from tests.ledger_svc import support
from tests.ledger_svc.attack import wire
from tests.ledger_svc.support import Clock

T = TypeVar("T")
SECOND = support.slot(turn=2)


class SteppedStore(SqliteStore):
    """Runs on the event loop and yields to it before and after all that it does, so that no point is passed unseen."""

    async def _on(self, thread: ThreadPoolExecutor, run: Callable[[], T]) -> T:
        await asyncio.sleep(0)
        answer = run()
        await asyncio.sleep(0)
        return answer


async def stepped_ledger(path: Path) -> Ledger:
    ledger = support.make_ledger(path, Clock())
    await support.furnish(ledger, max_in_flight=3)
    ledger._store.__class__ = SteppedStore
    return ledger


CASES: dict[str, tuple[Sequence[Any], Any]] = {
    "reserve": ([], support.reserve(10)),
    "refused": ([], support.reserve(101)),
    "answered": ([support.reserve(10), support.receipt()], support.reserve(10)),
    "receipt": ([support.reserve(10)], support.receipt()),
    "late receipt": ([support.reserve(10)], support.receipt()),
    "hold": ([support.reserve(10)], support.hold()),
    "resolve": ([support.reserve(10), support.hold()], support.resolve(3, again=True)),
    "grant": ([], support.grant(7, request_id="more")),
    "study": ([], support.open_study(7, study_id="more")),
}


async def carry_out(ledger: Ledger, command: Any) -> Any:
    """The answer, or the refusal as a value."""
    try:
        return await (ledger.reserve(command) if hasattr(command, "lease_micros") else ledger.submit(command))
    except errors.LedgerError as refusal:
        return refusal


async def cancelled_after(ledger: Ledger, command: Any, steps_count: int) -> bool:
    """Cancel the caller once the loop has turned so often; whether that was before it had its answer."""
    asking = asyncio.ensure_future(carry_out(ledger, command))
    for _ in range(steps_count):
        await asyncio.sleep(0)
    was_cancelled = asking.cancel()
    await asyncio.wait([asking])
    return was_cancelled


async def state(ledger: Ledger) -> tuple[Any, ...]:
    """The balances and how the journal stands; in which order two callers came is left out."""
    page = await ledger.summarize("lab", None, 0, 10)
    found = await ledger.verify(None)
    account = replace(page.balances.account, head_chain=b"")
    return account, [replace(study, opened_sequence=0) for study in page.balances.studies], list(found.differences)


@pytest.mark.parametrize("case", list(CASES))
async def test_caller_cancelled_at_every_step_finds_the_result_by_asking_again(tmp_path: Path, case: str) -> None:
    """Whenever the caller goes, asking again leaves exactly what one undisturbed caller leaves."""
    before, command = CASES[case]
    states, steps_count, was_cancelled = [], 0, True
    while was_cancelled:
        ledger = await stepped_ledger(tmp_path / f"{steps_count}.db")
        for earlier in before:
            await carry_out(ledger, earlier)
        if case == "late receipt":
            ledger._clock.advance(support.LEASE)  # type: ignore[attr-defined]
        was_cancelled = await cancelled_after(ledger, command, steps_count)
        neighbour = await carry_out(ledger, support.grant(1, request_id="neighbour"))
        assert not neighbour.replayed
        answer = await carry_out(ledger, command)
        again = await carry_out(ledger, command)
        assert type(again) is type(answer)
        assert getattr(again, "replayed", True)
        if steps_count > 2 and case not in ("refused", "answered"):
            # The command was queued, and what is queued is carried out.
            assert answer.replayed
        states.append((_described(answer), *await state(ledger)))
        await ledger.close()
        steps_count += 1
    assert steps_count > 4
    assert all(each == states[0] for each in states)


def _described(answer: Any) -> str:
    """Where the call stands, or the refusal; `replayed` differs with the moment of the cancellation and is left out."""
    if isinstance(answer, errors.LedgerError):
        return answer.reason
    return str(getattr(getattr(answer, "call", None), "state", type(answer).__name__))


class GatedStore(SqliteStore):
    """Stops each transaction before it begins and again after its commit, until it is let through."""

    def gate(self) -> None:
        self.arrivals: asyncio.Queue[tuple[str, asyncio.Event]] = asyncio.Queue()

    async def transact(self, wanted: Wanted, now: int, work: Callable[[Workspace], T]) -> T:
        await self._stop("before")
        answer = await super().transact(wanted, now, work)
        await self._stop("after")
        return answer

    async def _stop(self, where: str) -> None:
        passed = asyncio.Event()
        await self.arrivals.put((where, passed))
        await passed.wait()


async def pass_through(store: GatedStore) -> None:
    """Let everything through from now on."""
    while True:
        _, passed = await store.arrivals.get()
        passed.set()


ON_THE_WIRE: dict[str, tuple[Sequence[Any], Any]] = {
    "reserve": ([], wire.reserve(10, wire.slot(1), support.TOKEN)),
    "receipt": (
        [wire.reserve(10, wire.slot(1), support.TOKEN)],
        wire.receipt(support.slot().call_id(), support.TOKEN, 7, b"x"),
    ),
    "hold": ([wire.reserve(10, wire.slot(1), support.TOKEN)], wire.hold(support.slot().call_id(), support.TOKEN)),
    "grant": ([], wire.grant(7, "more")),
}


@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize("how", ["cancel", "deadline", "disconnect"])
@pytest.mark.parametrize("case", list(ON_THE_WIRE))
async def test_client_that_goes_during_a_commit_finds_it_done(ledger: Ledger, case: str, how: str, where: str) -> None:
    """The client cancels, runs out of time or loses its connection while the commit is held back at either end."""
    store: Any = ledger._store
    store.__class__ = GatedStore
    store.gate()
    running = await start_server(service_spec(LedgerServicer(ledger)), "127.0.0.1:0")
    before, request = ON_THE_WIRE[case]
    request = _at(request)
    async with open_channel(running.address) as channel:
        stub = LedgerServiceStub(channel)
        passing = asyncio.create_task(pass_through(store))
        for earlier in before:
            await wire.ask(stub, _at(earlier))
        passing.cancel()
        await asyncio.wait([passing])
        held = await going(running.address, store, request, how, where)
        held.set()
        passing = asyncio.create_task(pass_through(store))
        reply = await wire.ask(stub, request)
        assert reply.admission.replayed if case == "reserve" else reply.replayed
        verified = await wire.ask(stub, pb.VerifyJournalRequest())
        assert (verified.intact, verified.entries_count) == (True, 3 + len(before) + 1)
        passing.cancel()
    await running.stop(0)


def _at(request: Any) -> Any:
    """The same request at the slot of the tests' own builders."""
    if isinstance(request, pb.ReserveRequest):
        request.slot.episode_id = support.slot().episode_id
    return request


async def going(address: str, store: GatedStore, request: Any, how: str, where: str) -> asyncio.Event:
    """Send the request, wait until its commit stands still there, and go away; gives what holds the commit back."""
    channel = open_channel(address)
    method = getattr(LedgerServiceStub(channel), type(request).__name__.removesuffix("Request"))
    sent = method(request, timeout=0.2 if how == "deadline" else wire.PATIENCE_SECONDS)
    waiting = asyncio.ensure_future(_code(sent))
    reached, passed = await store.arrivals.get()
    while reached != where:
        passed.set()
        reached, passed = await store.arrivals.get()
    if how == "cancel":
        sent.cancel()
    if how == "disconnect":
        await channel.close()
    expected = grpc.StatusCode.DEADLINE_EXCEEDED if how == "deadline" else grpc.StatusCode.CANCELLED
    assert await waiting is expected
    await channel.close()
    return passed


async def _code(sent: Any) -> grpc.StatusCode:
    try:
        await sent
    except asyncio.CancelledError:
        return grpc.StatusCode.CANCELLED
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK
