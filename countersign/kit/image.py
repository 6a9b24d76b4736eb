"""Image bundles: verified over their files' contents (design/native-harness.md, section 3). Nothing is opened here.

A bundle is `manifest.json`, `payload/*.md` and `contracts/*`, and nothing else. Markdown is opaque bytes.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

MANIFEST_PATH: Final = "manifest.json"
MANIFEST_SCHEMA: Final = "openprose.skill-runtime-image-manifest/1"
IMAGE_FORMAT: Final = "openprose.skill-runtime-image/1"
MEDIA_TYPE: Final = "text/markdown; charset=utf-8"
AGGREGATE_ALGORITHM: Final = "sha256-path-length-nul-v1"
SERIALIZATION: Final = "ordered-raw-concatenation-v1"
NORMALIZATION: Final = {"byteOrderMark": "forbidden", "encoding": "utf-8", "newlines": "lf", "pathSeparator": "/"}
STRICTNESS: Final = frozenset({"strict", "degraded"})
VERSIONS: Final = (
    "imageVersion",
    "languageVersion",
    "skillVersion",
    "runtimeContractVersion",
    "semanticSourceRevision",
)
CONTRACTS: Final = ("taskEnvelope", "oneFieldFraming", "terminalEnvelope")
OPTIONAL_MEMBERS: Final = frozenset({"purpose", "releaseEligible", "minimumTransportRequirements"})
MEMBERS: Final = frozenset(
    {
        "schema",
        "imageFormatVersion",
        *VERSIONS,
        "normalization",
        "payload",
        "modelVisibleBytes",
        "aggregateSha256",
        "instructionPlacements",
        *CONTRACTS,
    }
)
MAX_FILES: Final = 256
MAX_BUNDLE_BYTES: Final = 4 * 1024 * 1024
MAX_TEXT_CHARACTERS: Final = 1024

_NAME: Final = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}"
_PAYLOAD_PATH: Final = re.compile(rf"payload/{_NAME}\.md")
_CONTRACT_PATH: Final = re.compile(rf"contracts/{_NAME}")
_BOM: Final = b"\xef\xbb\xbf"


class ImageError(Exception):
    """The bundle cannot be used; `message` says why."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ImageTooLarge(ImageError):
    """More files or bytes than a bundle may have."""


@dataclass(frozen=True, slots=True)
class ImageBundle:
    """A verified bundle. `digest` is the aggregate one, over the payload; `placements` are the ids in order."""

    version: str
    payload: tuple[tuple[str, bytes], ...]
    digest: bytes
    manifest_digest: bytes
    placements: tuple[str, ...]
    task_schema: bytes
    framing: bytes
    terminal_schema_id: str
    terminal_schema: bytes

    @property
    def model_visible(self) -> bytes:
        """What a model is given: the payload's bytes, joined in order."""
        return b"".join(content for _, content in self.payload)


def load_bundle(files: Mapping[str, bytes]) -> ImageBundle:
    """Verify a bundle, given every file's content by its path with `/` between folders.

    Raises ImageError, or ImageTooLarge.
    """
    if len(files) > MAX_FILES or sum(map(len, files.values())) > MAX_BUNDLE_BYTES:
        raise ImageTooLarge(f"an image may have {MAX_FILES} files and {MAX_BUNDLE_BYTES} bytes")
    for path, content in files.items():
        _require_text(path, content)
    manifest = _manifest(files)
    payload = [_payload(entry, files) for entry in _objects(manifest, "payload")]
    contracts = {name: _contract(_object(manifest, name), files) for name in CONTRACTS}
    _require_exact_set(files, [path for path, _ in payload], [path for path, _ in contracts.values()])
    return ImageBundle(
        version=_text(manifest, "imageVersion"),
        payload=tuple(payload),
        digest=_verified_digest(manifest, payload),
        manifest_digest=hashlib.sha256(files[MANIFEST_PATH]).digest(),
        placements=_placements(manifest),
        task_schema=contracts["taskEnvelope"][1],
        framing=contracts["oneFieldFraming"][1],
        terminal_schema_id=_text(_object(manifest, "terminalEnvelope"), "schemaId"),
        terminal_schema=contracts["terminalEnvelope"][1],
    )


def aggregate_digest(payload: Iterable[tuple[str, bytes]]) -> bytes:
    """SHA-256 over, for each file: path, NUL, decimal length, NUL, content, NUL."""
    digest = hashlib.sha256()
    for path, content in payload:
        digest.update(b"%s\0%d\0%s\0" % (path.encode(), len(content), content))
    return digest.digest()


def _require_text(path: str, content: bytes) -> None:
    if content.startswith(_BOM):
        raise ImageError(f"{path!r} begins with a byte order mark")
    if b"\r" in content:
        raise ImageError(f"{path!r} holds a carriage return")
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        raise ImageError(f"{path!r} is not UTF-8") from None


