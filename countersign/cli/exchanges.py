"""`countersign replay`: known episodes, played and verified without a study."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from countersign.cli.output import AsJson, emit, say
from countersign.cli.running import run
from countersign.cli.standing import AdapterAddress, VerifierAddress, standing_services
from countersign.study.lines import read_lines
from countersign.study.replaying import replay_line

Judge = Callable[[Mapping[str, Any], str], Awaitable[dict[str, Any]]]


def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Episodes with known outcomes: JSONL, plain or gzip.")],
    adapter: AdapterAddress = None,
    verifier: VerifierAddress = None,
    as_json: AsJson = False,
) -> None:
    """Play known episodes and verify them: one JSON line each on standard output; status 1 on any disagreement."""
    del as_json

    async def body() -> Counter[str]:
        async with standing_services(adapter, verifier or "") as (player, judge):
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
