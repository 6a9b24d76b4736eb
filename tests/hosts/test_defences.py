"""Each fault between hosts has defences, and each defence a test that fails without it.

The list is checked always. Taking the defences away needs root, and some minutes: `make test-defences`.
"""

import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.conftest import PROJECT_ROOT
from tests.hosts.defences import DEFENCES, Defence, Fault
from tests.hosts.network import why_not

LEFT_OUT = shutil.ignore_patterns(".git", ".venv*", ".harness", "build", "dist", "runs", "node_modules")
TESTS = sorted({defence.test for defence in DEFENCES})
SECONDS_PER_TEST = 120
WAITED_IN_VAIN = ("not in time", "Timeout")
PACKAGES = (
    "adapter_svc",
    "countersign.cli",
    "countersign.ledger.v1.ledger_pb2",
    "ledger_svc",
    "tests.hosts",
    "verifier_svc",
)

taken_away = pytest.mark.skipif(
    os.environ.get("COUNTERSIGN_DEFENCES") != "1", reason="takes some minutes: make test-defences"
)


def test_every_fault_has_a_defence() -> None:
    assert {defence.fault for defence in DEFENCES} == set(Fault)
    names = [defence.name for defence in DEFENCES]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("defence", DEFENCES, ids=lambda one: one.name)
def test_a_listed_defence_is_there(defence: Defence) -> None:
    text = (PROJECT_ROOT / defence.file).read_text()
    assert text.count(defence.old) == 1
    compile(text.replace(defence.old, defence.new), defence.file, "exec")
    path, _, function = defence.test.partition("::")
    assert re.search(rf"^def {function}\(", (PROJECT_ROOT / path).read_text(), re.MULTILINE)


def test_the_threat_model_has_the_same_table() -> None:
    text = (PROJECT_ROOT / "docs" / "threat-model.md").read_text()
    table = text.partition("\n## Faults, defences, tests\n")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("|")][2:]
    assert rows == [f"| {one.fault} | {one.why} | `{one.file}` | `{one.test}` |" for one in DEFENCES]


@taken_away
@pytest.mark.timeout(SECONDS_PER_TEST * len(TESTS))
def test_with_every_defence_in_place_the_tests_pass(tmp_path: Path) -> None:
    copy = _copy(tmp_path)
    assert _outcomes(copy, TESTS) == dict.fromkeys(TESTS, "passed")


@taken_away
@pytest.mark.timeout(2 * SECONDS_PER_TEST)
@pytest.mark.parametrize("defence", DEFENCES, ids=lambda one: one.name)
def test_without_its_defence_a_test_fails(defence: Defence, tmp_path: Path) -> None:
    copy = _copy(tmp_path)
    file = copy / defence.file
    file.write_text(file.read_text().replace(defence.old, defence.new))
    assert _outcomes(copy, [defence.test]) == {defence.test: "failed"}


def _copy(folder: Path) -> Path:
    """The project in a folder of its own; what runs there, children included, runs the copy."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    copy = folder / "project"
    shutil.copytree(PROJECT_ROOT, copy, ignore=LEFT_OUT, symlinks=True)
    asked = f"import importlib\nfor name in {PACKAGES!r}: print(importlib.import_module(name).__file__)"
    # From elsewhere: the environment alone must lead a child to the copy.
    found = subprocess.run(
        [sys.executable, "-c", asked], cwd=folder, env=_environment(copy), capture_output=True, text=True, check=True
    )
    assert all(Path(line).is_relative_to(copy) for line in found.stdout.splitlines()), found.stdout
    return copy


def _environment(copy: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(copy), "COUNTERSIGN_DEFENCES": "0"}


def _outcomes(copy: Path, tests: list[str]) -> dict[str, str]:
    """What came of each test, by pytest's own report. A set-up that breaks is an error, and no failure."""
    report = copy.parent / "report.xml"
    command = [sys.executable, "-m", "pytest", *tests, f"--junitxml={report}"]
    ran = subprocess.run(command, cwd=copy, env=_environment(copy), capture_output=True, text=True)
    assert ran.returncode in (0, 1), ran.stdout[-4000:]
    print(ran.stdout)
    return {_id(case): _outcome(case) for case in ElementTree.parse(report).iter("testcase")}


def _id(case: ElementTree.Element) -> str:
    return f"{case.attrib['classname'].replace('.', '/')}.py::{case.attrib['name']}"


def _outcome(case: ElementTree.Element) -> str:
    """Of one test case. A broken set-up is no failure, nor is waiting in vain: a busy machine does so too."""
    for tag, outcome in (("error", "error"), ("skipped", "skipped"), ("failure", "failed")):
        found = case.find(tag)
        if found is not None:
            message = found.attrib.get("message", "")
            return "late" if any(word in message for word in WAITED_IN_VAIN) else outcome
    return "passed"
