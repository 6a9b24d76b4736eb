"""The access file: who may call a service, as TOML that people can read, comment and review.

A token is 32 random bytes, so its hash is a plain SHA-256: a slow or salted hash makes guessing a *chosen* password
dear, and 256 random bits are beyond guessing at any speed. What is stored is of no use to whoever reads it.
"""

import hashlib
import hmac
import os
import re
import secrets
import tomllib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import structlog

from countersign.kit.access import Caller, Presented, Role
from countersign.kit.errors import CountersignError
from countersign.kit.secret_files import read_secret_file

log = structlog.get_logger()

TOKEN_BYTES = 32
WHAT = "the access file"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,99}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_TOKEN_KEYS = {"name", "roles", "sha256", "created"}
_CERTIFICATE_KEYS = {"name", "roles"}


class BadAccessFile(CountersignError):
    """An access file that is not of the documented form, or a name that cannot be added to it."""

    reason = "INVALID_ARGUMENT"
    status = grpc.StatusCode.INVALID_ARGUMENT


@dataclass(frozen=True, slots=True)
class _Known:
    tokens: Sequence[Caller]
    certificates: Sequence[Caller]


class AccessFile:
    """The callers that a file names. Implements Callers.

    Raises BadSecretFile or BadAccessFile where the file cannot be used at first.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = _read(path)

    def find(self, presented: Presented) -> Caller | None:
        """Whoever the token names; only a call without one is known by its certificate's common name."""
        if presented.token is None:
            matching = [one for one in self._known.certificates if one.name == presented.common_name]
            return matching[0] if matching else None
        if not presented.token:
            return None
        digest = token_digest(presented.token)
        found = None
        for caller in self._known.tokens:
            # Every hash is compared, each in constant time: how long it takes tells nothing about any.
            if hmac.compare_digest(caller.digest, digest):
                found = caller
        return found

    def knows(self, caller: Caller) -> bool:
        """Whether the file, as last read, still names this caller."""
        return caller in (self._known.tokens if caller.digest else self._known.certificates)

    def reload(self) -> None:
        """Read the file anew; one that cannot be used changes nothing, and the log says so."""
        try:
            self._known = _read(self._path)
        except CountersignError as error:
            log.error("access_file_not_reloaded", problem=error.message)
            return
        log.info("access_file_reloaded", **self.counts())

    def counts(self) -> dict[str, int]:
        """How many callers of each kind are known, for the log."""
        return {"tokens": len(self._known.tokens), "certificates": len(self._known.certificates)}


def token_digest(token: str) -> bytes:
    """The SHA-256 by which a token is known."""
    return hashlib.sha256(token.encode("utf-8")).digest()


def mint_token(path: Path, name: str, roles: Collection[Role], now: datetime) -> str:
    """Make a token, append its hash to the access file at `path` (made where absent, mode 600), and return it.

    It is nowhere else afterwards. `now` is an aware time. Raises BadAccessFile for a name that is taken or malformed or
    no roles, and BadSecretFile where the file is not the owner's alone to change.
    """
    if not _NAME.fullmatch(name):
        raise BadAccessFile(f"the name {name!r} must be 1 to 100 letters, digits, dots, hyphens, underscores or @")
    if not roles:
        raise BadAccessFile(f"{name} has no role")
    if path.exists() and any(caller.name == name for caller in _read(path).tokens):
        raise BadAccessFile(f"{WHAT} {path} has a token named {name} already: take that out, or choose another name")
    token = secrets.token_urlsafe(TOKEN_BYTES)
    listed = ", ".join(f'"{role}"' for role in sorted(roles))
    created = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    digest = token_digest(token).hex()
    entry = f'\n[[token]]\nname = "{name}"\nroles = [{listed}]\nsha256 = "{digest}"\ncreated = {created}\n'
    _append(path, entry)
    return token


def _append(path: Path, text: str) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "ab") as file:
            file.write(text.encode("ascii"))
    except OSError as error:
        raise BadAccessFile(f"{WHAT} {path} cannot be written: {error.strerror}") from None


def _read(path: Path) -> _Known:
    data = read_secret_file(path, WHAT)
    try:
        document = tomllib.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError):
        raise BadAccessFile(f"{WHAT} {path} is not TOML") from None
    unknown = sorted(set(document) - {"token", "certificate"})
    if unknown:
        raise BadAccessFile(f"{WHAT} {path} has {unknown[0]!r}: only [[token]] and [[certificate]] are known")
    tokens = _callers(path, document.get("token", []), "token", _TOKEN_KEYS)
    certificates = _callers(path, document.get("certificate", []), "certificate", _CERTIFICATE_KEYS)
    return _Known(tokens, certificates)


def _callers(path: Path, entries: Any, table: str, keys: set[str]) -> tuple[Caller, ...]:
    if not isinstance(entries, list):
        raise BadAccessFile(f"{WHAT} {path}: write [[{table}]] rather than [{table}]")
    callers = []
    for number, entry in enumerate(entries, start=1):
        where = f"{WHAT} {path}: {table} {number}"
        if not isinstance(entry, dict) or not set(entry) <= keys:
            raise BadAccessFile(f"{where} may have {', '.join(sorted(keys))} only")
        callers.append(_caller(where, entry, digested="sha256" in keys))
    for kind in ("name", "digest") if table == "token" else ("name",):
        values = [getattr(caller, kind) for caller in callers]
        if len(set(values)) < len(values):
            raise BadAccessFile(f"{WHAT} {path}: two [[{table}]] entries have one {kind}")
    return tuple(callers)


def _caller(where: str, entry: dict[str, Any], *, digested: bool) -> Caller:
    name, roles, digest = entry.get("name"), entry.get("roles"), entry.get("sha256")
    if not isinstance(name, str) or not (_NAME.fullmatch(name) if digested else name.strip()):
        raise BadAccessFile(f"{where}: name is missing or malformed")
    if not isinstance(roles, list) or not roles or not set(map(str, roles)) <= set(Role):
        raise BadAccessFile(f"{where}: roles must be a list of {', '.join(Role)}")
    if digested and not (isinstance(digest, str) and _DIGEST.fullmatch(digest)):
        raise BadAccessFile(f"{where}: sha256 must be 64 lower-case hexadecimal digits")
    return Caller(name, frozenset(map(Role, roles)), bytes.fromhex(digest) if isinstance(digest, str) else b"")
