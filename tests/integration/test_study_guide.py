"""The guide to studies is true: each of its commands is run, in order, and says what the guide says."""

import re
import shlex
from pathlib import Path

import pytest

from countersign.cli.main import main
from tests.integration.stack import running_stack

GUIDE = Path(__file__).parents[2] / "docs" / "studies.md"
SERVED = {"price": ("adapter", "verifier"), "freeze": ("adapter", "verifier"), "amend": ("adapter", "verifier")}
SERVED |= {"reveal": ("adapter", "verifier"), "report": ("ledger", "verifier")}


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", GUIDE.read_text(), re.DOTALL | re.MULTILINE)


def require_said(command: str, lines: list[str], out: str) -> None:
    """Every line of the guide is there, in its order; `…` stands for anything."""
    rest = iter(out.splitlines())
    for line in lines:
        pattern = re.compile(
            r"\s*" + r".*".join(r"\s+".join(map(re.escape, part.split())) + r"\s*" for part in line.split("…"))
        )
        assert any(pattern.fullmatch(said) for said in rest), f"{command}: {line!r} not in:\n{out}"


def test_every_command_of_the_guide_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (plan,) = blocks("toml")
    Path("pilot.toml").write_text(plan)
    Path("amended.toml").write_text(plan.replace('cap = "2"', 'cap = "3"'))
    steps = [step for block in blocks("console") for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    with running_stack() as stack:
        addresses = {process.name: ("--" + process.name, process.address) for process in stack.processes}
        for step in steps:
            command, *lines = step.splitlines()
            words = shlex.split(command, comments=True)[1:]
            verb = words[1] if words[0] == "study" else words[0]
            # The guide lets every command start its own services; here they are shared.
            options = [part for name in SERVED.get(verb, tuple(addresses)) for part in addresses[name]]
            wanted = re.search(r"# status (\d)", command)
            status = main([*words, *options])
            said = capsys.readouterr()
            assert (status, command) == (int(wanted[1]) if wanted else 0, command), said.err
            require_said(command, lines, said.out)
    assert len(steps) == 10
    assert Path("report.html").stat().st_size > 0
