"""`countersign collect`: a plan's episodes, run, recorded and verified (design/study.md, Running)."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from countersign.cli.output import AsJson, emit
from countersign.cli.progress import PlainView, make_view
from countersign.cli.running import Interruption, run
from countersign.cli.tables import show_report
from countersign.kit.money import text_to_nanos_exact
from countersign.study.children import adapter_spec, ledger_spec, start_agents, verifier_spec
from countersign.study.collection import Collection, CollectionEnd, Halt
from countersign.study.errors import BadInput, ServiceFailed
from countersign.study.files import make_folder
from countersign.study.frozen_plan import plan_of
from countersign.study.manifest import MANIFEST_NAME, load
from countersign.study.plan import load_plan
from countersign.study.plan_model import PlanFile
from countersign.study.preparation import PreparedStudy, ledger_money, prepare, prepare_frozen
from countersign.study.processes import Household
from countersign.study.records import RECORDS_FOLDER, RecordStore
from countersign.study.report import build_report, load_records
from countersign.study.services import Addresses, Services, open_services

LEDGER_STORE = "ledger.sqlite"
LOGS_FOLDER = "logs"

HALT_LINES = {
    Halt.HOLD: "a hold blocks the study: see 'countersign ledger calls', then 'countersign ledger resolve'",
    Halt.IN_DOUBT: "calls of an earlier run are still reserved: run this again once their leases have ended",
    Halt.STOP_RULE: "the stop rule ended the study at a technical unknown",
    Halt.SERVICE: "a service failed: what is missing is collected when this is run again",
    Halt.INTERRUPTED: "interrupted: what is missing is collected when this is run again",
}
EXIT_STATUSES = {Halt.HOLD: 3, Halt.IN_DOUBT: 3, Halt.STOP_RULE: 3, Halt.SERVICE: 1}

Replicated = Annotated[
    list[str] | None, typer.Option(help="Its address; repeat for more of them. A process is started if not given.")
]


@dataclass(frozen=True, slots=True)
class Options:
    """What the command was told; services without an address are started."""

    folder: Path
    is_frozen: bool
    ledger: str | None
    adapters: tuple[str, ...]
    verifiers: tuple[str, ...]
    max_in_flight: int
    as_json: bool


def collect(
    study: Annotated[
        Path, typer.Argument(metavar="PLAN|DIR", help="A plan (TOML), or a frozen study: its folder or manifest.")
    ],
    out: Annotated[Path | None, typer.Option(help="A plan's folder; runs/NAME if not given.")] = None,
    ledger: Annotated[
        str | None, typer.Option(envvar="COUNTERSIGN_LEDGER", help="The ledger's address; started if not given.")
    ] = None,
    adapter: Replicated = None,
    verifier: Replicated = None,
    max_in_flight: Annotated[int | None, typer.Option(help="Episodes at once, at most the plan's number.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run a study's episodes; run again to resume: nothing that was answered is sent twice."""
    folder = frozen_folder(study)
    if folder is not None and out is not None:
        raise BadInput(f"--out goes with a plan: {folder} keeps its study already")
    loaded = load_plan(study) if folder is None else plan_of(load(folder).document)
    most = loaded.study.max_in_flight
    if max_in_flight is not None and not 1 <= max_in_flight <= most:
        raise BadInput(f"--max-in-flight {max_in_flight}: must be 1 to {most}, the plan's study.max_in_flight")
    if ledger is None and (adapter or verifier):
        raise BadInput("--adapter and --verifier go with --ledger: name the ledger that they were started with")
    options = Options(
        folder or out or Path("runs") / loaded.name,
        folder is not None,
        ledger,
        tuple(adapter or ()),
        tuple(verifier or ()),
        max_in_flight or most,
        as_json,
    )
    raise typer.Exit(run(lambda interruption: _collect(loaded, options, interruption)))


def frozen_folder(path: Path) -> Path | None:
    """The folder of the frozen study that `path` names, by itself or by its manifest; None for a plan."""
    if path.is_dir():
        return path
    return path.parent if path.name == MANIFEST_NAME else None


