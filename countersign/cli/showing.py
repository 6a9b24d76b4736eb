"""What the command line shows to services: the options before a command's name, kept for the channels it opens."""

from pathlib import Path
from typing import Annotated

import typer

from countersign.cli.output import say
from countersign.kit.errors import CountersignError
from countersign.kit.identity import Identity, load_identity
from countersign.study.errors import BadInput

TokenFile = Annotated[
    Path | None,
    typer.Option(envvar="COUNTERSIGN_TOKEN_FILE", help="A file with the token to present to services, mode 600."),
]
Ca = Annotated[
    Path | None,
    typer.Option(envvar="COUNTERSIGN_CA", help="The authorities of services at tls:HOST:PORT, PEM; else public ones."),
]
Certificate = Annotated[
    Path | None,
    typer.Option(envvar="COUNTERSIGN_CERTIFICATE", help="The certificate to show to services that ask for one, PEM."),
]
Key = Annotated[Path | None, typer.Option(envvar="COUNTERSIGN_KEY", help="That certificate's key, PEM, mode 600.")]
Insecure = Annotated[
    bool, typer.Option("--insecure", envvar="COUNTERSIGN_INSECURE", help="Allow plaintext beyond loopback.")
]


def shown_identity(
    token_file: Path | None, ca: Path | None, certificate: Path | None, key: Path | None, insecure: bool
) -> Identity:
    """The identity that the options give. Raises BadInput."""
    if insecure:
        say("countersign: INSECURE: plaintext beyond loopback is allowed: receipts, prompts and tokens can be read")
    try:
        return load_identity(token_file=token_file, ca=ca, certificate=certificate, key=key, insecure=insecure)
    except CountersignError as error:
        raise BadInput(error.message) from None
