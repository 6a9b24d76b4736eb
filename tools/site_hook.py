"""What MkDocs is told beyond mkdocs.yml: pages that are not in docs/, and links that leave it.

The pages of docs/ are read in the repository too. So they link to the repository's files; on the site such a link
becomes the site's page of that file where it has one, and the bare name where it has none. A line that is nothing but a
link into docs/examples becomes the example itself.
"""

import os
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = Path(os.environ.get("COUNTERSIGN_REFERENCE", ROOT / "build" / "reference"))
PAGES = {"studies/README.md": "plans.md"}
"""Files of the repository, outside docs/, that the site shows, and as which page."""

LINK = re.compile(r"\[([^\]]+)\]\(([^)#\s]+)(#[^)]*)?\)")
EXAMPLE = re.compile(r"^\[[^\]]+\]\((examples/[^)]+)\)$", re.MULTILINE)
LANGUAGES = {".sh": "bash", ".mjs": "javascript", ".go": "go", ".json": "json", ".mod": "text"}


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that docs/ does not hold; raises where the reference was not generated."""
    generated = sorted(REFERENCE.glob("*.md"))
    if not generated:
        raise PluginError("there is no generated reference: run 'python tools/reference.py'")
    for page in generated:
        files.append(File.generated(config, f"reference/{page.name}", content=page.read_text("utf-8")))
    for source, page_name in PAGES.items():
        files.append(File.generated(config, page_name, content=(ROOT / source).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The page with its examples in place and with links that hold on the site."""
    origins = {shown: source for source, shown in PAGES.items()}
    here = page.file.src_uri
    return site_links(EXAMPLE.sub(_example, markdown), origins.get(here, f"docs/{here}"))


def site_links(markdown: str, source: str) -> str:
    """`markdown` of the repository's file `source`, with its links as the site needs them."""
    return LINK.sub(lambda found: _site_link(found, source), markdown)


def _site_link(found: "re.Match[str]", source: str) -> str:
    text, target, anchor = found[1], found[2], found[3] or ""
    if "://" in target:
        return found[0]
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    if path in PAGES:
        return f"[{text}]({PAGES[path]}{anchor})"
    if source in PAGES and path.startswith("docs/"):
        return f"[{text}]({path.removeprefix('docs/')}{anchor})"
    if path.startswith("docs/") or not (ROOT / path).exists():
        return found[0]
    return text if text.strip("`") == path or "/" in text else f"{text} (`{path}`)"


def _example(found: "re.Match[str]") -> str:
    path = ROOT / "docs" / found[1]
    name = found[1].removeprefix("examples/")
    return f'```{LANGUAGES[path.suffix]} title="{name}"\n{path.read_text("utf-8").rstrip()}\n```'
