"""`countersign ledger open-account`, `open-study`, `grant` and `prior-spend`: what is authorised (design/ledger.md)."""

from typing import Annotated, Any

import typer

from countersign.cli.ledger_inputs import (
    AccountId,
    Amount,
    By,
    LedgerAddress,
    RequestId,
    Store,
    Stub,
    StudyId,
    derived_id,
    read_digest,
    read_nanos,
    with_ledger,
)
from countersign.cli.output import AsJson, emit
from countersign.kit.money import Money, nanos_to_text
from countersign.kit.money_wire import from_wire, to_wire
from countersign.ledger.v1 import ledger_pb2 as ledger
from countersign.study.services import ask

Reason = Annotated[str, typer.Option(help="Why; kept in the journal.")]


def open_account(
    account: AccountId,
    currency: Annotated[str, typer.Option(help="Its currency, an ISO 4217 code such as USD.")],
    by: By,
    request_id: RequestId = None,
    address: LedgerAddress = None,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Open an account with no budget. An account that is open in the same currency stays as it is."""
    request = ledger.OpenAccountRequest(
        request_id=request_id or derived_id("open-account", account, currency, by),
        account_id=account,
        currency_code=currency,
        opened_by=by,
    )
    answer = with_ledger(address, store, lambda stub: ask("ledger", stub.OpenAccount, request))
    if as_json:
        emit({"account_id": account, "currency": currency, "replayed": answer.replayed})
    else:
        typer.echo(f"account {account} {'was open before' if answer.replayed else 'is open'}, in {currency}")


def open_study(
    study: StudyId,
    account: Annotated[str, typer.Option(help="The account that pays.")],
    cap: Annotated[str, typer.Option(help="The most that all its calls may account for together.")],
    manifest_digest: Annotated[str, typer.Option(help="SHA-256 of its frozen manifest, in hexadecimal.")],
    by: By,
    call_ceiling: Annotated[str | None, typer.Option(help="The most for one call; the cap if not given.")] = None,
    max_in_flight: Annotated[int, typer.Option(help="How many calls may be reserved at once.", min=1)] = 1,
    request_id: RequestId = None,
    address: LedgerAddress = None,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Open a study under an account. A study that is open with the same properties stays as it is."""
    digest = read_digest(manifest_digest, "--manifest-digest", "the SHA-256 of the manifest")
    cap_nanos = read_nanos(cap, "--cap")
    ceiling_nanos = cap_nanos if call_ceiling is None else read_nanos(call_ceiling, "--call-ceiling")
    inputs = (account, study, *map(nanos_to_text, (cap_nanos, ceiling_nanos)), str(max_in_flight), digest.hex(), by)

    async def body(stub: Stub) -> ledger.OpenStudyResponse:
        currency = await _currency(stub, account)
        request = ledger.OpenStudyRequest(
            request_id=request_id or derived_id("open-study", *inputs),
            account_id=account,
            study_id=study,
            cap=to_wire(Money(currency, cap_nanos)),
            call_ceiling=to_wire(Money(currency, ceiling_nanos)),
            max_in_flight=max_in_flight,
            manifest_digest=digest,
            opened_by=by,
        )
        return await ask("ledger", stub.OpenStudy, request)

    answer = with_ledger(address, store, body)
    if as_json:
        emit({"account_id": account, "study_id": study, "replayed": answer.replayed})
    else:
        typer.echo(f"study {study} of account {account} {'was open before' if answer.replayed else 'is open'}")


def grant(
    account: AccountId,
    amount: Amount,
    by: By,
    reason: Reason,
    request_id: RequestId = None,
    address: LedgerAddress = None,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Add to an account's authorised budget. Asked again with the same inputs, it is not granted twice."""
    nanos = read_nanos(amount, "AMOUNT")
    chosen = request_id or derived_id("grant", account, nanos_to_text(nanos), by, reason)

    async def body(stub: Stub) -> ledger.GrantBudgetResponse:
        money = to_wire(Money(await _currency(stub, account), nanos))
        request = ledger.GrantBudgetRequest(
            request_id=chosen, account_id=account, amount=money, granted_by=by, reason=reason
        )
        return await ask("ledger", stub.GrantBudget, request)

    answer = with_ledger(address, store, body)
    _say(account, "granted_total", answer.granted_total, answer.replayed, as_json, ("granted", "grants", "grant"))


def prior_spend(
    account: AccountId,
    amount: Amount,
    by: By,
    reason: Reason,
    request_id: RequestId = None,
    address: LedgerAddress = None,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Record what was spent before the ledger; it lessens what is available. Not recorded twice for the same inputs."""
    nanos = read_nanos(amount, "AMOUNT")
    chosen = request_id or derived_id("prior-spend", account, nanos_to_text(nanos), by, reason)

    async def body(stub: Stub) -> ledger.RecordPriorSpendResponse:
        money = to_wire(Money(await _currency(stub, account), nanos))
        request = ledger.RecordPriorSpendRequest(
            request_id=chosen, account_id=account, amount=money, recorded_by=by, reason=reason
        )
        return await ask("ledger", stub.RecordPriorSpend, request)

    answer = with_ledger(address, store, body)
    words = ("recorded", "prior spend", "record")
    _say(account, "prior_spend_total", answer.prior_spend_total, answer.replayed, as_json, words)


async def _currency(stub: Stub, account_id: str) -> str:
    summary = await ask("ledger", stub.Summarize, ledger.SummarizeRequest(account_id=account_id, page_size=1))
    return str(summary.balances.granted.currency_code)


def _say(account: str, name: str, total: Any, replayed: bool, as_json: bool, words: tuple[str, str, str]) -> None:
    done, kind, again = words
    money = from_wire(total)
    if as_json:
        emit({"account_id": account, name: nanos_to_text(money.nanos), "replayed": replayed})
        return
    before = f"was {done} before, with these inputs: give another --reason to {again} again"
    typer.echo(f"{before if replayed else done}; the account's {kind} came to {money}")
