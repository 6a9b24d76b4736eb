"""Fixtures for the verifier's tests."""

import json
from typing import Any

import pytest

from tests.conftest import PROJECT_ROOT


@pytest.fixture(scope="session")
def wording() -> dict[str, Any]:
    """The wording resource as it stands in the contracts."""
    document: dict[str, Any] = json.loads((PROJECT_ROOT / "protos" / "wording" / "v1.json").read_text("utf-8"))
    return document
