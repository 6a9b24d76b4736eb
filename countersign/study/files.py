"""Reading and writing files so that a crash leaves the old content or the new, never half of it."""

import os
import tempfile
from pathlib import Path

from countersign.study.errors import BadInput


def write_atomically(path: Path, content: bytes) -> None:
    """Write a temporary file beside `path`, flush it to the disk and rename it. Raises BadInput where that fails."""
    try:
        _write(path, content)
    except OSError as error:
        raise BadInput(f"{path} cannot be written ({error.strerror}): choose another folder or make room") from None


def read_bytes(path: Path) -> bytes:
    """The file's content. Raises BadInput."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror})") from None


def make_folder(path: Path) -> None:
    """Make a folder and its parents. Raises BadInput."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"the folder {path} cannot be made ({error.strerror}): choose another") from None


def _write(path: Path, content: bytes) -> None:
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
