"""`countersign adapt` and `countersign replay`: recorded exchanges and known episodes, judged without a study."""

import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from countersign.adapter.v1 import adapter_pb2_grpc
from countersign.cli.output import AsJson, emit, say
from countersign.cli.running import run
from countersign.study.adapting import VERDICTS, adapt_line
from countersign.study.children import adapter_spec, verifier_spec
from countersign.study.lines import read_lines
from countersign.study.plan import load_route
from countersign.study.processes import Household
from countersign.study.replaying import replay_line
from countersign.study.routes import wire_route
from countersign.study.services import channel_to
from countersign.verifier.v1 import verifier_pb2_grpc

Judge = Callable[[Mapping[str, Any], str], Awaitable[dict[str, Any]]]

AdapterAddress = Annotated[str | None, typer.Option("--adapter", help="Its address; started if not given.")]
VerifierAddress = Annotated[str | None, typer.Option("--verifier", help="Its address; started if not given.")]


def adapt(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Recorded exchanges: JSONL, plain or gzip.")],
    adapter: AdapterAddress = None,
    route: Annotated[
        Path | None, typer.Option(help="A TOML file of one route, as in a plan: who is expected, what is allowed.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Judge recorded exchanges: one JSON line each on standard output, with or without --json."""
    del as_json
    expected = None if route is None else wire_route(load_route(route), "")

    async def body() -> Counter[str]:
        async with _services(adapter, None) as (stub, _):
            return await _each(file, lambda line, where: adapt_line(stub, line, expected, where), "verdict")

    counts = run(lambda _: body())
    say("countersign: " + ", ".join(f"{counts[name]} {name}" for name in VERDICTS))


def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Episodes with known outcomes: JSONL, plain or gzip.")],
    adapter: AdapterAddress = None,
    verifier: VerifierAddress = None,
    as_json: AsJson = False,
) -> None:
    """Play known episodes and verify them: one JSON line each on standard output; status 1 on any disagreement."""
    del as_json

    async def body() -> Counter[str]:
        async with _services(adapter, verifier or "") as (player, judge):
            return await _each(file, lambda line, where: replay_line(player, judge, line, where), "agrees")

    counts = run(lambda _: body())
    agree, differ, unsupported = (counts[str(value)] for value in (True, False, None))
    say(f"countersign: {agree} agree, {differ} differ, {unsupported} of unsupported environments")
    raise typer.Exit(1 if differ else 0)


async def _each(file: Path, judge: Judge, counted: str) -> Counter[str]:
    """Answer every line as it is reached; how many answers have which value of `counted`."""
    counts: Counter[str] = Counter()
    for number, line in read_lines(file):
        answer = await judge(line, f"{file} line {number}")
        emit(answer)
        counts[str(answer[counted])] += 1
    return counts


@asynccontextmanager
async def _services(
    adapter: str | None, verifier: str | None
) -> AsyncIterator[tuple[adapter_pb2_grpc.AdapterServiceStub, verifier_pb2_grpc.VerifierServiceStub]]:
    """Stubs of both; `adapter` None and `verifier` empty are started, `verifier` None is not needed at all."""
    async with AsyncExitStack() as stack:
        logs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="countersign-")))
        household = await stack.enter_async_context(Household(logs, say))
        player = adapter or (await household.start(adapter_spec(""))).address
        judge = (await household.start(verifier_spec(""))).address if verifier == "" else verifier or player
        player_channel = await stack.enter_async_context(channel_to("adapter", player))
        judge_channel = await stack.enter_async_context(
            channel_to("verifier" if verifier is not None else "adapter", judge)
        )
        yield adapter_pb2_grpc.AdapterServiceStub(player_channel), verifier_pb2_grpc.VerifierServiceStub(judge_channel)
