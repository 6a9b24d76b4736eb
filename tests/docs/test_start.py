"""docs/start.md is true: its commands are run, in order, and say what the page says."""

import re
import shlex
from pathlib import Path

import pytest

from countersign.cli.main import main
from tests.conftest import PROJECT_ROOT
from tests.docs.pages import DOCS, blocks

START = DOCS / "start.md"


def require_said(command: str, lines: list[str], out: str) -> None:
    """Every line of the page is there, in its order; `…` stands for anything."""
    rest = iter(out.splitlines())
    for line in lines:
        parts = [r"\s+".join(map(re.escape, part.split())) for part in line.split("…")]
        pattern = re.compile(r"\s*" + r".*".join(rf"\s*{part}\s*" for part in parts))
        assert any(pattern.fullmatch(said) for said in rest), f"{command}: {line!r} not in:\n{out}"


def test_every_command_of_the_first_five_minutes_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("studies").symlink_to(PROJECT_ROOT / "studies")
    (plan,) = blocks(START, "toml")
    Path("drops.toml").write_text(plan)
    steps = [step for block in blocks(START, "console") for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    told = ""
    for step in steps:
        command, *lines = step.splitlines()
        name, *words = shlex.split(command, comments=True)
        wanted = re.search(r"# status (\d)", command)
        status = main(words)
        said = capsys.readouterr()
        assert (name, status, command) == ("countersign", int(wanted[1]) if wanted else 0, command), said.err
        require_said(command, lines, said.out)
        told += said.err
    assert len(steps) == 7
    (episode,) = blocks(START, "text")
    assert episode.strip() in told
    assert Path("runs/first/report.html").stat().st_size > 0


def test_the_installation_is_what_the_makefile_has() -> None:
    (install,) = blocks(START, "sh")
    makefile = (PROJECT_ROOT / "Makefile").read_text("utf-8")
    assert install.splitlines() == ["make .venv/ready", ". .venv/bin/activate"]
    assert "\n$(VENV)/ready:" in makefile
    assert "\nVENV := .venv\n" in makefile
