"""The project's pages, and what is quoted in them."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import PROJECT_ROOT

DOCS = PROJECT_ROOT / "docs"
PAGES = (PROJECT_ROOT / "README.md", PROJECT_ROOT / "studies" / "README.md", *sorted(DOCS.glob("*.md")))


def blocks(page: Path, kind: str) -> list[str]:
    """The page's blocks of one kind."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def commands(page: Path) -> Iterator[str]:
    """Every command line that the page quotes, in a block or within a line."""
    text = page.read_text("utf-8")
    for block in re.findall(r"^```(?:sh|console|text)?\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        for line in block.replace("\\\n", " ").splitlines():
            yield line.removeprefix("$ ").strip()
    yield from re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE))


def made_reference(folder: Path) -> Path:
    """The generated pages, in `folder`."""
    made = subprocess.run(
        [sys.executable, PROJECT_ROOT / "tools" / "reference.py", "--out", folder], capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr
    return folder
