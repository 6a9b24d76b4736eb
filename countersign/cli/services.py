"""`countersign up`: the three services as child processes of one command."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from countersign.cli.output import AsJson, emit, say
from countersign.cli.running import Interruption, run
from countersign.study.children import adapter_spec, ledger_spec, verifier_spec
from countersign.study.files import make_folder
from countersign.study.processes import Child, Household

LISTEN_HELP = "Where the {} listens: HOST:PORT on loopback (port 0: any) or unix:PATH."


def up(
    ledger_store: Annotated[
        Path | None, typer.Option(help="The ledger's store; DIR/ledger.sqlite if not given.")
    ] = None,
    folder: Annotated[Path, typer.Option("--dir", help="Where logs and the store go.")] = Path("runs/services"),
    ledger_listen: Annotated[str, typer.Option(help=LISTEN_HELP.format("ledger"))] = "127.0.0.1:0",
    adapter_listen: Annotated[str, typer.Option(help=LISTEN_HELP.format("adapter"))] = "127.0.0.1:0",
    verifier_listen: Annotated[str, typer.Option(help=LISTEN_HELP.format("verifier"))] = "127.0.0.1:0",
    as_json: AsJson = False,
) -> None:
    """Run ledger, adapter and verifier until SIGINT or SIGTERM; stop adapter, verifier, ledger in this order."""
    make_folder(folder)
    store = ledger_store or folder / "ledger.sqlite"
    listens = (ledger_listen, verifier_listen, adapter_listen)
    raise typer.Exit(run(lambda interruption: _up(store, folder, listens, as_json, interruption)))


async def _up(
    store: Path, folder: Path, listens: tuple[str, str, str], as_json: bool, interruption: Interruption
) -> int:
    deaths: list[str] = []

    def on_death(line: str) -> None:
        deaths.append(line)
        interruption.event.set()

    async with Household(folder / "logs", on_death) as household:
        ledger = await household.start(ledger_spec(store, listens[0]))
        verifier = await household.start(verifier_spec(ledger.address, listens[1]))
        adapter = await household.start(adapter_spec(ledger.address, listens[2]))
        for child in (ledger, adapter, verifier):
            _announce(child, as_json)
        interruption.patient = True
        await interruption.event.wait()
        for line in deaths:
            say(f"countersign: {line}; stopping the others")
    if as_json:
        emit({"event": "stopped", "died": bool(deaths)})
    await asyncio.sleep(0)
    return 1 if deaths else 0


def _announce(child: Child, as_json: bool) -> None:
    if as_json:
        emit({"event": "listening", "service": child.spec.name, "address": child.address})
    else:
        typer.echo(f"{child.spec.name:<8} {child.address}   log: {child.log_path}")
