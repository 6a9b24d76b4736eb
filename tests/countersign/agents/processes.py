"""Starting the agents as processes of their own, for tests."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


@contextmanager
def running(
    module: str, *arguments: str, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Run `python -m module`; killed at the end where the test did not stop it."""
    with subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def next_event(process: subprocess.Popen[str]) -> dict[str, Any]:
    """The next line on standard output."""
    assert process.stdout is not None
    value: dict[str, Any] = json.loads(process.stdout.readline())
    return value
