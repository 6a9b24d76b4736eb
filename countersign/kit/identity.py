"""What a client shows to a service: a token, a certificate, both or nothing."""

from dataclasses import dataclass, field
from pathlib import Path

import grpc

from countersign.kit.errors import CountersignError
from countersign.kit.secret_files import read_secret_file
from countersign.kit.settings import LedgerClientSettings
from countersign.kit.tls import channel_credentials

MIN_TOKEN_CHARACTERS = 32
"""Tokens are 43 characters; anything this short was not made as one."""


class BadToken(CountersignError):
    """A token file that does not hold one token; the message never says what it holds."""

    reason = "INVALID_ARGUMENT"
    status = grpc.StatusCode.INVALID_ARGUMENT


@dataclass(frozen=True, slots=True)
class Identity:
    """A client's side of access.

    `credentials` are for tls: addresses, None for public authorities and no certificate; `insecure` allows plaintext
    beyond loopback.
    """

    token: str | None = field(default=None, repr=False)
    credentials: grpc.ChannelCredentials | None = field(default=None, repr=False)
    insecure: bool = False


ANONYMOUS = Identity()
"""Shows nothing."""


def load_identity(
    *,
    token_file: Path | None = None,
    ca: Path | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
    insecure: bool = False,
) -> Identity:
    """An identity out of files. Raises BadToken, BadSecretFile or BadTls."""
    token = None if token_file is None else _read_token(token_file)
    asks_for_tls = any(path is not None for path in (ca, certificate, key))
    credentials = channel_credentials(ca, certificate, key) if asks_for_tls else None
    return Identity(token, credentials, insecure)


def ledger_identity(settings: LedgerClientSettings) -> Identity:
    """What a service shows to the ledger. Raises as `load_identity` does."""
    return load_identity(
        token_file=settings.ledger_token_file,
        ca=settings.ledger_ca,
        certificate=settings.ledger_certificate,
        key=settings.ledger_key,
        insecure=settings.insecure,
    )


def _read_token(path: Path) -> str:
    """The one line of the file; visible ASCII only, as a header must be."""
    token = read_secret_file(path, "the token file").decode("ascii", "replace").strip()
    if len(token) < MIN_TOKEN_CHARACTERS or not all("!" <= character <= "~" for character in token):
        raise BadToken(f"the token file {path} does not hold one token, as 'countersign ledger token' prints it")
    return token
