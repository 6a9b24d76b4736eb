"""Reading and writing files so that a crash leaves the old content or the new, never half of it."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from countersign.study.errors import BadInput


def write_atomically(path: Path, content: bytes) -> None:
    """Write a temporary file beside `path`, flush it to the disk and rename it. Raises BadInput where that fails."""
    with atomic_file(path) as file:
        file.write(content)


@contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write piece by piece, which appears at `path` when the context ends well. Raises BadInput."""
    try:
        with _temporary(path, os.replace) as file:
            yield file
    except OSError as error:
        raise BadInput(f"{path} cannot be written ({error.strerror}): choose another folder or make room") from None


def create_atomically(path: Path, content: bytes) -> None:
    """As `write_atomically`, for the owner's eyes only and never over a file that exists. Raises BadInput."""
    try:
        with _temporary(path, os.link) as file:
            file.write(content)
    except FileExistsError:
        raise BadInput(f"{path} exists and is not overwritten: choose another name") from None
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


@contextmanager
def _temporary(path: Path, publish: Callable[[str, Path], None]) -> Iterator[IO[bytes]]:
    """A temporary file beside `path`; once it is complete and on the disk, `publish` gives it its name."""
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        publish(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
