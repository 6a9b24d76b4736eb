"""Reading JSONL files, gzip or plain, one checked line at a time."""

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from countersign.study.errors import BadInput

GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW = 31
_PIECE_BYTES = 65_536


def read_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a JSONL file with their line numbers from 1; blank lines are passed over.

    Raises BadInput naming the line when it is reached; what came before has been given by then.
    """
    number = 0
    try:
        with path.open("rb") as raw:
            zipped = raw.read(2) == GZIP_MAGIC
            raw.seek(0)
            for line in _split(_unzip(raw)) if zipped else raw:
                number += 1
                if line.strip():
                    yield number, _object(line, f"{path} line {number}")
    except (EOFError, zlib.error):
        raise BadInput(f"{path} line {number + 1}: the gzip data is damaged") from None
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror}): name an existing JSONL file") from None


def member(line: Mapping[str, Any], name: str, kind: type, where: str) -> Any:
    """The member `name`, of exactly the type `kind`. Raises BadInput."""
    value = line.get(name)
    if type(value) is not kind:
        wanted = {str: "a text", int: "a whole number", bool: "true or false", dict: "an object", list: "a list"}[kind]
        raise BadInput(f"{where}: {name}: must be {wanted}")
    return value


def _unzip(raw: IO[bytes]) -> Iterator[bytes]:
    """What a gzip file holds, piece by piece as far as it is sound. Raises EOFError and zlib.error where it is not."""
    member_bytes, stream = 0, zlib.decompressobj(_GZIP_WINDOW)
    while piece := raw.read(_PIECE_BYTES):
        while piece:
            member_bytes += len(piece)
            yield stream.decompress(piece)
            piece = stream.unused_data
            if stream.eof:
                member_bytes, stream = 0, zlib.decompressobj(_GZIP_WINDOW)
    if member_bytes:
        raise EOFError


def _split(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of what comes in pieces; the last may lack its end."""
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
    if rest:
        yield rest


def _object(line: bytes, where: str) -> dict[str, Any]:
    try:
        value = json.loads(line, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise BadInput(f"{where}: is not JSON") from None
    if not isinstance(value, dict):
        raise BadInput(f"{where}: is not a JSON object")
    return value


def _refuse(name: str) -> Any:
    raise ValueError(name)
