"""`countersign solve`: exact comparators of whole files of configurations, by the verifier."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from countersign.cli.output import AsJson, emit, say
from countersign.cli.running import run
from countersign.cli.standing import VerifierAddress
from countersign.study.children import verifier_spec
from countersign.study.errors import BadInput
from countersign.study.files import make_folder, write_atomically
from countersign.study.processes import Household
from countersign.study.services import channel_to
from countersign.study.solving import Configuration, Solved, read_configurations, solve_configuration
from countersign.verifier.v1 import verifier_pb2_grpc

Stub = verifier_pb2_grpc.VerifierServiceStub

LINES_PER_VERIFIER = 4
"""How many configurations are worth the start of one more verifier, up to one for each core."""

CALLS_PER_ADDRESS = 2
"""How many configurations a verifier that is running already is asked for at a time."""


def solve(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Configurations: a JSON list or JSONL, or gzip.")],
    verifier: VerifierAddress = None,
    state_limit: Annotated[
        int, typer.Option(min=0, help="The most belief states to visit; 0: the verifier's default.")
    ] = 0,
    raw_histories: Annotated[
        bool, typer.Option("--raw-histories", help="Solve over raw histories: slow, to check the method.")
    ] = False,
    policy: Annotated[Path | None, typer.Option(metavar="DIR", help="Write policies and certificates here.")] = None,
    as_json: AsJson = False,
) -> None:
    """Solve configurations exactly: one JSON line each on standard output; status 2 where any could not be solved."""
    del as_json
    configurations = read_configurations(file)
    if policy is not None:
        make_folder(policy)

    async def body() -> int:
        readable = [one for one in configurations if isinstance(one, Configuration)]
        async with _verifiers(verifier, len(readable)) as stubs:
            return await _answer(stubs, configurations, state_limit, raw_histories, policy)

    unsolved = run(lambda _: body())
    solved = len(configurations) - unsolved
    say(f"countersign: {solved} solved, {unsolved} not")
    raise typer.Exit(2 if unsolved else 0)


async def _answer(
    stubs: Sequence[Stub],
    configurations: Sequence[Configuration | BadInput],
    state_limit: int,
    raw_histories: bool,
    folder: Path | None,
) -> int:
    """Answer in the file's order, as soon as each is known; how many were not solved. Each gets its own line."""
    free: asyncio.Queue[Stub] = asyncio.Queue()
    for stub in stubs:
        free.put_nowait(stub)

    async def ask(one: Configuration | BadInput) -> Solved | BadInput:
        if isinstance(one, BadInput):
            return one
        stub = await free.get()
        try:
            return await solve_configuration(stub, one, state_limit, raw_histories)
        finally:
            free.put_nowait(stub)

    unsolved = 0
    tasks = [asyncio.create_task(ask(one)) for one in configurations]
    try:
        for number, task in enumerate(tasks, start=1):
            answer = await task
            if isinstance(answer, BadInput):
                unsolved += 1
                say(f"countersign: {answer.message}")
            else:
                emit(answer.line | ({} if folder is None else _write(folder, number, answer)))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return unsolved


def _write(folder: Path, number: int, solved: Solved) -> dict[str, str]:
    """Write the policy and the certificate exactly as they came; where they are. Raises BadInput."""
    paths = {
        "policy_file": folder / f"{number:04d}.policy.json",
        "certificate_file": folder / f"{number:04d}.certificate.json",
    }
    for path, content in zip(paths.values(), (solved.policy, solved.certificate), strict=True):
        write_atomically(path, content)
    return {name: str(path) for name, path in paths.items()}


@asynccontextmanager
async def _verifiers(address: str | None, count: int) -> AsyncIterator[list[Stub]]:
    """Stubs to ask, as often as each may be asked at a time; without an address, verifiers are started."""
    async with AsyncExitStack() as stack:
        if address is not None:
            channel = await stack.enter_async_context(channel_to("verifier", address))
            yield [Stub(channel)] * CALLS_PER_ADDRESS
            return
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        wanted = max(1, min(cores, count // LINES_PER_VERIFIER))
        logs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="countersign-")))
        household = await stack.enter_async_context(Household(logs, say))
        specs = [replace(verifier_spec(""), name=f"verifier-{number}") for number in range(1, wanted + 1)]
        children = await asyncio.gather(*(household.start(spec) for spec in specs))
        channels = [await stack.enter_async_context(channel_to("verifier", child.address)) for child in children]
        yield [Stub(channel) for channel in channels]
