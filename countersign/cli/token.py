"""`countersign ledger token`: a new token for an access file."""

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from countersign.cli.output import AsJson, emit, say
from countersign.kit.access import Role
from countersign.kit.access_file import mint_token
from countersign.kit.errors import CountersignError
from countersign.study.errors import BadInput


def token(
    role: Annotated[list[Role], typer.Option(help="What its bearer may do; may be given more than once.")],
    name: Annotated[str, typer.Option(help="Who bears it: a name for the logs, one token each.")],
    file: Annotated[Path, typer.Option(help="The access file that its hash is added to; made where absent.")],
    out: Annotated[
        Path | None, typer.Option(help="A new file for the token, readable by you alone; printed if not given.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Mint a token: its hash goes into the access file, and the token itself is shown once and kept nowhere.

    A running service knows it after SIGHUP.
    """
    with_file = None if out is None else _new_secret_file(out)
    try:
        minted = mint_token(file, name, role, datetime.now(UTC))
    except CountersignError as error:
        if out is not None and with_file is not None:
            os.close(with_file)
            out.unlink()
        raise BadInput(error.message) from None
    if with_file is not None:
        with os.fdopen(with_file, "w", encoding="ascii") as written:
            written.write(minted + "\n")
    shown = {"token": minted} if out is None else {"token_file": str(out)}
    if as_json:
        emit({"name": name, "roles": sorted(role), "access_file": str(file), **shown})
    elif out is None:
        sys.stdout.write(minted + "\n")
    say(f"countersign: {name} is in {file}; send SIGHUP to a service that is running with it")


def _new_secret_file(path: Path) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise BadInput(f"--out {path}: {error.strerror}") from None
