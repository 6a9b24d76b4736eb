"""The operators' guide is true: each of its commands is run, in order, and says what the guide says."""

import json
import re
import shlex
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from countersign.cli.main import main
from tests.countersign.cli.served import served
from tests.ledger_svc.support import Clock

GUIDE = Path(__file__).parents[2] / "docs" / "ledger.md"


@dataclass(frozen=True)
class Step:
    """A command of the guide, the status that it ends with, and lines of what it says; `…` stands for anything."""

    command: str
    lines: Sequence[str]

    @property
    def status(self) -> int:
        found = re.search(r"# status (\d+)", self.command)
        return int(found[1]) if found else 0


def blocks(kind: str) -> list[str]:
    """The guide's blocks of one kind."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", GUIDE.read_text(), re.DOTALL | re.MULTILINE)


def steps() -> Iterator[Step]:
    for block in blocks("console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *lines = part.splitlines()
            yield Step(command, lines)


def require_said(step: Step, out: str) -> None:
    """Every line of the guide is there, in its order."""
    rest = iter(out.splitlines())
    for line in step.lines:
        pattern = re.compile(r"\s*" + ".*".join(re.escape(part) for part in line.strip().split("…")) + r"\s*")
        assert any(pattern.fullmatch(said) for said in rest), f"{step.command}: {line!r} not in:\n{out}"


def test_every_command_of_the_guide_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    values = {"DIGEST": "ab" * 32}

    def run(step: Step) -> str:
        words = shlex.split(step.command, comments=True)
        arguments = [values[word[1:]] if word.startswith("$") else word for word in words[1:]]
        assert words[0] == "countersign"
        assert (main(arguments), step.command) == (step.status, step.command), capsys.readouterr().err
        return capsys.readouterr().out

    Path("pilot.toml").write_text(blocks("toml")[0])
    first, *rest = steps()
    require_said(first, run(first))
    clock = Clock()
    clock.now = time.time_ns() // 1_000
    with served(Path("run/ledger.sqlite"), clock) as (_, address):
        monkeypatch.setenv("COUNTERSIGN_LEDGER", address)
        held = json.loads(run(Step("countersign ledger holds lab --json", ())))
        values |= {"CALL": held["call_id"], "STUDY": held["study_id"]}
        for step in rest:
            if "--store backup.sqlite" in step.command:
                with closing(sqlite3.connect("run/ledger.sqlite")) as db:
                    db.execute('VACUUM INTO "backup.sqlite"')
                monkeypatch.delenv("COUNTERSIGN_LEDGER")
            require_said(step, run(step))
    assert len(rest) >= 15
