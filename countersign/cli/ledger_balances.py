"""`countersign ledger summary`, `account` and `study`: where the money stands (design/ledger.md, Objects)."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from countersign.cli.ledger_holds import hold_lines
from countersign.cli.ledger_inputs import AccountId, LedgerAddress, OptionalAccountId, Store, Stub, StudyId, with_ledger
from countersign.cli.ledger_shapes import (
    BALANCES,
    STATES,
    balances_of,
    call_of,
    listed_accounts,
    listed_calls,
    study_of,
    summarized,
)
from countersign.cli.output import AsJson, emit, result_console
from countersign.ledger.v1 import ledger_pb2 as ledger


def summary(
    account: AccountId,
    study: Annotated[str, typer.Option(help="Only this study.")] = "",
    address: LedgerAddress = None,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """The balances of an account and of its studies."""
    lines = with_ledger(address, store, lambda stub: _summary(stub, account, study))
    if as_json:
        for line in lines:
            emit(line)
        return
    table = Table(*("account or study", *BALANCES, "calls", "state"), box=SIMPLE_HEAD)
    for line in lines:
        state = "" if "study_id" not in line else "BLOCKED" if line["blocked"] else "open"
        table.add_row(line.get("study_id", account), *(line[name] for name in BALANCES), _counts(line), state)
    result_console().print(table)


def account(
    account: OptionalAccountId = "", address: LedgerAddress = None, store: Store = None, as_json: AsJson = False
) -> None:
    """One account: its balances, how many studies it has and which of them are blocked. Without an id: all accounts."""
    if not account:
        _list_accounts(with_ledger(address, store, _accounts), as_json)
        return
    line = with_ledger(address, store, lambda stub: _account(stub, account))
    if as_json:
        emit(line)
        return
    typer.echo(f"account {account}")
    _echo_balances(line)
    typer.echo(f"  studies      {line['studies']}")
    if line["blocked_studies"]:
        typer.echo(f"  BLOCKED      {', '.join(line['blocked_studies'])} (see 'countersign ledger holds {account}')")


def study(study: StudyId, address: LedgerAddress = None, store: Store = None, as_json: AsJson = False) -> None:
    """One study: its limits, its balances and what is in doubt."""
    line = with_ledger(address, store, lambda stub: _study(stub, study))
    if as_json:
        emit(line)
        return
    typer.echo(f"study {study} of account {line['account_id']}, {'BLOCKED by a hold' if line['blocked'] else 'open'}")
    _echo_balances({**line, "granted": f"{line['granted']} (its cap)"})
    typer.echo(f"  one call     at most {line['call_ceiling']}, {line['max_in_flight']} in flight")
    typer.echo(f"  manifest     {line['manifest_digest']}")
    for hold in line["holds"]:
        typer.echo("\n".join(hold_lines(hold)))


def _list_accounts(lines: Sequence[Mapping[str, Any]], as_json: bool) -> None:
    if as_json:
        for line in lines:
            emit(line)
    elif lines:
        table = Table(*("account", *BALANCES, "currency", "calls"), box=SIMPLE_HEAD)
        for line in lines:
            table.add_row(line["account_id"], *(line[name] for name in BALANCES), line["currency"], _counts(line))
        result_console().print(table)
    else:
        typer.echo("the ledger has no account")


async def _accounts(stub: Stub) -> list[dict[str, Any]]:
    return [{"account_id": each.account_id, **balances_of(each.balances)} async for each in listed_accounts(stub)]


async def _summary(stub: Stub, account_id: str, study_id: str) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    async for page in summarized(stub, account_id, study_id):
        if not lines:
            lines.append({"account_id": page.account_id, **balances_of(page.balances)})
        lines += [study_of(page.account_id, each) for each in page.studies]
    return lines


async def _account(stub: Stub, account_id: str) -> dict[str, Any]:
    whole, *studies = await _summary(stub, account_id, "")
    blocked = [each["study_id"] for each in studies if each["blocked"]]
    return {**whole, "studies": len(studies), "blocked_studies": blocked}


async def _study(stub: Stub, study_id: str) -> dict[str, Any]:
    _, found = await _summary(stub, "", study_id)
    held = listed_calls(stub, study_id=study_id, states=[ledger.CALL_STATE_HELD])
    return {**found, "holds": [call_of(call) async for call in held]}


def _echo_balances(line: Mapping[str, Any]) -> None:
    for name in BALANCES:
        typer.echo(f"  {name.replace('_', ' '):<12} {line[name]}{_of_state(line, name)}")
    typer.echo(f"  currency     {line['currency']}")


def _of_state(line: Mapping[str, Any], name: str) -> str:
    return f" ({line['calls'][name]} calls)" if name in STATES else ""


def _counts(line: Mapping[str, Any]) -> str:
    return ", ".join(f"{count} {state}" for state, count in line["calls"].items() if count) or "none"
