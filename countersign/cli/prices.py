"""`countersign prices`: a frozen table of token prices, for plans to name."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from countersign.cli.output import AsJson, emit, say
from countersign.study.files import create_atomically
from countersign.study.price_snapshot import take_snapshot


def prices(
    out: Annotated[Path, typer.Option(help="The file to write; one that exists is not overwritten.")],
    providers: Annotated[
        list[str] | None, typer.Argument(metavar="[PROVIDER]...", help="All if none is named.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the token prices in force today, as the installed package genai-prices has them; nothing is fetched."""
    snapshot = take_snapshot(frozenset(providers or ()), datetime.now(UTC))
    create_atomically(out, snapshot.to_bytes())
    entries, refused = len(snapshot.document["entries"]), len(snapshot.document["refused"])
    if as_json:
        emit({"file": str(out), "digest": snapshot.digest.hex(), "entries": entries, "refused": refused})
    else:
        say(f"countersign: {out}: {entries} prices, {refused} refused with a reason; {snapshot.source}")
