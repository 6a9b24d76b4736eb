"""Asks a ledger everything about a study: `python -m tests.hosts.inspector ADDRESS STUDY ACCOUNT TOKEN CA PEM KEY`."""

import asyncio
import base64
import json
import sys
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict

from countersign.kit.channel import call, open_channel
from countersign.kit.identity import load_identity
from countersign.kit.money_wire import from_wire
from countersign.ledger.v1 import ledger_pb2 as pb
from countersign.ledger.v1.ledger_pb2_grpc import LedgerServiceStub

CALL_SECONDS = 40.0
STATES = ("charged", "reserved", "held", "resolved")


async def _look(address: str, study_id: str, account_id: str, keys: list[str]) -> dict[str, Any]:
    token, ca, certificate, key = map(Path, keys)
    identity = load_identity(token_file=token, ca=ca, certificate=certificate, key=key)
    async with open_channel(address, identity) as channel:
        stub = LedgerServiceStub(channel)
        listed = pb.ListCallsRequest(study_id=study_id, page_size=1000)
        calls = (await call(stub.ListCalls, listed, CALL_SECONDS)).calls
        summary = await call(stub.Summarize, pb.SummarizeRequest(account_id=account_id), CALL_SECONDS)
        journal = await call(stub.VerifyJournal, pb.VerifyJournalRequest(), CALL_SECONDS)
        asked = [pb.GetReceiptRequest(call_id=one.call_id, attempt=one.attempt) for one in calls if one.response_digest]
        receipts = [(await call(stub.GetReceipt, one, CALL_SECONDS)).receipt for one in asked]
    (study,) = summary.studies
    return {
        "calls": [_call(one) for one in calls],
        "receipts": [base64.b64encode(one.response).decode() for one in receipts],
        "account": _balances(summary.balances),
        "study": {**_balances(study.balances), "blocked": study.blocked, "max_in_flight": study.max_in_flight},
        "journal": {"intact": journal.intact, "differences": [MessageToDict(one) for one in journal.differences]},
    }


def _call(one: pb.Call) -> dict[str, Any]:
    return {
        "call_id": one.call_id.hex(),
        "attempt": one.attempt,
        "slot": [one.slot.episode_id, one.slot.turn],
        "state": pb.CallState.Name(one.state).removeprefix("CALL_STATE_"),
        "request": one.request_digest.hex(),
        "reserved": from_wire(one.reserved).nanos,
        "accounted": from_wire(one.accounted).nanos,
        "reserved_at": one.reserved_at.ToNanoseconds(),
        "changed_at": one.changed_at.ToNanoseconds(),
        "hold": pb.HoldCategory.Name(one.hold_category).removeprefix("HOLD_CATEGORY_"),
        "progress": pb.RequestProgress.Name(one.progress).removeprefix("REQUEST_PROGRESS_"),
    }


def _balances(balances: pb.Balances) -> dict[str, int]:
    names = ("granted", "prior_spend", *STATES, "available")
    return {name: from_wire(getattr(balances, name)).nanos for name in names}


if __name__ == "__main__":
    address, study_id, account_id, *keys = sys.argv[1:]
    print(json.dumps(asyncio.run(_look(address, study_id, account_id, keys))))
