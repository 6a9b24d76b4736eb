"""The one canonical JSON and the one digest (docs/formats.md)."""

import hashlib
import json
from typing import Any


def canonical_json(value: Any) -> bytes:
    """Encode `value` as canonical JSON: UTF-8, sorted keys, no space, no NaN or Infinity.

    Raises ValueError for a float that JSON cannot hold and TypeError for a type that it does not have.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8")


def sha256(data: bytes) -> bytes:
    """The 32-byte SHA-256 digest of `data`."""
    return hashlib.sha256(data).digest()
