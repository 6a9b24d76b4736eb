"""The one canonical JSON and the one digest (docs/formats.md)."""

import hashlib
import json
from typing import Any

_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
"""Made once: `json.dumps` with options makes an encoder each time."""


def canonical_json(value: Any) -> bytes:
    """Encode `value` as canonical JSON: UTF-8, sorted keys, no space, no NaN or Infinity.

    Raises ValueError for a float that JSON cannot hold and TypeError for a type that it does not have.
    """
    return _encode(value).encode("utf-8")


def sha256(data: bytes) -> bytes:
    """The 32-byte SHA-256 digest of `data`."""
    return hashlib.sha256(data).digest()
