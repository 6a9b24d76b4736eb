"""`countersign ledger calls`, `holds` and `resolve`: calls, what is in doubt, and deciding on it (design/ledger.md)."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from countersign.cli.ledger_inputs import (
    By,
    LedgerAddress,
    RequestId,
    Store,
    Stub,
    StudyId,
    read_digest,
    read_nanos,
    with_ledger,
)
from countersign.cli.ledger_shapes import call_of, listed_calls
from countersign.cli.output import AsJson, emit, result_console
from countersign.kit.money import Money, nanos_to_text, text_to_nanos_exact
from countersign.kit.money_wire import to_wire
from countersign.ledger.v1 import ledger_pb2 as ledger
from countersign.study.errors import BadInput
from countersign.study.services import ask

EPISODE_WIDTH = 16
"""What a table shows of an episode's id; JSON has the whole."""

PROGRESS = {
    None: "how far the request got is not known",
    "NOT_CONNECTED": "no connection was made: nothing can have arrived",
    "SENDING": "some of the request may have left",
    "SENT": "the whole request left",
    "RESPONSE_STARTED": "the response had begun",
}
"""How far a request got, in words."""


def calls(
    study: StudyId,
    state: Annotated[str, typer.Option(help="Only calls in this state: reserved, charged, held or resolved.")] = "",
    address: LedgerAddress = None,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """The calls of a study in the order of their reservation."""
    if state and state.upper() not in ("RESERVED", "CHARGED", "HELD", "RESOLVED"):
        raise BadInput(f"--state {state}: must be reserved, charged, held or resolved")
    states = [ledger.CallState.Value(f"CALL_STATE_{state.upper()}")] if state else []
    lines = with_ledger(address, store, lambda stub: _listed(stub, study, "", states))
    if as_json:
        for line in lines:
            emit(line)
        return
    columns = ("call_id", "attempt", "episode_id", "turn", "state", "reserved", "accounted", "why")
    table = Table(*(name.replace("_", " ") for name in columns), box=SIMPLE_HEAD)
    for line in lines:
        # A call's id must be there to be copied; beside it there is no room for the whole of an episode's.
        short = {**line, "episode_id": _shortened(line["episode_id"])}
        table.add_row(*(str(short[name] or "") for name in columns))
    result_console().print(table)


def holds(
    account: Annotated[str, typer.Argument(metavar="[ACCOUNT]", help="The account's id.")] = "",
    study: Annotated[str, typer.Option(help="The study's id, in place of an account's.")] = "",
    address: LedgerAddress = None,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """What is in doubt in an account or a study: how far each request got, since when, and how much it keeps."""
    if bool(account) == bool(study):
        raise BadInput("say where to look: either ACCOUNT or --study STUDY")
    lines = with_ledger(address, store, lambda stub: _listed(stub, study, account, [ledger.CALL_STATE_HELD]))
    if as_json:
        for line in lines:
            emit(line)
        return
    for line in lines:
        typer.echo("\n".join(hold_lines(line)))
    if not lines:
        typer.echo("nothing is in doubt")
        return
    total = nanos_to_text(sum(text_to_nanos_exact(line["accounted"]) for line in lines))
    typer.echo(f"in doubt: {len(lines)} calls, {total} {lines[0]['currency']}; see 'countersign ledger resolve --help'")


def hold_lines(line: Mapping[str, Any]) -> list[str]:
    """A held call in words."""
    status = "" if line["http_status"] is None else f", HTTP status {line['http_status']}"
    stored = "is stored" if line["response_stored"] else "is not stored"
    cost = f"; its cost as handed in: {line['cost_text'] or 'none'}" if line["cost_text"] is not None else ""
    progress = PROGRESS.get(line["progress"], line["progress"])
    return [
        f"call {line['call_id']} attempt {line['attempt']}",
        f"  study {line['study_id']}, episode {line['episode_id']}, turn {line['turn']}",
        f"  held since {line['changed_at']}: {line['hold']}; {progress}{status}",
        f"  keeps {line['accounted']} {line['currency']} ({line['reserved']} was reserved at {line['reserved_at']})",
        f"  the response {stored}{cost}",
    ]


def resolve(
    call_id: Annotated[str, typer.Argument(metavar="CALL", help="The held call's id, as 'ledger holds' shows it.")],
    by: By,
    evidence: Annotated[str, typer.Option(help="What the decision rests on; kept in the journal.")],
    charged: Annotated[str | None, typer.Option(help="The call cost this, in units of the currency.")] = None,
    never_sent: Annotated[bool, typer.Option("--never-sent", help="Nothing was sent and nothing is owed.")] = False,
    new_attempt: Annotated[bool, typer.Option("--new-attempt", help="The slot may be reserved once more.")] = False,
    attempt: Annotated[int, typer.Option(help="The held attempt; the latest if not given.", min=0)] = 0,
    request_id: RequestId = None,
    address: LedgerAddress = None,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Decide on a held call, with evidence. The decision is final."""
    if (charged is None) == (not never_sent):
        raise BadInput("say what is decided: either --charged AMOUNT or --never-sent")
    key = read_digest(call_id, "CALL", "as 'countersign ledger holds' shows them")
    nanos = None if charged is None else read_nanos(charged, "--charged")

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

    answer = with_ledger(address, store, body)
    line = {**call_of(answer.call), "replayed": answer.replayed}
    if as_json:
        emit(line)
    else:
        more = "; its slot may be reserved once more" if line["opened_new_attempt"] else ""
        typer.echo(f"call {call_id} attempt {line['attempt']} is RESOLVED at {line['accounted']}{more}")


def _shortened(text: str) -> str:
    return text if len(text) <= EPISODE_WIDTH else f"{text[: EPISODE_WIDTH - 1]}…"


async def _listed(
    stub: Stub, study_id: str, account_id: str, states: "Sequence[ledger.CallState.ValueType]"
) -> list[dict[str, Any]]:
    found = listed_calls(stub, study_id=study_id, account_id=account_id, states=states)
    return [call_of(call) async for call in found]
