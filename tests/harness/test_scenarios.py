"""Real agent programs against a provider that follows a script: each run comes to what is true, and leaves nothing."""

import os
from pathlib import Path
from typing import Any

import pytest

from countersign.prose.profiles import INVOCATION_VARIABLE
from tests.conftest import PROJECT_ROOT
from tests.harness.conftest import Ran, Stage
from tests.harness.programs import KEY, PROGRAMS, Program
from tests.harness.scenarios import CANCELLED, DONE, SCENARIOS, Scenario


def marks_of(scenario: Scenario, program: Program) -> list[pytest.MarkDecorator]:
    """What continuous integration runs is marked so."""
    return [pytest.mark.core] if program.harness in scenario.core else []


RUNS = [
    pytest.param(
        scenario,
        PROGRAMS[name],
        id=f"{name}-{scenario.name.replace(' ', '-')}",
        marks=marks_of(scenario, PROGRAMS[name]),
    )
    for scenario in SCENARIOS
    for name in scenario.verdicts
]
CORE = [pytest.param(program, id=name, marks=pytest.mark.core) for name, program in PROGRAMS.items() if program.core]


@pytest.mark.parametrize(("scenario", "program"), RUNS)
def test_a_run_comes_to_what_happened(stage: Stage, scenario: Scenario, program: Program) -> None:
    ran = stage.run(program, scenario.script, timeout=scenario.timeout)
    expected = scenario.verdicts[program.harness]
    said = (ran.result["assistant_text"] or "").count("FINAL: done.")
    assert (ran.status, ran.code) == expected.end
    assert ran.result["observations"] == expected.observations
    assert (ran.turns, said) == (expected.turns, expected.said)
    assert stage.out.exists() == scenario.writes
    assert ran.keys == {KEY}
    assert left_of(ran) == []


@pytest.mark.parametrize("program", CORE)
def test_the_caller_s_interrupt_ends_a_run(stage: Stage, program: Program) -> None:
    process = stage.start(program, [{"hang": True}])
    stage.providers[-1].wait_for_turn()
    assert KEY not in "".join(arguments_of_all())
    ran = stage.interrupted(process)
    assert (ran.status, ran.code) == CANCELLED
    assert ran.types[-1] == "runner.failed"
    assert left_of(ran) == []


@pytest.mark.parametrize("program", CORE)
def test_the_first_example_gives_a_whole_result(stage: Stage, program: Program) -> None:
    """The command line of design/native-harness.md, with nothing but where the provider is besides."""
    (stage.workspace / "README.md").write_text("Run the program that you are given.\n")
    (stage.workspace / "test").mkdir()
    (stage.workspace / "test" / "PROGRAM.md").write_text("Write `hi` into out.txt.\n")
    log = stage.folder / "native.ndjson"
    ran = stage.finished(
        stage.start(program, [{"write": "out.txt", "content": "hi"}, DONE], f"--native-log={log}", own_adapter=True)
    )
    assert (ran.status, ran.err) == (0, "")
    assert stage.out.read_text() == "hi"
    assert ran.types == [
        "runner.started",
        "harness.started",
        "tool.started",
        "tool.ended",
        "assistant.message",
        "harness.completed",
        "runner.completed",
    ]
    result = ran.result
    assert result["terminal"]["classification"] == "completed"
    assert result["semantic"] == {"envelope_digest": None, "status": "not-applicable"}
    assert (result["assistant_text"], result["error"]) == ("FINAL: done.", None)
    assert (result["harness"]["name"], result["harness"]["version"]) == (program.harness, program.version)
    assert all(result["digests"].values())
    assert_private_log(log)
    assert left_of(ran) == []


@pytest.mark.parametrize("mode", [pytest.param(None, id="default"), "read-only"])
@pytest.mark.core
def test_codex_runs_a_command_in_every_sandbox(stage: Stage, mode: str | None) -> None:
    options = [] if mode is None else [f"--permission-mode={mode}"]
    (stage.workspace / "mark.txt").write_text("a mark")
    process = stage.start(PROGRAMS["codex"], [{"shell": "cat mark.txt"}, DONE], *options, with_mode=False)
    ran = stage.finished(process)
    assert ran.status == 0
    assert [record["body"]["failed"] for record in ran.of("tool.ended")] == [False]


@pytest.mark.core
def test_what_codex_refuses_by_itself_leaves_no_event(stage: Stage) -> None:
    """Nothing ran, and nothing in its stream says so: the artifact alone tells."""
    script = [{"shell": "printf hi > out.txt"}, DONE]
    ran = stage.finished(stage.start(PROGRAMS["codex"], script, "--permission-mode=read-only", with_mode=False))
    assert (ran.status, ran.turns, ran.of("tool.started")) == (0, 2, [])
    assert not stage.out.exists()


def assert_private_log(path: Path) -> None:
    """The log is its owner's alone, and holds no key."""
    assert path.stat().st_mode & 0o777 == 0o600
    text = path.read_text()
    assert text.count("\n") > 3
    assert KEY not in text


def left_of(ran: Ran) -> list[str]:
    """The processes that have the run's mark in their environment, in whatever session."""
    mark = f"{INVOCATION_VARIABLE}={ran.result['invocation_id']}".encode()
    return [found for found, content in of_all("environ") if mark in content.split(b"\0")]


def arguments_of_all() -> list[str]:
    """Every process's command line, as anybody on the machine can read it."""
    return [content.decode(errors="replace") for _, content in of_all("cmdline")]


def of_all(name: str) -> list[tuple[str, bytes]]:
    """A file of every process under /proc that can be read."""
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            found.append((pid, Path("/proc", pid, name).read_bytes()))
        except OSError:
            continue
    return found


def rows(heading: str) -> list[list[str]]:
    """The table of docs/native.md that begins with `heading`, without its head."""
    lines = (PROJECT_ROOT / "docs" / "native.md").read_text().splitlines()
    start = lines.index(heading)
    table = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        table.append([cell.strip() for cell in line.strip("|").split("|")])
    return table


@pytest.mark.core
def test_the_guide_says_what_each_run_comes_to() -> None:
    names = [name for name, program in PROGRAMS.items() if any(name in one.verdicts for one in SCENARIOS)]
    heading = f"| the provider | {' | '.join(names)} |"
    assert rows(heading) == [[scenario.name, *(told(scenario, name) for name in names)] for scenario in SCENARIOS]


def told(scenario: Scenario, name: str) -> str:
    """A verdict as the guide has it."""
    verdict: Any = scenario.verdicts.get(name)
    if verdict is None:
        return "-"
    noted = [f"{key} {count}" for key, count in sorted(verdict.observations.items())]
    return ", ".join([f"`{verdict.end[1]}`" if verdict.end[1] else "complete", *noted])
