"""`countersign adapt`: recorded exchanges of every wire format, judged without a study."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from countersign.adapter.v1 import adapter_pb2 as adapter_api
from countersign.cli.output import AsJson, emit_unflushed, flush, progress_console, say
from countersign.cli.running import run
from countersign.cli.standing import AdapterAddress, standing_services
from countersign.study.adapting import VERDICTS, adapt_line
from countersign.study.errors import BadInput
from countersign.study.in_order import in_order
from countersign.study.lines import read_lines
from countersign.study.plan import load_route
from countersign.study.routes import wire_route

IN_FLIGHT = 32
IN_FLIGHT_CHARACTERS = 16 * 1024 * 1024
"""Of the bodies in flight together: one of the largest may join what is below this."""

Kind = tuple[str, str, str, str]
"""Format, unary or stream, verdict and reason."""


def adapt(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Recorded exchanges: JSONL, plain or gzip.")],
    adapter: AdapterAddress = None,
    route: Annotated[
        Path | None, typer.Option(help="A TOML file of one route, as in a plan: who is expected, what is allowed.")
    ] = None,
    requested_model: Annotated[
        bool, typer.Option("--requested-model", help="Expect the model that each request asks for; without, any.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Judge recorded exchanges of any format, whole or streamed: one JSON line each on standard output.

    A table of what came of them follows on standard error; not with --json.
    """
    if route is not None and requested_model:
        raise BadInput("give --route or --requested-model: a route says which model is expected")
    expected = None if route is None else wire_route(load_route(route), "")
    counts = run(lambda _: _judge(file, adapter, expected, requested_model))
    if not as_json:
        progress_console().print(_table(counts))
    verdicts = Counter[str]()
    for (_, _, verdict, _), count in counts.items():
        verdicts[verdict] += count
    say("countersign: " + ", ".join(f"{verdicts[name]} {name}" for name in VERDICTS))


async def _judge(
    file: Path, address: str | None, expected: adapter_api.Route | None, requested_model: bool
) -> Counter[Kind]:
    """Answer every line in the file's order; how many exchanges came to what."""
    counts: Counter[Kind] = Counter()
    async with standing_services(address, None) as (stub, _):
        answers = in_order(
            read_lines(file),
            lambda line: adapt_line(stub, line[1], expected, f"{file} line {line[0]}", requested_model=requested_model),
            lambda line: len(line[1].get("response_body") or ""),
            in_flight=IN_FLIGHT,
            in_flight_weight=IN_FLIGHT_CHARACTERS,
        )
        try:
            async for answer in answers:
                emit_unflushed(answer)
                counts[_kind(answer)] += 1
        finally:
            flush()
            await answers.aclose()
    return counts


def _kind(answer: Mapping[str, Any]) -> Kind:
    form = "stream" if answer["stream"] else "unary"
    return str(answer["format"]), form, str(answer["verdict"]), str(answer["reason"] or "")


def _table(counts: Counter[Kind]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("format", "form", "verdict", "reason"):
        table.add_column(name, overflow="fold")
    table.add_column("exchanges", justify="right")
    last = None
    for kind, count in sorted(counts.items()):
        if last is not None and kind[:2] != last:
            table.add_section()
        table.add_row(*(kind if kind[:2] != last else ("", "", *kind[2:])), str(count))
        last = kind[:2]
    return table
