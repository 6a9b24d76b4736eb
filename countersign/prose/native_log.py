"""The harness's own records on disk: each before it is judged, without secrets, none left out silently (section 6)."""

import hashlib
import os
from pathlib import Path
from typing import Final

from countersign.kit.canonical import canonical_json
from countersign.prose.codes import Code, ProseError
from countersign.prose.redaction import Redactor

MAX_RECORD_BYTES: Final = 1024 * 1024
"""A longer line is no record (section 5): its length and digest are kept in its place."""


class NativeLog:
    """One log file, made by `open_native_log`. What cannot be written as a record is written as what it was."""

    def __init__(self, descriptor: int, redactor: Redactor) -> None:
        self._descriptor = descriptor
        self._redactor = redactor
        self._unfinished = bytearray()
        self._over: hashlib._Hash | None = None
        self._over_bytes = 0

    def feed(self, data: bytes) -> None:
        """Write the records that `data` ends. Raises OSError."""
        *ended, rest = data.split(b"\n")
        lines = []
        for part in ended:
            self._keep(part)
            lines.append(self._take())
        self._keep(rest)
        self._write(b"".join(lines))

    def close(self) -> None:
        """Write what is left over, and close. Raises OSError."""
        try:
            if self._unfinished or self._over is not None:
                unfinished = bytes(self._unfinished)
                self._write(_instead("unfinished", self._over_bytes or len(unfinished), self._digest_of(unfinished)))
        finally:
            os.close(self._descriptor)

    def _keep(self, part: bytes) -> None:
        if self._over is None and len(self._unfinished) + len(part) <= MAX_RECORD_BYTES + 1:
            self._unfinished += part
            return
        if self._over is None:
            self._over = hashlib.sha256(self._unfinished)
            self._over_bytes = len(self._unfinished)
            self._unfinished.clear()
        self._over.update(part)
        self._over_bytes += len(part)

    def _take(self) -> bytes:
        line, over, size = bytes(self._unfinished), self._over, self._over_bytes
        self._unfinished.clear()
        self._over, self._over_bytes = None, 0
        if over is not None:
            return _instead("too long", size, over.hexdigest())
        record = self._redactor.record(line.removesuffix(b"\r"))
        if record is None:
            return _instead("not JSON", len(line), hashlib.sha256(line).hexdigest())
        return record + b"\n"

    def _digest_of(self, unfinished: bytes) -> str:
        return (self._over or hashlib.sha256(unfinished)).hexdigest()

    def _write(self, content: bytes) -> None:
        while content:
            content = content[os.write(self._descriptor, content) :]


def _instead(what: str, size: int, digest: str) -> bytes:
    return canonical_json({"proseNotRecorded": what, "bytes": size, "sha256": digest}) + b"\n"


def open_native_log(path: Path, redactor: Redactor) -> NativeLog:
    """Make the file, which must not exist, for its owner alone. Raises ProseError, INVOCATION_INVALID."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o600)
        os.fchmod(descriptor, 0o600)
    except OSError as error:
        raise ProseError(Code.INVOCATION_INVALID, f"--native-log cannot be made: {error.strerror}") from None
    return NativeLog(descriptor, redactor)
