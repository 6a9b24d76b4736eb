"""What is installed is pinned with hashes, the images' pins are the tested ones, and the list of it is complete."""

import json
import re
import sys
import tomllib
from pathlib import Path

import pytest

from tests.conftest import PROJECT_ROOT
from tests.deploy.tools import run, tool

REQUIREMENTS = PROJECT_ROOT / "requirements"
LOCKS = sorted(REQUIREMENTS.glob("*.txt"))
PIN = re.compile(r"([A-Za-z0-9._-]+)==([^ ;]+)((?: --hash=sha256:[0-9a-f]{64})+)")


def pins(path: Path) -> dict[str, str]:
    """Every requirement of a file with its version; fails for a line that is no pin with hashes."""
    text = re.sub(r" *\\\n *", " ", path.read_text())
    found = {}
    for line in text.splitlines():
        if line.strip() and not line.strip().startswith("#"):
            match = PIN.fullmatch(line.strip())
            assert match is not None, f"{path.name}: {line[:80]}"
            found[normal(match[1])] = match[2]
    return found


def normal(name: str) -> str:
    """A distribution's name as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_every_requirement_is_pinned_with_hashes(path: Path) -> None:
    assert pins(path)


@pytest.mark.parametrize("name", ["runtime.txt", "report.txt", "build.txt"])
def test_what_is_shipped_is_what_was_tested(name: str) -> None:
    assert pins(REQUIREMENTS / name).items() <= pins(REQUIREMENTS / "dev.txt").items()


def test_everything_that_the_project_needs_is_pinned() -> None:
    project = tomllib.loads((PROJECT_ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    needed = {
        "runtime.txt": project["dependencies"] + extras["observability"],
        "report.txt": project["dependencies"] + extras["observability"] + extras["report"],
        "dev.txt": project["dependencies"] + extras["report"] + extras["dev"],
    }
    for name, requirements in needed.items():
        assert {normal(re.split(r"[\[<>=~! ]", one)[0]) for one in requirements} <= set(pins(REQUIREMENTS / name)), name


def test_the_list_of_what_is_shipped_has_every_pin(tmp_path: Path) -> None:
    out = tmp_path / "sbom.json"
    run(sys.executable, PROJECT_ROOT / "tools" / "sbom.py", "--tool", tool("cyclonedx-py"), "--out", out)
    document = json.loads(out.read_text())
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    listed = {normal(one["name"]): one["version"] for one in document["components"]}
    assert listed == pins(REQUIREMENTS / "report.txt")
    assert pins(REQUIREMENTS / "runtime.txt").items() <= listed.items()
    assert all(one["externalReferences"][0]["hashes"] for one in document["components"])
    assert document["metadata"]["component"]["name"] == "countersign"


@pytest.mark.parametrize("path", sorted((PROJECT_ROOT / "tests" / "harness").glob("*/package-lock.json")), ids=str)
def test_a_lock_of_programs_names_digests_and_no_address(path: Path) -> None:
    """npm writes where to send money to as well: `funding` is taken out of a new lock by hand."""
    lock = json.loads(path.read_text())
    assert "://" not in path.read_text()
    assert all("integrity" in one for name, one in lock["packages"].items() if name)
