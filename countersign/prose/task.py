"""What the harness is given to do: the image, and the task as the image's contract words it (sections 2 and 3)."""

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import jsonschema

from countersign.images import NAMES, shipped_image
from countersign.kit.image import (
    MAX_BUNDLE_BYTES,
    MAX_FILES,
    ImageBundle,
    ImageError,
    ImageTooLarge,
    load_bundle,
)
from countersign.prose.codes import Code, ProseError
from countersign.prose.settings import Contract, Settings

PLACEMENTS: Final = frozenset({"system-append"})
"""Where every recipe can put an image: after the system's own instructions."""
DEFAULT_IMAGE: Final = "native"
_DEPTH: Final = 8


@dataclass(frozen=True, slots=True)
class Task:
    """The image's files and bundle, the invocation's arguments, and the text for the user channel."""

    files: Mapping[str, bytes]
    bundle: ImageBundle
    argv: tuple[str, ...]
    text: str


def make_task(settings: Settings, language: tuple[str, ...]) -> Task:
    """Load the image and word the task. Raises ProseError."""
    if settings.image is None and settings.contract is Contract.IMAGE_ENVELOPE:
        raise ProseError(Code.INVOCATION_INVALID, "name an --image, or say --output-contract native")
    name = settings.image or DEFAULT_IMAGE
    files = shipped_image(name) if name in NAMES else _read_folder(settings.cwd / name)
    try:
        bundle = load_bundle(files)
    except ImageTooLarge as error:
        raise ProseError(Code.IMAGE_TOO_LARGE, error.message) from None
    except ImageError as error:
        raise ProseError(Code.IMAGE_INVALID, error.message) from None
    if not PLACEMENTS.issuperset(bundle.placements):
        raise ProseError(
            Code.PROMPT_CHANNEL_UNSUPPORTED, f"the image has placements other than {', '.join(PLACEMENTS)}"
        )
    return Task(files, bundle, language, _word(bundle, language))


def _word(bundle: ImageBundle, language: tuple[str, ...]) -> str:
    """The framing, then the task as one line of JSON, its members in order and its text as it is."""
    envelope = {"argv": list(language)}
    try:
        line = json.dumps(envelope, ensure_ascii=False, separators=(",", ":"))
        line.encode("utf-8")
    except UnicodeEncodeError:
        raise ProseError(Code.INVOCATION_INVALID, "the program's arguments must be UTF-8") from None
    try:
        jsonschema.validate(envelope, json.loads(bundle.task_schema))
    except jsonschema.ValidationError:
        raise ProseError(Code.INVOCATION_INVALID, "the image's task schema refuses the program's arguments") from None
    except Exception:  # noqa: BLE001 - whatever the schema file makes the library raise, it is the image's fault
        raise ProseError(Code.IMAGE_INVALID, "the task schema cannot be used") from None
    framing = bundle.framing.decode("utf-8")
    return f"{framing.rstrip()}\n{line}\n"


def _read_folder(folder: Path) -> dict[str, bytes]:
    """Every file of a bundle's folder. Raises ProseError; nothing outside of the folder is read."""
    files: dict[str, bytes] = {}
    left = MAX_BUNDLE_BYTES
    try:
        if not folder.is_dir():
            raise ProseError(Code.IMAGE_INVALID, "--image is neither a folder nor a bundle that ships")
        for path in _walk(folder, 0):
            content = _read_plain(path, left + 1)
            left -= len(content)
            if left < 0 or len(files) >= MAX_FILES:
                raise ProseError(
                    Code.IMAGE_TOO_LARGE, f"an image may have {MAX_FILES} files and {MAX_BUNDLE_BYTES} bytes"
                )
            files[path.relative_to(folder).as_posix()] = content
    except (OSError, ValueError):
        raise ProseError(Code.IMAGE_INVALID, "the image's folder cannot be read, or holds no plain file") from None
    return files


def _walk(folder: Path, depth: int) -> list[Path]:
    found: list[Path] = []
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda one: one.name):
            if entry.is_dir(follow_symlinks=False) and depth < _DEPTH:
                found += _walk(Path(entry.path), depth + 1)
            else:
                found.append(Path(entry.path))
    return found


def _read_plain(path: Path, limit: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("no plain file")
        return file.read(limit)
