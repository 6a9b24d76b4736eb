"""Image bundles for tests: the shipped ones, changed and sealed again."""

import json
from collections.abc import Mapping

from countersign.kit.image import MANIFEST_PATH
from tools.seal_image import sealed


def resealed(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """`files` with a manifest whose lengths and digests are theirs."""
    return {**files, MANIFEST_PATH: sealed(json.loads(files[MANIFEST_PATH]), dict(files))}
