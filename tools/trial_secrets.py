"""Every secret that deploy/compose.yaml names, for trying it out: `python tools/trial_secrets.py deploy/secrets`.

Certificates of an authority whose key is forgotten (tools/make_ca.py), tokens, and a database password. A folder that
exists is refused. `--owner` gives the files to the images' user, which needs root. Needs the development dependencies.
"""

import argparse
import os
import secrets
import shutil
from datetime import UTC, datetime
from pathlib import Path

from make_ca import Authority

from countersign.kit.access import Role
from countersign.kit.access_file import mint_token

IMAGE_USER = 65532
DATABASE_USER = 999
"""Whose PostgreSQL's files are in its image."""

SERVERS = ("ledger", "adapter", "verifier", "postgres")
CLIENTS = ("probe", "adapter-client", "verifier-client", "operator")
TOKENS = {"adapter": (Role.ADAPTER,), "verifier": (Role.AUDITOR,), "operator": (Role.OPERATOR, Role.COLLECTOR)}


def make(folder: Path) -> None:
    """Write all of them into a new `folder`, each for its owner alone. Raises FileExistsError."""
    folder.mkdir(mode=0o711)
    authority = Authority()
    _write(folder / "ca.crt", authority.certificate.decode())
    for name in SERVERS:
        pair = authority.server([name, "localhost"])
        _write(folder / f"{name}.crt", pair.certificate.decode())
        _write(folder / f"{name}.key", pair.key.decode())
    for name in CLIENTS:
        pair = authority.client(name)
        _write(folder / f"{name}.crt", pair.certificate.decode())
        _write(folder / f"{name}.key", pair.key.decode())
    for name, roles in TOKENS.items():
        _write(folder / f"{name}.token", mint_token(folder / "access.toml", name, roles, datetime.now(UTC)))
    password = secrets.token_urlsafe(24)
    _write(folder / "postgres.password", password)
    tls = "sslmode=verify-full sslrootcert=/run/secrets/ca.crt"
    _write(folder / "ledger.dsn", f"host=postgres dbname=ledger user=ledger password={password} {tls}")


def give(folder: Path) -> None:
    """Let the images' users own what they read."""
    for path in folder.iterdir():
        owner = DATABASE_USER if path.name.startswith("postgres.") else IMAGE_USER
        shutil.chown(path, owner, owner)


def _write(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text)


def main() -> None:
    """Make the folder that the arguments name."""
    parser = argparse.ArgumentParser(description="Every secret that deploy/compose.yaml names, for trying it out.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--owner", action="store_true", help="give the files to the images' users; needs root")
    given = parser.parse_args()
    make(given.folder)
    if given.owner:
        give(given.folder)


if __name__ == "__main__":
    main()
