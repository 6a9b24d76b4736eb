"""Image bundles: what ships is intact, and everything that the manifest says is checked."""

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from countersign.images import NAMES, shipped_image
from countersign.kit.image import MANIFEST_PATH, ImageError, ImageTooLarge, aggregate_digest, load_bundle
from tests.countersign.kit.image_bundles import resealed

ECHO = shipped_image("echo")
PAYLOAD, TERMINAL = "payload/10-echo.md", "contracts/terminal.schema.json"
Manifest = dict[str, Any]


@pytest.mark.parametrize("name", NAMES)
def test_what_ships_is_intact_and_sealed(name: str) -> None:
    files = shipped_image(name)
    assert resealed(files) == files
    bundle = load_bundle(files)
    assert bundle.version == f"countersign-{name}-1"
    assert bundle.placements == ("system-append",)
    assert bundle.terminal_schema_id == f"countersign.{name}-envelope/1"
    assert bundle.model_visible == b"".join(content for path, content in sorted(files.items()) if "payload/" in path)


def test_no_other_bundle_ships() -> None:
    with pytest.raises(KeyError):
        shipped_image("../native")


def test_the_native_image_only_points_to_the_workspace() -> None:
    (payload,) = load_bundle(shipped_image("native")).payload
    assert b"README.md" in payload[1]


def test_the_aggregate_digest_is_path_length_content_each_with_nul() -> None:
    expected = hashlib.sha256(b"payload/a.md\x003\x00abc\x00payload/b.md\x000\x00\x00").digest()
    assert aggregate_digest([("payload/a.md", b"abc"), ("payload/b.md", b"")]) == expected


def test_payloads_are_in_the_manifest_s_order() -> None:
    files = resealed({**ECHO, "payload/05-first.md": b"first\n"})
    bundle = load_bundle(files)
    assert [path for path, _ in bundle.payload] == ["payload/05-first.md", PAYLOAD]
    assert bundle.model_visible.startswith(b"first\n")
    manifest = json.loads(files[MANIFEST_PATH])
    manifest["payload"].reverse()
    with pytest.raises(ImageError):
        load_bundle({**files, MANIFEST_PATH: json.dumps(manifest).encode()})


@pytest.mark.parametrize(
    "content", [b"\xef\xbb\xbfx", b"a\r\nb", b"\xff", b"\xed\xa0\x80"], ids=["bom", "cr", "bad", "surrogate"]
)
@pytest.mark.parametrize("path", [PAYLOAD, TERMINAL])
def test_every_file_is_utf_8_without_bom_or_carriage_return(path: str, content: bytes) -> None:
    with pytest.raises(ImageError):
        load_bundle(resealed({**ECHO, path: content}))


@pytest.mark.parametrize(
    "files",
    [
        {},
        {path: content for path, content in ECHO.items() if path != MANIFEST_PATH},
        {path: content for path, content in ECHO.items() if path != PAYLOAD},
        {path: content for path, content in ECHO.items() if path != TERMINAL},
        {**ECHO, "payload/20-more.md": b"x"},
        {**ECHO, "contracts/more": b"x"},
        {**ECHO, "README.md": b"x"},
        {**ECHO, "payload/../x.md": b"x"},
        {**ECHO, PAYLOAD: ECHO[PAYLOAD] + b"x"},
        {**ECHO, PAYLOAD: ECHO[PAYLOAD].replace(b"a", b"b")},
        {**ECHO, TERMINAL: ECHO[TERMINAL] + b"\n"},
        {**ECHO, MANIFEST_PATH: b"[]"},
        {**ECHO, MANIFEST_PATH: b"{"},
        {**ECHO, MANIFEST_PATH: ECHO[MANIFEST_PATH].replace(b'"schema"', b'"schema": 1, "schema"', 1)},
    ],
)
def test_the_set_of_files_and_their_bytes_are_exact(files: dict[str, bytes]) -> None:
    with pytest.raises(ImageError):
        load_bundle(files)


def _set(*path: str | int, to: Any) -> Callable[[Manifest], None]:
    def change(manifest: Manifest) -> None:
        at: Any = manifest
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = to

    return change


CHANGES = {
    "schema": _set("schema", to="openprose.skill-runtime-image-manifest/2"),
    "format": _set("imageFormatVersion", to="openprose.skill-runtime-image/2"),
    "version": _set("skillVersion", to=""),
    "normalization": _set("normalization", "newlines", to="crlf"),
    "member": _set("more", to=1),
    "payload": _set("payload", to=[]),
    "payload object": _set("payload", to={}),
    "payload entry": _set("payload", 0, "more", to=1),
    "media type": _set("payload", 0, "mediaType", to="text/plain"),
    "length": _set("payload", 0, "byteLength", to=1),
    "length type": _set("payload", 0, "byteLength", to=True),
    "digest": _set("payload", 0, "sha256", to="0" * 64),
    "path": _set("payload", 0, "path", to="payload/../payload/10-echo.md"),
    "absolute": _set("payload", 0, "path", to="/payload/10-echo.md"),
    "folder": _set("payload", 0, "path", to="contracts/framing.txt"),
    "visible": _set("modelVisibleBytes", "sha256", to="0" * 64),
    "visible length": _set("modelVisibleBytes", "byteLength", to=0),
    "serialization": _set("modelVisibleBytes", "serialization", to="other"),
    "aggregate": _set("aggregateSha256", "sha256", to="0" * 64),
    "algorithm": _set("aggregateSha256", "algorithm", to="sha256"),
    "placements": _set("instructionPlacements", to=[]),
    "placement id": _set("instructionPlacements", 0, "id", to=""),
    "strictness": _set("instructionPlacements", 0, "strictness", to="lax"),
    "strictness type": _set("instructionPlacements", 0, "strictness", to=[]),
    "twice": _set("instructionPlacements", to=[{"id": "a", "strictness": "strict"}] * 2),
    "terminal path": _set("terminalEnvelope", "path", to="contracts/none"),
    "terminal digest": _set("terminalEnvelope", "sha256", to="0" * 64),
    "schema id": _set("terminalEnvelope", "schemaId", to=None),
    "task": _set("taskEnvelope", to=None),
    "two of one": _set("oneFieldFraming", "path", to="contracts/task.schema.json"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_everything_that_the_manifest_says_is_checked(change: Callable[[Manifest], None]) -> None:
    manifest = json.loads(ECHO[MANIFEST_PATH])
    change(manifest)
    with pytest.raises(ImageError):
        load_bundle({**ECHO, MANIFEST_PATH: json.dumps(manifest).encode()})


@pytest.mark.parametrize("name", sorted(json.loads(ECHO[MANIFEST_PATH]).keys() - {"purpose", "releaseEligible"}))
def test_every_member_is_needed(name: str) -> None:
    manifest = json.loads(ECHO[MANIFEST_PATH])
    del manifest[name]
    with pytest.raises(ImageError):
        load_bundle({**ECHO, MANIFEST_PATH: json.dumps(manifest).encode()})


def test_a_bundle_is_bounded() -> None:
    for files in ({str(number): b"" for number in range(300)}, {"x": bytes(5 * 1024 * 1024)}):
        with pytest.raises(ImageTooLarge):
            load_bundle(files)
