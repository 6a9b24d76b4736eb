"""`countersign report`: the tables of a collected study, from its folder and its ledger."""

from pathlib import Path
from typing import Annotated, Any

import typer

from countersign.cli.collect import LEDGER_STORE, LOGS_FOLDER
from countersign.cli.output import AsJson, emit, say
from countersign.cli.running import run
from countersign.cli.tables import show_report
from countersign.ledger.v1 import ledger_pb2_grpc
from countersign.study.children import ledger_spec
from countersign.study.errors import ProcessFailed, ServiceFailed
from countersign.study.manifest import Manifest, load
from countersign.study.money_report import LedgerMoney
from countersign.study.preparation import ledger_money
from countersign.study.processes import Household
from countersign.study.records import RECORDS_FOLDER
from countersign.study.report import build_report, load_records
from countersign.study.services import channel_to


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a collection.")],
    ledger: Annotated[
        str | None,
        typer.Option(envvar="COUNTERSIGN_LEDGER", help="The ledger's address; DIR's own store is read if not given."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Count every planned episode, and compare records and ledger; status 1 where something differs."""
    manifest = load(folder)
    records = load_records(manifest, folder / RECORDS_FOLDER)
    money = run(lambda _: _money(manifest, folder, ledger))
    answer = build_report(manifest, records, money)
    if as_json:
        emit(answer)
    else:
        show_report(answer)
    raise typer.Exit(_status(answer))


def _status(answer: dict[str, Any]) -> int:
    return 1 if answer["total"]["verification"]["differs"] or answer["money"]["adds_up"] is False else 0


async def _money(manifest: Manifest, folder: Path, address: str | None) -> LedgerMoney | None:
    """What the ledger says; None, with a line that says why, where none can be asked."""
    try:
        if address is not None:
            return await _ask(manifest, address)
        store = folder / LEDGER_STORE
        if not store.is_file():
            say("countersign: the folder has no ledger of its own and no --ledger was given: money is from the records")
            return None
        async with Household(folder / LOGS_FOLDER, say) as household:
            return await _ask(manifest, (await household.start(ledger_spec(store))).address)
    except (ServiceFailed, ProcessFailed) as error:
        say(f"countersign: {error.message}; money is from the records")
        return None


async def _ask(manifest: Manifest, address: str) -> LedgerMoney:
    async with channel_to("ledger", address) as channel:
        return await ledger_money(ledger_pb2_grpc.LedgerServiceStub(channel), manifest)
