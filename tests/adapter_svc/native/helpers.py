"""Streams to judge: captured ones by their path, scripted ones by their records."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from adapter_svc.native import Completion, Failure, Harness, NativeReader, Opening, ProcessEnd
from tests.conftest import PROJECT_ROOT

WELL = ProcessEnd(exit_status=0)
HARNESS_OF_FOLDER = {
    "agents-sdk": Harness.AGENTS_SDK,
    "claude": Harness.CLAUDE,
    "claude-latest": Harness.CLAUDE,
    "codex": Harness.CODEX,
    "gemini": Harness.GEMINI,
    "omp": Harness.OMP,
    "opencode": Harness.OPENCODE,
    "pi": Harness.PI,
    "pi-0.74.2": Harness.PI,
    "pi-latest": Harness.PI,
}
VERSION_OF_FOLDER = {"pi": "0.74.2", "pi-0.74.2": "0.74.2"}

Verdict = Completion | Failure
Record = dict[str, Any]


def streams_folder() -> Path:
    """Where the captured streams are; skips where they are absent."""
    shared = Path(os.environ.get("COUNTERSIGN_SHARED", PROJECT_ROOT.parent / "shared"))
    folder = shared / "data" / "native-streams"
    if not folder.is_dir():
        pytest.skip(f"the captured native streams are not at {folder}; set COUNTERSIGN_SHARED to their folder's parent")
    return folder


def captured(path: str) -> bytes:
    """One captured stream, `path` as `claude/text`."""
    return (streams_folder() / f"{path}.ndjson").read_bytes()


def captured_end(path: str) -> ProcessEnd:
    """How the process of a captured stream ended."""
    meta = json.loads((streams_folder() / f"{path}.meta.json").read_bytes())
    status = meta["exit_status"]
    return ProcessEnd(
        exit_status=status if status >= 0 else None,
        signal=-status if status < 0 else None,
        signalled_before_terminal=meta["ended"].startswith("timeout_"),
    )


def opening_of(path: str) -> Opening:
    """How a captured stream is read under the native contract."""
    folder = path.partition("/")[0]
    return Opening(HARNESS_OF_FOLDER[folder], harness_version=VERSION_OF_FOLDER.get(folder, ""))


def judge(opening: Opening | Harness, data: bytes, end: ProcessEnd = WELL) -> Verdict:
    """The verdict on a whole stream."""
    reader = NativeReader(Opening(opening) if isinstance(opening, Harness) else opening)
    reader.feed(data)
    return reader.finish(end)


def lines(records: Iterable[Record]) -> bytes:
    """Records as a harness writes them."""
    return b"".join(json.dumps(record, separators=(",", ":")).encode() + b"\n" for record in records)


def records_of(data: bytes) -> list[Record]:
    """The records of a stream."""
    return [json.loads(line) for line in data.splitlines()]


def code_of(verdict: Verdict) -> str:
    """`complete`, or the error code."""
    return "complete" if isinstance(verdict, Completion) else verdict.code.value


def counts(verdict: Verdict) -> dict[str, int]:
    """The observations by name."""
    return {name.value: count for name, count in verdict.observations.items()}
