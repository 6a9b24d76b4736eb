"""What the commands of `countersign study` share: their options, the services they start, their tables."""

import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from countersign.adapter.v1.adapter_pb2_grpc import AdapterServiceStub
from countersign.cli.output import result_console, say
from countersign.kit.money import nanos_to_text
from countersign.study.built import BuiltStudy
from countersign.study.children import adapter_spec, verifier_spec
from countersign.study.prices import RouteBounds, route_bounds
from countersign.study.processes import Household
from countersign.study.services import channel_to
from countersign.verifier.v1.verifier_pb2_grpc import VerifierServiceStub

PlanPath = Annotated[Path, typer.Argument(metavar="PLAN", help="The plan, a TOML file.")]
StudyFolder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a frozen study.")]
AdapterAddress = Annotated[
    str | None, typer.Option("--adapter", help="The adapter's address; one is started if not given.")
]
VerifierAddress = Annotated[
    str | None, typer.Option("--verifier", help="The verifier's address; one is started if not given.")
]


@dataclass(frozen=True, slots=True)
class CaseServices:
    """Who builds and audits cases; neither needs a ledger for that."""

    adapter: AdapterServiceStub
    verifier: VerifierServiceStub


@asynccontextmanager
async def case_services(adapter: str | None, verifier: str | None) -> AsyncIterator[CaseServices]:
    """Both services, at their addresses or started for as long as the context lasts. Raises StudyError."""
    async with AsyncExitStack() as stack:
        logs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="countersign-")))
        household = await stack.enter_async_context(Household(logs, say))
        adapter = adapter or (await household.start(adapter_spec(""))).address
        verifier = verifier or (await household.start(verifier_spec(""))).address
        yield CaseServices(
            AdapterServiceStub(await stack.enter_async_context(channel_to("adapter", adapter))),
            VerifierServiceStub(await stack.enter_async_context(channel_to("verifier", verifier))),
        )


def study_json(built: BuiltStudy) -> dict[str, Any]:
    """A frozen study as the commands answer it with --json."""
    return {
        "study_id": built.manifest.study_id,
        "manifest_digest": built.manifest.digest.hex(),
        "amendments": list(built.manifest.chain[1:]),
        "episodes": len(built.identities),
        **prices_json(built),
    }


def prices_json(built: BuiltStudy) -> dict[str, Any]:
    """The study's exact upper bounds, in decimal text."""
    return {
        "currency": built.bound.currency,
        "routes": [one.to_json() for one in bounds_of(built)],
        "study_bound": nanos_to_text(built.bound.nanos),
    }


def show_study(built: BuiltStudy) -> None:
    """Print a frozen study on standard output."""
    console = result_console()
    console.print(f"study {built.manifest.study_id}   digest {built.manifest.digest.hex()}")
    console.print(f"{len(built.identities)} planned episodes, every packet audited")
    show_prices(built)


def show_prices(built: BuiltStudy) -> None:
    """Print the study's upper bounds on standard output."""
    table = Table(title=f"the most that it can cost, in {built.bound.currency}", box=SIMPLE_HEAD, title_justify="left")
    for name in ("route", "episodes", "a call", "an episode", "all of it"):
        table.add_column(name, justify="left" if name == "route" else "right")
    for one in bounds_of(built):
        line = one.to_json()
        cells = (line["route"], line["episodes"], line["call_bound"], line["episode_bound"], line["total_bound"])
        table.add_row(*map(str, cells))
    console = result_console()
    console.print(table)
    console.print(f"the whole study: {built.bound}")


def bounds_of(built: BuiltStudy) -> Sequence[RouteBounds]:
    """The bounds of every route of the study."""
    return route_bounds(built.plan, built.cases, built.identities)
