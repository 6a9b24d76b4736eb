"""`countersign study`: a plan frozen, priced, amended and checked before anything is paid for (design/study.md)."""

import secrets
from pathlib import Path
from typing import Annotated, Any

import typer

from countersign.cli import study_check
from countersign.cli.collect import frozen_folder
from countersign.cli.output import AsJson, emit, result_console, say
from countersign.cli.running import run
from countersign.cli.study_inputs import (
    AdapterAddress,
    PlanPath,
    StudyFolder,
    VerifierAddress,
    case_services,
    prices_json,
    show_prices,
    show_study,
    study_json,
)
from countersign.kit.money import Money, nanos_to_text
from countersign.ledger.v1 import ledger_pb2_grpc
from countersign.study.amendments import amend as amend_study
from countersign.study.built import BuiltStudy, build, rebuild
from countersign.study.errors import BadInput
from countersign.study.files import make_folder
from countersign.study.held_out import read_or_make_seed, read_seed
from countersign.study.ledger_objects import account_available
from countersign.study.manifest import keep, load
from countersign.study.plan import load_plan
from countersign.study.plan_model import PlanFile
from countersign.study.revealing import reveal as reveal_study
from countersign.study.services import channel_to

app = typer.Typer(help="Freeze a plan, price it, amend it, and check what must hold before it is paid for.")
app.command("check")(study_check.check)


@app.command()
def freeze(
    plan: PlanPath,
    out: Annotated[Path | None, typer.Option(help="The study's folder; runs/NAME if not given.")] = None,
    secret: Annotated[
        Path | None, typer.Option(help="The file with the seed of the plan's families; made where there is none.")
    ] = None,
    adapter: AdapterAddress = None,
    verifier: VerifierAddress = None,
    as_json: AsJson = False,
) -> None:
    """Freeze a plan: every packet is built and audited, and the manifest written, never over another."""
    loaded = load_plan(plan)
    folder = out or Path("runs") / loaded.name
    seed = _seed(loaded, secret)

    async def body() -> BuiltStudy:
        async with case_services(adapter, verifier) as services:
            built = await build(services, loaded, folder, seed)
        if built.is_new:
            make_folder(folder)
            keep(built.manifest, folder)
        return built

    built = run(lambda _: body())
    _answer(built, folder, as_json=as_json)
    state = "frozen" if built.is_new else "frozen before, with the same content"
    say(f"countersign: {folder}: {state}")


@app.command()
def amend(
    folder: StudyFolder,
    plan: PlanPath,
    reason: Annotated[str, typer.Option(help="Why the frozen study is changed; kept in the amendment.")],
    adapter: AdapterAddress = None,
    verifier: VerifierAddress = None,
    as_json: AsJson = False,
) -> None:
    """Change a frozen study so that it is PLAN: a new study id; what was collected stays under the old one."""
    loaded = load_plan(plan)

    async def body() -> BuiltStudy:
        async with case_services(adapter, verifier) as services:
            return await amend_study(services, folder, loaded, reason)

    built = run(lambda _: body())
    _answer(built, folder, as_json=as_json)
    say(f"countersign: {folder}: amendment {len(built.manifest.amendments)} written, the study is another one now")


@app.command()
def reveal(
    folder: StudyFolder,
    secret: Annotated[Path, typer.Option(help="The file with the seed that the study was frozen with.")],
    adapter: AdapterAddress = None,
    verifier: VerifierAddress = None,
    as_json: AsJson = False,
) -> None:
    """Open the held-out templates' commitments, as an amendment: a new study id; the seed itself stays secret."""
    seed = read_seed(secret)

    async def body() -> BuiltStudy:
        async with case_services(adapter, verifier) as services:
            return await reveal_study(services, folder, seed)

    built = run(lambda _: body())
    _answer(built, folder, as_json=as_json)
    count = sum(template.get("split") == "held-out" for template in built.manifest.document["templates"])
    say(f"countersign: {folder}: {count} held-out templates revealed, as amendment {len(built.manifest.amendments)}")


def _seed(plan: PlanFile, secret: Path | None) -> bytes | None:
    """The seed of the plan's families, from its file or a new one. Raises BadInput where it is missing or unneeded."""
    if bool(plan.families) != (secret is not None):
        raise BadInput("--secret FILE goes with a plan that has families, and only with one")
    return None if secret is None else read_or_make_seed(secret, secrets.token_bytes)


@app.command()
def price(
    study: Annotated[Path, typer.Argument(metavar="PLAN|DIR", help="A plan (TOML), or a frozen study's folder.")],
    ledger: Annotated[
        str | None, typer.Option(envvar="COUNTERSIGN_LEDGER", help="The ledger to ask what the account has.")
    ] = None,
    adapter: AdapterAddress = None,
    verifier: VerifierAddress = None,
    as_json: AsJson = False,
) -> None:
    """Say the most that a call, an episode and the study can cost, exactly; nothing is written or sent."""
    folder = frozen_folder(study)
    plan = load_plan(study) if folder is None else None

    async def body() -> tuple[BuiltStudy, Money | None]:
        async with case_services(adapter, verifier) as services:
            if folder is not None:
                built = await rebuild(services, load(folder))
            else:
                assert plan is not None
                built = await build(services, plan, None)
        return built, await _available(ledger, built.plan.account.id)

    built, available = run(lambda _: body())
    if as_json:
        emit({**prices_json(built), **_against(built, available)})
        return
    show_prices(built)
    if available is not None:
        word = "enough" if _is_sufficient(built, available) else "NOT enough"
        result_console().print(f"account {built.plan.account.id} has {available} available: {word}")


async def _available(ledger: str | None, account_id: str) -> Money | None:
    if ledger is None:
        return None
    async with channel_to("ledger", ledger) as channel:
        return await account_available(ledger_pb2_grpc.LedgerServiceStub(channel), account_id)


def _against(built: BuiltStudy, available: Money | None) -> dict[str, Any]:
    if available is None:
        return {"available": None, "sufficient": None}
    return {"available": nanos_to_text(available.nanos), "sufficient": _is_sufficient(built, available)}


def _is_sufficient(built: BuiltStudy, available: Money) -> bool:
    return available.currency == built.bound.currency and available.nanos >= built.bound.nanos


def _answer(built: BuiltStudy, folder: Path, *, as_json: bool) -> None:
    if as_json:
        emit({"folder": str(folder), **study_json(built)})
    else:
        show_study(built)
