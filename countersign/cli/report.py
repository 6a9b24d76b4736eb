"""`countersign report`: a collected study's tables, and the verifier's analysis as files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from countersign.cli.collect import LEDGER_STORE, LOGS_FOLDER
from countersign.cli.output import AsJson, emit, say
from countersign.cli.running import run
from countersign.cli.tables import show_report
from countersign.ledger.v1 import ledger_pb2_grpc
from countersign.report.written import SUFFIXES, write_report
from countersign.study.analysing import Analysis, analyse
from countersign.study.children import ledger_spec, verifier_spec
from countersign.study.errors import BadInput, BadRecord, ProcessFailed, ServiceFailed
from countersign.study.manifest import Manifest, load
from countersign.study.money_report import LedgerMoney
from countersign.study.preparation import ledger_money
from countersign.study.processes import Household
from countersign.study.records import RECORDS_FOLDER
from countersign.study.report import StoredRecords, build_report, load_records
from countersign.study.services import channel_to
from countersign.verifier.v1 import verifier_pb2_grpc

NO_LEDGER = "the folder has no ledger of its own and no --ledger was given"


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the study's money and its second opinion come from; None is started for the command's own duration."""

    folder: Path
    ledger: str | None
    verifier: str | None


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a collection.")],
    ledger: Annotated[
        str | None,
        typer.Option(envvar="COUNTERSIGN_LEDGER", help="The ledger's address; DIR's own store is read if not given."),
    ] = None,
    verifier: Annotated[str | None, typer.Option(help="The verifier's address; one is started if not given.")] = None,
    out: Annotated[
        list[Path] | None,
        typer.Option(
            help=f"Write the verifier's analysis: a name that ends in {', '.join(SUFFIXES)}. May be repeated."
        ),
    ] = None,
    texts: Annotated[
        bool, typer.Option("--texts", help="Show in the .html what the model wrote in its admitted answers.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Count every planned episode, and compare records and ledger; status 1 where something differs."""
    for path in out or ():
        if path.suffix not in SUFFIXES:
            raise BadInput(f"--out {path}: end the name in {', '.join(SUFFIXES)}")
    if texts and not _has_page(out or []):
        raise BadInput("--texts is for --out NAME.html")
    manifest = load(folder)
    sources = Sources(folder, ledger, verifier)
    if out:
        raise typer.Exit(_write(manifest, sources, out, texts=texts, as_json=as_json))
    records = load_records(manifest, manifest.folder(folder) / RECORDS_FOLDER)
    money = run(lambda _: _money(manifest, sources))
    answer = build_report(manifest, records, money)
    if as_json:
        emit(answer)
    else:
        show_report(answer)
    raise typer.Exit(_status(answer))


def _has_page(out: Sequence[Path]) -> bool:
    return any(path.suffix == ".html" for path in out)


def _status(answer: dict[str, Any]) -> int:
    return 1 if answer["total"]["verification"]["differs"] or answer["money"]["adds_up"] is False else 0


def _write(manifest: Manifest, sources: Sources, out: list[Path], *, texts: bool, as_json: bool) -> int:
    analysis, money = run(lambda _: _analysed(manifest, sources, texts=texts, packets=_has_page(out)))
    analysis.keep(manifest.folder(sources.folder))
    records = _Readable(manifest, manifest.folder(sources.folder) / RECORDS_FOLDER)
    for path in out:
        write_report(path, manifest.document, analysis, records, money, texts=texts)
    if as_json:
        emit(analysis.document)
    for error in analysis.document["errors"]:
        say(f"countersign: {error['fault']}: {error['episode_id'][:16]} {error['detail']}")
    names = ", ".join(str(path) for path in out)
    say(f"countersign: {len(analysis.episodes)} planned episodes analysed by the verifier; wrote {names}")
    return 0 if analysis.document["agrees"] else 1


class _Readable(StoredRecords):
    """The records that can be shown; what is wrong with the others is said, and is an error of the analysis already."""

    def __getitem__(self, episode_id: str) -> Mapping[str, Any]:
        try:
            return super().__getitem__(episode_id)
        except BadRecord as error:
            say(f"countersign: {error.message}")
            raise KeyError(episode_id) from None


async def _analysed(
    manifest: Manifest, sources: Sources, *, texts: bool, packets: bool
) -> tuple[Analysis, LedgerMoney]:
    """The verifier's analysis, and the ledger's word on its journal. Raises StudyError."""
    async with Household(sources.folder / LOGS_FOLDER, say) as household:
        ledger = await _ledger(sources, household)
        if ledger is None:
            raise BadInput(f"{NO_LEDGER}: an analysis needs the receipts")
        verifier = sources.verifier or (await household.start(verifier_spec(ledger))).address
        async with channel_to("ledger", ledger) as books, channel_to("verifier", verifier) as judge:
            money = await ledger_money(ledger_pb2_grpc.LedgerServiceStub(books), manifest)
            stub = verifier_pb2_grpc.VerifierServiceStub(judge)
            return await analyse(stub, manifest, sources.folder, texts=texts, packets=packets), money


async def _money(manifest: Manifest, sources: Sources) -> LedgerMoney | None:
    """What the ledger says; None, with a line that says why, where none can be asked."""
    try:
        async with Household(sources.folder / LOGS_FOLDER, say) as household:
            ledger = await _ledger(sources, household)
            if ledger is None:
                say(f"countersign: {NO_LEDGER}: money is from the records")
                return None
            async with channel_to("ledger", ledger) as channel:
                return await ledger_money(ledger_pb2_grpc.LedgerServiceStub(channel), manifest)
    except (ServiceFailed, ProcessFailed) as error:
        say(f"countersign: {error.message}; money is from the records")
        return None


async def _ledger(sources: Sources, household: Household) -> str | None:
    """The ledger's address: the one that was given, or of one started on the folder's store; None without either."""
    store = sources.folder / LEDGER_STORE
    if sources.ledger is not None or not store.is_file():
        return sources.ledger
    return (await household.start(ledger_spec(store))).address
