"""`countersign ledger`: balances, calls, the journal, and an operator's decisions (design/ledger.md)."""

import hashlib
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from google.protobuf import json_format
from rich.box import SIMPLE_HEAD
from rich.table import Table

from countersign.cli.output import AsJson, emit, result_console, say
from countersign.cli.running import run
from countersign.cli.token import token
from countersign.kit.canonical import canonical_json
from countersign.kit.money import Money, MoneyError, nanos_to_text, text_to_nanos_exact
from countersign.kit.money_wire import from_wire, to_wire
from countersign.ledger.v1 import ledger_pb2 as ledger
from countersign.ledger.v1 import ledger_pb2_grpc
from countersign.study.children import ledger_spec
from countersign.study.errors import BadInput
from countersign.study.ledger_objects import study_calls
from countersign.study.processes import Household
from countersign.study.services import ask, channel_to

Stub = ledger_pb2_grpc.LedgerServiceStub
VERIFY_JOURNAL_SECONDS = 600.0
BALANCES = ("granted", "prior_spend", "charged", "reserved", "held", "resolved", "available")

app = typer.Typer(help="Balances, calls, the journal, and an operator's decisions.")

LedgerAddress = Annotated[
    str | None, typer.Option("--ledger", envvar="COUNTERSIGN_LEDGER", help="The ledger's address.")
]
Store = Annotated[
    Path | None, typer.Option(help="A ledger's store: a ledger is started on it for the duration of the command.")
]
AccountId = Annotated[str, typer.Argument(metavar="ACCOUNT", help="The account's id.")]
RequestId = Annotated[
    str | None, typer.Option(help="The mutation's id; derived from its inputs if not given, so that it happens once.")
]
By = Annotated[str, typer.Option("--by", help="Who decides; kept in the journal.")]

app.command()(token)


