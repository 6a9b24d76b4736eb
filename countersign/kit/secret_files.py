"""Files that hold secrets or decide on rights: read only where strangers on this machine cannot read or change them."""

import os
import stat
from pathlib import Path

import grpc

from countersign.kit.errors import CountersignError

MAX_SECRET_FILE_BYTES = 1024 * 1024
"""The largest file that is read: no token, key or list of callers comes near it."""

_FORBIDDEN_BITS = stat.S_IRWXO | stat.S_IWGRP | stat.S_IXGRP


class BadSecretFile(CountersignError):
    """A file with secrets that cannot be used; the message names the file and never what is in it."""

    reason = "INVALID_ARGUMENT"
    status = grpc.StatusCode.INVALID_ARGUMENT


def read_secret_file(path: Path, what: str) -> bytes:
    """The bytes of `path`. `what` names it in messages ("the token file").

    Its mode may allow the owner anything and the group to read (a secret mounted into a container is often given to a
    group), and others nothing. The mode checked is that of the very file read. Raises BadSecretFile.
    """
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise BadSecretFile(f"{what} {path} is no file")
            if status.st_mode & _FORBIDDEN_BITS:
                raise BadSecretFile(f"{what} {path} can be read or changed by others: chmod 600 it")
            data = file.read(MAX_SECRET_FILE_BYTES + 1)
    except OSError as error:
        raise BadSecretFile(f"{what} {path} cannot be read: {error.strerror}") from None
    if len(data) > MAX_SECRET_FILE_BYTES:
        raise BadSecretFile(f"{what} {path} is larger than {MAX_SECRET_FILE_BYTES} bytes")
    return data
