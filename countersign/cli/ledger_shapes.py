"""The ledger's answers as plain values for JSON lines and tables."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from google.type.money_pb2 import Money

from countersign.cli.ledger_inputs import Stub
from countersign.kit.enums import name_of
from countersign.kit.money import nanos_to_text
from countersign.kit.money_wire import from_wire
from countersign.ledger.v1 import ledger_pb2 as ledger
from countersign.study.services import ask

PAGE_SIZE = 1000
BALANCES = ("granted", "prior_spend", "charged", "reserved", "held", "resolved", "available")
STATES = ("charged", "reserved", "held", "resolved")


def balances_of(balances: ledger.Balances) -> dict[str, Any]:
    """Every balance as decimal text, the currency, and how many calls are in each state."""
    amounts: dict[str, Any] = {name: amount_text(getattr(balances, name)) for name in BALANCES}
    counts = {state: getattr(balances, f"{state}_count") for state in STATES}
    return {**amounts, "currency": balances.granted.currency_code, "calls": counts}


def study_of(account_id: str, study: ledger.StudySummary) -> dict[str, Any]:
    """A study's standing."""
    return {
        "account_id": account_id,
        "study_id": study.study_id,
        **balances_of(study.balances),
        "blocked": study.blocked,
        "max_in_flight": study.max_in_flight,
        "call_ceiling": amount_text(study.call_ceiling),
        "manifest_digest": study.manifest_digest.hex(),
    }


def call_of(call: ledger.Call) -> dict[str, Any]:
    """A call's standing; times are RFC 3339."""
    hold = _name(ledger.HoldCategory, call.hold_category, "HOLD_CATEGORY_")
    progress = _name(ledger.RequestProgress, call.progress, "REQUEST_PROGRESS_")
    decided = call.HasField("resolution")
    return {
        "call_id": call.call_id.hex(),
        "attempt": call.attempt,
        "study_id": call.slot.study_id,
        "episode_id": call.slot.episode_id,
        "turn": call.slot.turn,
        "state": name_of(ledger.CallState, call.state, "CALL_STATE_"),
        "reserved": amount_text(call.reserved),
        "accounted": amount_text(call.accounted),
        "currency": call.accounted.currency_code,
        "why": " ".join(part for part in (hold, progress) if part) or None,
        "hold": hold,
        "progress": progress,
        "http_status": call.http_status if call.HasField("http_status") else None,
        "response_stored": bool(call.response_digest),
        "cost_text": call.cost.amount_text if call.HasField("cost") else None,
        "reserved_at": time_text(call.reserved_at),
        "lease_expires_at": time_text(call.lease_expires_at),
        "changed_at": time_text(call.changed_at),
        "evidence": call.resolution.evidence if decided else None,
        "resolved_by": call.resolution.resolved_by if decided else None,
        "opened_new_attempt": call.resolution.opened_new_attempt if decided else None,
    }


def amount_text(money: Money) -> str:
    """An amount in decimal units."""
    return nanos_to_text(from_wire(money).nanos)


def time_text(time: Timestamp) -> str:
    """A time as RFC 3339 writes it, in UTC."""
    return time.ToJsonString()


def _name(kind: Any, value: int, prefix: str) -> str | None:
    return name_of(kind, value, prefix) if value else None


async def listed_calls(
    stub: Stub,
    *,
    study_id: str = "",
    account_id: str = "",
    states: "Sequence[ledger.CallState.ValueType]" = (),
) -> AsyncIterator[ledger.Call]:
    """The calls of a study or of an account in the order of their reservation. Raises ServiceFailed, ServiceRefused."""
    token = ""
    while True:
        request = ledger.ListCallsRequest(
            study_id=study_id, account_id=account_id, states=states, page_size=PAGE_SIZE, page_token=token
        )
        page = await ask("ledger", stub.ListCalls, request)
        for call in page.calls:
            yield call
        token = page.next_page_token
        if not token:
            return


async def listed_accounts(stub: Stub) -> AsyncIterator[ledger.AccountSummary]:
    """All accounts in the order of their ids. Raises ServiceFailed and ServiceRefused."""
    token = ""
    while True:
        request = ledger.ListAccountsRequest(page_size=PAGE_SIZE, page_token=token)
        page = await ask("ledger", stub.ListAccounts, request)
        for account in page.accounts:
            yield account
        token = page.next_page_token
        if not token:
            return


async def summarized(stub: Stub, account_id: str, study_id: str = "") -> AsyncIterator[ledger.SummarizeResponse]:
    """An account's summary, page by page; never none. Raises ServiceFailed and ServiceRefused."""
    token = ""
    while True:
        request = ledger.SummarizeRequest(
            account_id=account_id, study_id=study_id, page_size=PAGE_SIZE, page_token=token
        )
        page = await ask("ledger", stub.Summarize, request)
        yield page
        token = page.next_page_token
        if not token:
            return
