"""One ledger process a file: an advisory lock beside the database, held for the store's whole life."""

import fcntl
import os
from pathlib import Path

from ledger_svc import errors


class FileLock:
    """An exclusive lock that ends with the process, however that ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    @classmethod
    def take(cls, path: Path) -> "FileLock":
        """Lock the file at `path`, making it where it is absent.

        Raises StoreUnavailableError (`in_use`) at once where another holds it, and OSError where it cannot be made.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise errors.StoreUnavailableError(
                "another ledger serves this file; stop it or use another file", problem="in_use"
            ) from None
        return cls(descriptor)

    def release(self) -> None:
        """Let go; doing so twice is harmless."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