async def _collect(plan: PlanFile, options: Options, interruption: Interruption) -> int:
    make_folder(options.folder)
    logs = options.folder / LOGS_FOLDER
    with make_view(as_json=options.as_json) as view:
        async with Household(logs, view.note) as household:
            urls = await start_agents(household, plan.routes, logs)
            addresses = await start_services(household, options)
            async with open_services(addresses, view.note) as services:
                prepared = await _prepare(services, plan, options)
                _say_price(view, prepared)
                end = await _run(services, prepared, urls, options, interruption, view)
                report = await _report(services, prepared, options.folder, view)
    if end.halt in HALT_LINES:
        view.note(HALT_LINES[end.halt])
    if options.as_json:
        emit({"event": "report", **report})
    else:
        show_report(report)
    interruption.raise_if_set()
    return exit_status(end, report)


async def _prepare(services: Services, plan: PlanFile, options: Options) -> PreparedStudy:
    if options.is_frozen:
        return await prepare_frozen(services, options.folder, datetime.now(UTC))
    return await prepare(services, plan, options.folder, datetime.now(UTC))


def exit_status(end: CollectionEnd, report: dict[str, Any]) -> int:
    """0 where all was run and agrees; 1 for a service or a disagreement; 3 for a hold or the stop rule."""
    if report["total"]["verification"]["differs"] or report["money"]["adds_up"] is False:
        return 1
    return EXIT_STATUSES.get(end.halt, 0) if end.halt is not None else 0


async def start_services(household: Household, options: Options) -> Addresses:
    """Start what has no address. The adapter stops first and the ledger last."""
    ledger = options.ledger or (await household.start(ledger_spec(options.folder / LEDGER_STORE))).address
    verifiers = options.verifiers or ((await household.start(verifier_spec(ledger))).address,)
    adapters = options.adapters or ((await household.start(adapter_spec(ledger))).address,)
    return Addresses(ledger, adapters[0], verifiers[0], adapters[1:], verifiers[1:])


def _say_price(view: PlainView, prepared: PreparedStudy) -> None:
    state = "frozen" if prepared.is_new else "as frozen before"
    view.note(f"study {prepared.manifest.study_id}, manifest {state}, every packet audited")
    view.note(f"the whole of it can cost at most {prepared.bound}; the account has {prepared.available} available")
    cap = prepared.plan.study.cap
    if prepared.is_new and prepared.bound.nanos > prepared.available.nanos:
        view.note(
            "that may not be enough: episodes that do not fit stop as budget_stop and can be resumed after a grant"
        )
    elif prepared.manifest.document["prices"]["study_bound"] != "0":
        view.note(f"the study's own cap is {cap} {prepared.plan.account.currency}")


async def _run(
    services: Services,
    prepared: PreparedStudy,
    urls: dict[str, str],
    options: Options,
    interruption: Interruption,
    view: PlainView,
) -> CollectionEnd:
    collection = Collection(
        services=services,
        orders=prepared.orders(urls),
        store=RecordStore(prepared.manifest.folder(options.folder) / RECORDS_FOLDER),
        account_id=prepared.plan.account.id,
        stop=prepared.plan.study.stop,
        max_in_flight=options.max_in_flight,
        interrupted=interruption.event,
        view=view,
        cap_nanos=text_to_nanos_exact(prepared.plan.study.cap),
    )
    interruption.patient = True
    try:
        return await collection.run()
    finally:
        interruption.patient = False


async def _report(services: Services, prepared: PreparedStudy, folder: Path, view: PlainView) -> dict[str, Any]:
    records = load_records(prepared.manifest, prepared.manifest.folder(folder) / RECORDS_FOLDER)
    try:
        money = await ledger_money(services.ledger, prepared.manifest)
    except ServiceFailed as error:
        view.note(error.message)
        money = None
    return build_report(prepared.manifest, records, money)
