"""Trees of older versions, taken from the project's history and run as processes of their own."""

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOOKED_AT = 12
"""How many of the last commits that changed the contracts are looked at."""


def git(*arguments: str) -> str:
    """What git answers about this checkout; skips where there is no repository."""
    answer = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        pytest.skip(f"needs the project's history: {answer.stderr.strip()}")
    return answer.stdout


def require_history() -> None:
    """Skip in a shallow clone."""
    if git("rev-parse", "--is-shallow-repository").strip() == "true":
        pytest.skip("needs the project's history: this clone is shallow")


def schema_makers(schema: str) -> Mapping[int, str]:
    """The first commit that made each version of the schema in the file `schema`, the newest version included.

    Skips in a shallow clone.
    """
    require_history()
    makers: dict[int, str] = {}
    for commit in git("log", "--reverse", "--no-merges", "--format=%H", "--", schema).split():
        source = git("show", f"{commit}:{schema}")
        makers.setdefault(len(set(re.findall(r"^_VERSION_\d+ = ", source, re.MULTILINE))), commit)
    return makers


def compatible_commits() -> list[str]:
    """The commits, newest first, whose contracts differ from today's and are compatible by `buf breaking`.

    The last tag's, where there is one, and those among the last that changed the contracts. Skips in a shallow clone.
    """
    require_history()
    tags = git("tag", "--list", "--merged", "HEAD", "--sort=-creatordate").split()[:1]
    changed = git("log", f"--max-count={LOOKED_AT}", "--no-merges", "--format=%H", "--", "protos/countersign").split()
    return [one for one in dict.fromkeys([*tags, *changed]) if differs(one)]


def differs(commit: str) -> bool:
    """Whether the contracts of `commit` are others than those of this tree."""
    answer = subprocess.run(["git", "diff", "--quiet", commit, "--", "protos/countersign"], cwd=ROOT, check=False)
    return answer.returncode == 1


def is_compatible(tree: Path) -> bool:
    """Whether today's contracts break no client of those in `tree`."""
    buf = [str(Path(sys.executable).parent / "buf"), "breaking", "--against", str(tree)]
    return subprocess.run(buf, cwd=ROOT, capture_output=True, check=False).returncode == 0


def extract(commit: str, target: Path) -> Path:
    """Lay the tree of `commit` into `target`, stubs included."""
    target.mkdir()
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", target], input=archive.stdout, check=True)
    subprocess.run([sys.executable, "tools/generate.py"], cwd=target, check=True)
    return target