def _manifest(files: Mapping[str, bytes]) -> Mapping[str, Any]:
    if MANIFEST_PATH not in files:
        raise ImageError("there is no manifest.json")
    try:
        manifest = json.loads(files[MANIFEST_PATH], object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError):
        raise ImageError("manifest.json is not JSON, or names a member twice") from None
    if not isinstance(manifest, dict):
        raise ImageError("manifest.json is not an object")
    if not manifest.keys() >= MEMBERS or not manifest.keys() <= MEMBERS | OPTIONAL_MEMBERS:
        raise ImageError("manifest.json has not exactly the members of its schema")
    fixed = {"schema": MANIFEST_SCHEMA, "imageFormatVersion": IMAGE_FORMAT, "normalization": NORMALIZATION}
    for name, value in fixed.items():
        if manifest[name] != value:
            raise ImageError(f"{name} is not what this version reads")
    for name in VERSIONS:
        _text(manifest, name)
    return manifest


def _without_duplicates(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    if len(found) != len(members):
        raise ValueError("a member stands twice")
    return found


def _payload(entry: Mapping[str, Any], files: Mapping[str, bytes]) -> tuple[str, bytes]:
    path = _path(entry, _PAYLOAD_PATH)
    if entry.keys() != {"path", "mediaType", "byteLength", "sha256"} or entry["mediaType"] != MEDIA_TYPE:
        raise ImageError(f"the payload's entry of {path!r} is not of its schema")
    content = _content(path, files)
    _require_digest(content, entry, f"the payload's {path!r}", length=True)
    return path, content


def _contract(entry: Mapping[str, Any], files: Mapping[str, bytes]) -> tuple[str, bytes]:
    path = _path(entry, _CONTRACT_PATH)
    content = _content(path, files)
    _require_digest(content, entry, f"the contract {path!r}", length=False)
    return path, content


def _verified_digest(manifest: Mapping[str, Any], payload: list[tuple[str, bytes]]) -> bytes:
    if not payload:
        raise ImageError("the payload is empty")
    visible, aggregate = _object(manifest, "modelVisibleBytes"), _object(manifest, "aggregateSha256")
    if visible.get("serialization") != SERIALIZATION or aggregate.get("algorithm") != AGGREGATE_ALGORITHM:
        raise ImageError("an algorithm of the manifest is not what this version reads")
    _require_digest(b"".join(content for _, content in payload), visible, "modelVisibleBytes", length=True)
    digest = aggregate_digest(payload)
    if aggregate.get("sha256") != digest.hex():
        raise ImageError("aggregateSha256 is not that of the payload")
    return digest


def _placements(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    placements = _objects(manifest, "instructionPlacements")
    ids = tuple(_text(placement, "id") for placement in placements)
    if not ids or len(set(ids)) != len(ids):
        raise ImageError("instructionPlacements must name each placement once, and one at least")
    if any(_text(placement, "strictness") not in STRICTNESS for placement in placements):
        raise ImageError("an instruction placement of an unknown strictness")
    return ids


def _require_exact_set(files: Mapping[str, bytes], payload: list[str], contracts: list[str]) -> None:
    named = [MANIFEST_PATH, *payload, *contracts]
    if len(set(named)) != len(named):
        raise ImageError("the manifest names a file twice")
    if set(named) != set(files):
        raise ImageError("the bundle has files that its manifest does not name")


def _require_digest(content: bytes, entry: Mapping[str, Any], what: str, *, length: bool) -> None:
    stated = entry.get("byteLength")
    if length and (isinstance(stated, bool) or stated != len(content)):
        raise ImageError(f"{what} has another length than the manifest says")
    if entry.get("sha256") != hashlib.sha256(content).hexdigest():
        raise ImageError(f"{what} has another digest than the manifest says")


def _path(entry: Mapping[str, Any], form: re.Pattern[str]) -> str:
    path = _text(entry, "path")
    if form.fullmatch(path) is None or ".." in path:
        raise ImageError("a path of the manifest is outside its folder, or not plain")
    return path


def _content(path: str, files: Mapping[str, bytes]) -> bytes:
    if path not in files:
        raise ImageError(f"{path!r} is missing")
    return files[path]


def _object(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = value[key]
    if not isinstance(found, dict):
        raise ImageError(f"{key} is not an object")
    return found


def _objects(value: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found = value[key]
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise ImageError(f"{key} is not a list of objects")
    return found


def _text(value: Mapping[str, Any], key: str) -> str:
    found = value.get(key)
    if not isinstance(found, str) or not 1 <= len(found) <= MAX_TEXT_CHARACTERS:
        raise ImageError(f"{key} must be a text of 1 to {MAX_TEXT_CHARACTERS} characters")
    return found
