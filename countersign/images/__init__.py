"""The image bundles that ship (design/native-harness.md, section 3), as package data."""

from importlib import resources
from importlib.resources.abc import Traversable

NAMES = ("native", "echo")
"""`native` points an agent to its workspace; `echo` exists for tests of the envelope contract."""


def shipped_image(name: str) -> dict[str, bytes]:
    """Every file of the bundle `name`, by its path. Raises KeyError for any other name."""
    if name not in NAMES:
        raise KeyError(name)
    return dict(_files(resources.files("countersign.images") / name, ""))


def _files(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for entry in folder.iterdir():
        path = f"{prefix}{entry.name}"
        found += _files(entry, f"{path}/") if entry.is_dir() else [(path, entry.read_bytes())]
    return found
