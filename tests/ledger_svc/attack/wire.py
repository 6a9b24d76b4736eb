"""Requests as a client sends them, all in nano-dollars, and a ledger's process to send them to."""

import asyncio
import json
import random
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.type import money_pb2

from countersign.kit.channel import call
from countersign.kit.rpc_errors import ServiceError
from countersign.ledger.v1 import ledger_pb2 as pb

PROJECT_ROOT = Path(__file__).resolve().parents[3]
PATIENCE_SECONDS = 30
MANIFEST = bytes(range(32))


def usd(nanos: int) -> money_pb2.Money:
    units, rest = divmod(nanos, 10**9)
    return money_pb2.Money(currency_code="USD", units=units, nanos=rest)


def nanos(money: money_pb2.Money) -> int:
    return int(money.units * 10**9 + money.nanos)


def token(random_source: random.Random) -> bytes:
    return random_source.randbytes(16)


def open_account(account_id: str = "lab") -> pb.OpenAccountRequest:
    return pb.OpenAccountRequest(
        request_id=f"open-{account_id}", account_id=account_id, currency_code="USD", opened_by="Ann"
    )


def grant(amount: int, request_id: str = "grant-1", account_id: str = "lab") -> pb.GrantBudgetRequest:
    return pb.GrantBudgetRequest(
        request_id=request_id, account_id=account_id, amount=usd(amount), granted_by="Ann", reason="the pilot"
    )


def open_study(
    cap: int, study_id: str = "study", account_id: str = "lab", max_in_flight: int = 1_000
) -> pb.OpenStudyRequest:
    return pb.OpenStudyRequest(
        request_id=f"study-{study_id}",
        account_id=account_id,
        study_id=study_id,
        cap=usd(cap),
        max_in_flight=max_in_flight,
        manifest_digest=MANIFEST,
        opened_by="Ann",
    )


def slot(turn: int, study_id: str = "study") -> pb.Slot:
    return pb.Slot(study_id=study_id, episode_id="episode", turn=turn)


def reserve(
    amount: int, at: pb.Slot, attempt_token: bytes, request: bytes = b"request", lease_seconds: int = 3_600
) -> pb.ReserveRequest:
    return pb.ReserveRequest(
        slot=at,
        attempt_token=attempt_token,
        amount=usd(amount),
        basis=pb.AMOUNT_BASIS_FLAT,
        request=request,
        lease=Duration(seconds=lease_seconds),
    )


def receipt(call_id: bytes, attempt_token: bytes, cost: int, response: bytes) -> pb.RecordReceiptRequest:
    return pb.RecordReceiptRequest(
        call_id=call_id,
        attempt_token=attempt_token,
        http_status=200,
        response=response,
        cost=pb.Cost(basis=pb.COST_BASIS_PROVIDER_REPORTED, amount_text=f"{cost}e-9"),
    )


def hold(call_id: bytes, attempt_token: bytes) -> pb.HoldRequest:
    return pb.HoldRequest(
        call_id=call_id,
        attempt_token=attempt_token,
        category=pb.HOLD_CATEGORY_TRANSPORT_UNKNOWN,
        progress=pb.REQUEST_PROGRESS_SENT,
    )


def resolve(call_id: bytes, attempt: int, charged: int | None, request_id: str, again: bool) -> pb.ResolveHoldRequest:
    return pb.ResolveHoldRequest(
        request_id=request_id,
        call_id=call_id,
        attempt=attempt,
        charged=None if charged is None else usd(charged),
        never_sent=pb.NeverSent() if charged is None else None,
        evidence="the bill says so",
        resolved_by="Ann",
        open_new_attempt=again,
    )


async def ask(stub: Any, request: Any) -> Any:
    """Send a request to the method that takes it; raises ServiceError."""
    method = type(request).__name__.removesuffix("Request")
    return await call(getattr(stub, method), request, PATIENCE_SECONDS)


async def outcome(stub: Any, request: Any) -> str:
    """What a reservation came to: `admitted`, `again`, `answered`, or the refusal's reason."""
    try:
        reply = await ask(stub, request)
    except ServiceError as refusal:
        return refusal.reason or refusal.status.name
    if reply.WhichOneof("answer") == "receipt":
        return "answered"
    return "again" if reply.admission.replayed else "admitted"


async def spawn(database: Path, *arguments: str, wrapper: Sequence[str] = ()) -> asyncio.subprocess.Process:
    """Start `python -m ledger_svc` on a file, without waiting for it."""
    return await asyncio.create_subprocess_exec(
        *(*wrapper, sys.executable, "-m", "ledger_svc", "--database", str(database), *arguments),
        cwd=PROJECT_ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )


async def address_of(process: asyncio.subprocess.Process) -> str:
    """Where it listens, once it does."""
    assert process.stdout is not None
    line = await process.stdout.readline()
    assert line, "the ledger did not start"
    return str(json.loads(line)["address"])


@asynccontextmanager
async def ledger_process(database: Path, *arguments: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """A ledger's process and its address; whatever is left of it at the end is killed."""
    process = await spawn(database, *arguments)
    try:
        yield process, await address_of(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