@app.command()
def summary(
    account: AccountId,
    study: Annotated[str, typer.Option(help="Only this study.")] = "",
    address: LedgerAddress = None,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """The balances of an account and of its studies."""
    lines = _with_ledger(address, store, lambda stub: _summary(stub, account, study))
    if as_json:
        for line in lines:
            emit(line)
        return
    table = Table(*("account or study", *BALANCES, "calls", "state"), box=SIMPLE_HEAD)
    for line in lines:
        counts = ", ".join(f"{count} {state}" for state, count in line["calls"].items() if count) or "none"
        state = "" if "study_id" not in line else "BLOCKED" if line["blocked"] else "open"
        table.add_row(line.get("study_id", account), *(line[name] for name in BALANCES), counts, state)
    result_console().print(table)


@app.command()
def verify(
    account: Annotated[str, typer.Option(help="Only this account.")] = "",
    address: LedgerAddress = None,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Recompute the journal's chain and every balance; status 1 where anything differs."""
    request = ledger.VerifyJournalRequest(account_id=account)
    answer = _with_ledger(
        address, store, lambda stub: ask("ledger", stub.VerifyJournal, request, VERIFY_JOURNAL_SECONDS)
    )
    differences = [json_format.MessageToDict(one, preserving_proto_field_name=True) for one in answer.differences]
    if as_json:
        emit(
            {
                "intact": answer.intact,
                "entries": answer.entries_count,
                "accounts": answer.accounts_count,
                "differences": differences,
            }
        )
    else:
        state = "intact" if answer.intact else "NOT INTACT"
        typer.echo(f"the journal is {state}: {answer.entries_count} entries of {answer.accounts_count} accounts")
        for one in differences:
            typer.echo(", ".join(f"{key} {value}" for key, value in one.items()))
    raise typer.Exit(0 if answer.intact else 1)


@app.command()
def calls(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="The study's id.")],
    state: Annotated[str, typer.Option(help="Only calls in this state: reserved, charged, held or resolved.")] = "",
    address: LedgerAddress = None,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """The calls of a study in the order of their reservation."""
    if state and state.upper() not in ("RESERVED", "CHARGED", "HELD", "RESOLVED"):
        raise BadInput(f"--state {state}: must be reserved, charged, held or resolved")
    lines = _with_ledger(address, store, lambda stub: _calls(stub, study))
    chosen = [line for line in lines if not state or line["state"] == state.upper()]
    if as_json:
        for line in chosen:
            emit(line)
        return
    columns = ("call_id", "attempt", "episode_id", "turn", "state", "reserved", "accounted", "why")
    table = Table(*(name.replace("_", " ") for name in columns), box=SIMPLE_HEAD)
    for line in chosen:
        table.add_row(*(str(line[name] or "") for name in columns))
    result_console().print(table)


@app.command()
def grant(
    account: AccountId,
    amount: Annotated[str, typer.Argument(metavar="AMOUNT", help="In units of the account's currency.")],
    by: By,
    reason: Annotated[str, typer.Option(help="Why; kept in the journal.")],
    request_id: RequestId = None,
    address: LedgerAddress = None,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Add to an account's authorised budget. Asked again with the same inputs, it is not granted twice."""
    nanos = _nanos(amount, "AMOUNT")

    async def body(stub: Stub) -> ledger.GrantBudgetResponse:
        summary = await ask("ledger", stub.Summarize, ledger.SummarizeRequest(account_id=account, page_size=1))
        money = Money(summary.balances.granted.currency_code, nanos)
        request = ledger.GrantBudgetRequest(
            request_id=request_id or _derived_id("grant", account, nanos_to_text(nanos), by, reason),
            account_id=account,
            amount=to_wire(money),
            granted_by=by,
            reason=reason,
        )
        return await ask("ledger", stub.GrantBudget, request)

    answer = _with_ledger(address, store, body)
    total = from_wire(answer.granted_total)
    if as_json:
        emit({"account_id": account, "granted_total": nanos_to_text(total.nanos), "replayed": answer.replayed})
    else:
        done = (
            "was granted before, with these inputs: give another --reason to grant again"
            if answer.replayed
            else "granted"
        )
        typer.echo(f"{done}; the account's grants came to {total}")


@app.command()
def resolve(
    call_id: Annotated[str, typer.Argument(metavar="CALL", help="The held call's id, as 'ledger calls' shows it.")],
    by: By,
    evidence: Annotated[str, typer.Option(help="What the decision rests on; kept in the journal.")],
    charged: Annotated[str | None, typer.Option(help="The call cost this, in units of the currency.")] = None,
    never_sent: Annotated[bool, typer.Option("--never-sent", help="Nothing was sent and nothing is owed.")] = False,
    new_attempt: Annotated[bool, typer.Option("--new-attempt", help="The slot may be reserved once more.")] = False,
    attempt: Annotated[int, typer.Option(help="The held attempt; the latest if not given.")] = 0,
    request_id: RequestId = None,
    address: LedgerAddress = None,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Decide on a held call, with evidence. The decision is final."""
    if (charged is None) == (not never_sent):
        raise BadInput("say what is decided: either --charged AMOUNT or --never-sent")
    key = _call_key(call_id)
    nanos = None if charged is None else _nanos(charged, "--charged")

    async def body(stub: Stub) -> ledger.ResolveHoldResponse:
        known = (await ask("ledger", stub.GetCall, ledger.GetCallRequest(call_id=key))).attempts[-1]
        request = ledger.ResolveHoldRequest(
            request_id=request_id or f"resolve:{call_id}:{attempt or known.attempt}",
            call_id=key,
            attempt=attempt or known.attempt,
            evidence=evidence,
            resolved_by=by,
            open_new_attempt=new_attempt,
        )
        if nanos is None:
            request.never_sent.SetInParent()
        else:
            request.charged.CopyFrom(to_wire(Money(known.reserved.currency_code, nanos)))
        return await ask("ledger", stub.ResolveHold, request)

    answer = _with_ledger(address, store, body)
    line = {**_call_line(answer.call), "replayed": answer.replayed}
    if as_json:
        emit(line)
    else:
        typer.echo(f"call {call_id} attempt {line['attempt']} is RESOLVED at {line['accounted']}")


def _with_ledger(address: str | None, store: Path | None, body: "Callable[[Stub], Awaitable[Any]]") -> Any:
    """Run `body` against the ledger at `address`, or one started on `store`. Raises BadInput where neither will do."""
    if (address is None) == (store is None):
        raise BadInput("name one ledger: either --ledger ADDRESS (or COUNTERSIGN_LEDGER) or --store FILE")
    if store is not None and not store.is_file():
        raise BadInput(f"--store {store}: no such file; a ledger makes one when it is started by 'countersign up'")

    async def main() -> Any:
        async with _stub(address, store) as stub:
            return await body(stub)

    return run(lambda _: main())


@asynccontextmanager
async def _stub(address: str | None, store: Path | None) -> AsyncIterator[Stub]:
    with tempfile.TemporaryDirectory(prefix="countersign-") as logs:
        async with Household(Path(logs), say) as household:
            if store is not None:
                address = (await household.start(ledger_spec(store))).address
            async with channel_to("ledger", address or "") as channel:
                yield Stub(channel)


async def _summary(stub: Stub, account: str, study: str) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    token = ""
    while True:
        request = ledger.SummarizeRequest(account_id=account, study_id=study, page_size=1000, page_token=token)
        page = await ask("ledger", stub.Summarize, request)
        if not lines:
            lines.append({"account_id": page.account_id, **_balances(page.balances)})
        lines += [
            {
                "account_id": page.account_id,
                "study_id": one.study_id,
                **_balances(one.balances),
                "blocked": one.blocked,
                "max_in_flight": one.max_in_flight,
                "call_ceiling": _text(one.call_ceiling),
                "manifest_digest": one.manifest_digest.hex(),
            }
            for one in page.studies
        ]
        token = page.next_page_token
        if not token:
            return lines


def _balances(balances: ledger.Balances) -> dict[str, Any]:
    amounts: dict[str, Any] = {name: _text(getattr(balances, name)) for name in BALANCES}
    states = ("charged", "reserved", "held", "resolved")
    counts = {state: getattr(balances, f"{state}_count") for state in states}
    return {**amounts, "currency": balances.granted.currency_code, "calls": counts}


async def _calls(stub: Stub, study: str) -> list[dict[str, Any]]:
    return [_call_line(call) async for call in study_calls(stub, study)]


def _call_line(call: ledger.Call) -> dict[str, Any]:
    hold = ledger.HoldCategory.Name(call.hold_category).removeprefix("HOLD_CATEGORY_") if call.hold_category else None
    progress = ledger.RequestProgress.Name(call.progress).removeprefix("REQUEST_PROGRESS_") if call.progress else None
    decided = call.HasField("resolution")
    return {
        "call_id": call.call_id.hex(),
        "attempt": call.attempt,
        "study_id": call.slot.study_id,
        "episode_id": call.slot.episode_id,
        "turn": call.slot.turn,
        "state": ledger.CallState.Name(call.state).removeprefix("CALL_STATE_"),
        "reserved": _text(call.reserved),
        "accounted": _text(call.accounted),
        "currency": call.accounted.currency_code,
        "why": " ".join(part for part in (hold, progress) if part) or None,
        "evidence": call.resolution.evidence if decided else None,
        "resolved_by": call.resolution.resolved_by if decided else None,
    }


def _text(money: Any) -> str:
    return nanos_to_text(from_wire(money).nanos)


def _nanos(text: str, name: str) -> int:
    try:
        return text_to_nanos_exact(text)
    except MoneyError as error:
        raise BadInput(f"{name} {text}: {error}; write decimal units such as 12.50") from None


def _call_key(text: str) -> bytes:
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise BadInput(f"CALL {text}: must be 64 hexadecimal digits, as 'countersign ledger calls' shows them")
    return key


def _derived_id(kind: str, *inputs: str) -> str:
    return f"{kind}:{hashlib.sha256(canonical_json(list(inputs))).hexdigest()}"
