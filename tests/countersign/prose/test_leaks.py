"""Many runs in one process leave nothing behind: COUNTERSIGN_MOCK_RUNS says how many (10 where it is not set)."""

import os
from pathlib import Path

from tests.countersign.prose.conftest import Prose

RUNS = int(os.environ.get("COUNTERSIGN_MOCK_RUNS", "10"))


def held() -> tuple[int, set[str]]:
    """How many descriptors this process has open, and its children."""
    children = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text("utf-8", "replace").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # It ended while we looked.
        if int(fields[1]) == os.getpid():
            children.add(stat.parent.name)
    return len(os.listdir("/proc/self/fd")), children


def test_runs_leak_no_descriptor_and_no_process(prose: Prose) -> None:
    assert prose("text").status == 0
    before = held()
    assert {prose("text").status for _ in range(RUNS)} == {0}
    assert held() == before
