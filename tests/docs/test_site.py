"""The site builds without a warning, asks no other host for anything, and leaves no page out."""

import os
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.conftest import PROJECT_ROOT
from tests.docs.pages import DOCS, PAGES, made_reference

LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href", "object": "data"}
"""What a browser fetches by itself, and the attribute that says from where."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    mkdocs = PROJECT_ROOT / ".venv" / "docs" / "bin" / "mkdocs"
    if not mkdocs.is_file():
        pytest.skip("mkdocs is not in .venv/docs: make .venv/docs/ready")
    folder = tmp_path_factory.mktemp("site")
    reference = made_reference(folder / "reference")
    built = subprocess.run(
        [mkdocs, "build", "--strict", "--site-dir", folder / "site"],
        cwd=PROJECT_ROOT,
        env={**os.environ, "COUNTERSIGN_REFERENCE": str(reference), "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    # Not --quiet: that hides warnings from --strict too.
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    assert "Documentation built" in built.stderr
    return folder / "site"


class Fetched(HTMLParser):
    """Collects what a page makes a browser fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        target = given.get(LOADED.get(tag, ""))
        if target and not (tag == "link" and given.get("rel") in ("canonical", "next", "prev")):
            self.targets.append(target)


def fetched(html: str) -> list[str]:
    parser = Fetched()
    parser.feed(html)
    return parser.targets


def is_elsewhere(target: str) -> bool:
    return target.startswith("//") or re.match(r"[a-z]+:", target) is not None


def test_no_page_fetches_anything_from_another_host(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > len(PAGES)
    for page in pages:
        html = page.read_text("utf-8")
        assert [target for target in fetched(html) if is_elsewhere(target)] == [], page.name
        assert re.findall(r"@import|url\((?!data:)['\"]?https?:", html) == [], page.name
    for style in site.rglob("*.css"):
        assert re.findall(r"@import|url\(['\"]?(?:https?:)?//", style.read_text("utf-8")) == [], style.name


def test_what_would_be_fetched_from_another_host_is_found() -> None:
    html = '<script src="https://a.example/x.js"></script><link rel="stylesheet" href="//b.example/y"><img src="z.png">'
    assert [is_elsewhere(target) for target in fetched(html)] == [True, True, False]


def test_every_page_is_on_the_site_and_examples_are_in_their_page(site: Path) -> None:
    for page in DOCS.glob("*.md"):
        assert (site / f"{page.stem}.html").is_file()
    assert (site / "plans.html").is_file()
    for name in ("errors", "ledger", "adapter", "verifier", "environment", "types"):
        assert (site / "reference" / f"{name}.html").is_file()
    assert "grpc-status-details-bin" in (site / "clients.html").read_text("utf-8")


def test_every_page_is_in_the_nav() -> None:
    nav = (PROJECT_ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:")[2]
    named = re.findall(r"([\w/-]+\.md)$", nav, re.MULTILINE)
    assert len(named) == len(set(named))
    assert {page.name for page in DOCS.glob("*.md")} <= set(named)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT_ROOT)))
def test_every_link_of_the_repository_holds(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(#[^)\s]*)?\)", text):
        if "://" in target:
            continue
        found = page if not target else page.parent / target
        assert found.exists(), target
        if anchor:
            assert anchor[1:] in anchors(found), target + anchor


def anchors(page: Path) -> set[str]:
    """The anchors of the page's headings, as both the repository's viewer and the site make them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip()) for heading in headings}
