"""The wording resource: every fixed sentence that a model can see (docs/formats.md, The wording resource)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from countersign.kit.canonical import canonical_json, sha256


@dataclass(frozen=True, slots=True)
class Wording:
    """The parsed resource and the SHA-256 of its canonical JSON, which names it in a manifest."""

    document: Mapping[str, Any]
    digest: bytes


@cache
def load_wording() -> Wording:
    """The wording that this version ships; generated beside this module from protos/wording/."""
    text = (resources.files("countersign.kit") / "_wording_v1.json").read_text("utf-8")
    document = json.loads(text)
    return Wording(document, sha256(canonical_json(document)))
