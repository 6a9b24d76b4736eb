"""Lint the contracts and check that they break no client: `buf lint`, `buf format`, `buf breaking`.

The versions compared with are the last tag, where there is one, and those of the last commits that changed protos/.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from generate import ROOT

VERSIONS_COMPARED = 5


def main() -> int:
    """Run every check; the exit status is 1 where one fails."""
    failed = buf(ROOT, "lint") + buf(ROOT, "format", "--diff", "--exit-code", "protos")
    for commit in earlier_versions():
        failed += breaking(commit)
    return 1 if failed else 0


def buf(folder: Path, *arguments: str) -> int:
    """Run buf in `folder`; its exit status."""
    return subprocess.run([Path(sys.executable).parent / "buf", *arguments], cwd=folder, check=False).returncode


def earlier_versions() -> list[str]:
    """The last tag, and the last commits that changed the contracts, newest first: on the newest a change is made."""
    tags = git("tag", "--list", "--merged", "HEAD", "--sort=-creatordate")[:1]
    commits = git("log", f"--max-count={VERSIONS_COMPARED}", "--format=%H", "--", "protos/countersign")
    print(f"contracts: compared with {' and '.join([*tags, f'{len(commits)} earlier versions'])}")
    return [*tags, *commits]


def git(*arguments: str) -> list[str]:
    """The words that git answers; none where there is no repository."""
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()


def breaking(commit: str) -> int:
    """Compare the contracts with those of `commit`; buf's exit status."""
    with tempfile.TemporaryDirectory() as name:
        archive = subprocess.run(
            ["git", "archive", commit, "protos", "buf.yaml"], cwd=ROOT, capture_output=True, check=True
        )
        subprocess.run(["tar", "-x", "-C", name], input=archive.stdout, check=True)
        return buf(ROOT, "breaking", "--against", name)


if __name__ == "__main__":
    sys.exit(main())
