"""Tools that check what is deployed; they are no dependency of the project (requirements/deploy.txt)."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import PROJECT_ROOT

TOOL_SECONDS = 100


def tool(name: str) -> Path:
    """The tool's path; skips where it is not installed."""
    folder = Path(os.environ.get("COUNTERSIGN_DEPLOY_TOOLS", PROJECT_ROOT / ".venv" / "deploy" / "bin"))
    if not (folder / name).is_file():
        pytest.skip(f"{name} is not in {folder}: make .venv/deploy/ready")
    return folder / name


def run(*command: object) -> str:
    """A tool's output; it must find nothing to complain about."""
    ran = subprocess.run(
        [str(part) for part in command], cwd=PROJECT_ROOT, capture_output=True, text=True, timeout=TOOL_SECONDS
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout
