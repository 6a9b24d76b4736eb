"""`countersign study check`: what must hold before a paid collection, item by item (design/study.md, Readiness)."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from countersign.cli.collect import LOGS_FOLDER, Options, Replicated, start_services
from countersign.cli.output import AsJson, emit, result_console, say
from countersign.cli.progress import PlainView
from countersign.cli.running import Interruption, run
from countersign.cli.study_inputs import StudyFolder
from countersign.study.built import BuiltStudy, rebuild
from countersign.study.children import start_agents
from countersign.study.collection import Collection
from countersign.study.ledger_objects import open_account
from countersign.study.manifest import Manifest, load
from countersign.study.probes import build_probes, open_probes
from countersign.study.processes import Household
from countersign.study.readiness import READINESS_NAME, Readiness, assess, needs_readiness
from countersign.study.services import Services, open_services


def check(
    folder: StudyFolder,
    probe: Annotated[
        bool, typer.Option("--probe", help="Send the handshakes that are missing: one paid call for each route.")
    ] = False,
    ledger: Annotated[
        str | None, typer.Option(envvar="COUNTERSIGN_LEDGER", help="The ledger's address; started if not given.")
    ] = None,
    adapter: Replicated = None,
    verifier: Replicated = None,
    as_json: AsJson = False,
) -> None:
    """Gather the evidence of every item and write DIR/readiness.json; status 1 where something is missing."""
    manifest = load(folder)
    options = Options(folder, True, ledger, tuple(adapter or ()), tuple(verifier or ()), 1, as_json)
    readiness, required = run(lambda interruption: _check(manifest, options, probe, interruption))
    document = readiness.document()
    if as_json:
        emit({**document, "required": required})
    else:
        _show(document)
    state = "ready" if readiness.is_ready else "NOT ready"
    needed = "" if required else "; this study needs no readiness"
    say(f"countersign: {readiness.study_id} is {state}, see {folder / READINESS_NAME}{needed}")
    raise typer.Exit(0 if readiness.is_ready else 1)


async def _check(
    manifest: Manifest, options: Options, probe: bool, interruption: Interruption
) -> tuple[Readiness, bool]:
    async with Household(options.folder / LOGS_FOLDER, say) as household:
        addresses = await start_services(household, options)
        async with open_services(addresses) as services:
            built = await rebuild(services, manifest)
            await open_account(services.ledger, built.plan)
            if probe:
                urls = await start_agents(household, built.plan.routes, options.folder / LOGS_FOLDER)
                await _probe(services, built, urls, options.folder, interruption)
            readiness = await assess(services, built, options.folder, datetime.now(UTC))
    readiness.keep(options.folder)
    return readiness, needs_readiness(built.plan)


async def _probe(
    services: Services, built: BuiltStudy, urls: Mapping[str, str], folder: Path, interruption: Interruption
) -> None:
    probes = await build_probes(services, built, urls)
    say(f"countersign: {len(probes.orders)} handshakes of one call each can cost at most {probes.cap} together")
    await open_probes(services, probes)
    collection = Collection(
        services=services,
        orders=probes.orders,
        store=probes.store(folder),
        account_id=probes.account_id,
        stop="never",
        max_in_flight=1,
        interrupted=interruption.event,
        view=PlainView(),
        cap_nanos=probes.cap.nanos,
    )
    interruption.patient = True
    try:
        await collection.run()
    finally:
        interruption.patient = False
    interruption.raise_if_set()


def _show(document: Mapping[str, Any]) -> None:
    table = Table(box=SIMPLE_HEAD)
    for name in ("item", "holds", "evidence", "what was found"):
        table.add_column(name)
    for one in document["items"]:
        table.add_row(one["item"], "yes" if one["holds"] else "NO", one["evidence_digest"][:16], one["says"])
    result_console().print(table)
