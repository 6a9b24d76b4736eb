"""Bring an image bundle's manifest up to date with its files: `python tools/seal_image.py FOLDER`.

Lengths and digests are computed; what a person decides (versions, placements, schema ids) stays as it is.
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from countersign.kit.image import (
    AGGREGATE_ALGORITHM,
    CONTRACTS,
    MANIFEST_PATH,
    MEDIA_TYPE,
    SERIALIZATION,
    aggregate_digest,
    load_bundle,
)


def sealed(manifest: dict[str, Any], files: dict[str, bytes]) -> bytes:
    """The manifest's text over `files`; the payload is in the order of its names."""
    payload = [(path, files[path]) for path in sorted(files) if path.startswith("payload/")]
    visible = b"".join(content for _, content in payload)
    manifest["payload"] = [
        {"path": path, "mediaType": MEDIA_TYPE, "byteLength": len(content), "sha256": _hex(content)}
        for path, content in payload
    ]
    manifest["modelVisibleBytes"] = {
        "serialization": SERIALIZATION,
        "byteLength": len(visible),
        "sha256": _hex(visible),
    }
    manifest["aggregateSha256"] = {"algorithm": AGGREGATE_ALGORITHM, "sha256": aggregate_digest(payload).hex()}
    for name in CONTRACTS:
        manifest[name]["sha256"] = _hex(files[manifest[name]["path"]])
    return (json.dumps(manifest, indent=2, ensure_ascii=False) + "\n").encode()


def main() -> int:
    """Rewrite the manifest of the folder that is named, and verify the bundle."""
    folder = Path(sys.argv[1])
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    files[MANIFEST_PATH] = sealed(json.loads(files[MANIFEST_PATH]), files)
    load_bundle(files)
    (folder / MANIFEST_PATH).write_bytes(files[MANIFEST_PATH])
    return 0


def _hex(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
