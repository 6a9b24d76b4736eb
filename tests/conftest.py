"""Fixtures for every test."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# No test of ours is timed: a busy machine makes no example wrong.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

PROJECT_ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of shared test data; skips where it is absent (override with COUNTERSIGN_SHARED)."""
    folder = Path(os.environ.get("COUNTERSIGN_SHARED", PROJECT_ROOT.parent / "shared")) / "data"
    if not folder.is_dir():
        pytest.skip(f"the shared test data is not at {folder}; set COUNTERSIGN_SHARED to its folder")
    return folder
