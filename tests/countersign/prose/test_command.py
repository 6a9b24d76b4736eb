"""The command as its users run it: a process of its own, signals at any moment, nothing left behind."""

import contextlib
import gc
import json
import os
import random
import re
import select
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from countersign.ledger.v1 import ledger_pb2_grpc
from countersign.prose.interruption import SIGNALS
from countersign.prose.process_table import read_table
from tests.conftest import PROJECT_ROOT
from tests.countersign.prose.conftest import SECRET, Answer, Prose, adapter_process

RUNS = int(os.environ.get("COUNTERSIGN_PROSE_RUNS", "100"))
SIGNALLED_RUNS = max(6, RUNS // 30)
SEED = 20_260_711
PATIENCE_SECONDS = 60


@pytest.fixture
def command(environment: dict[str, str], workspace: Path, adapter: str) -> Iterator["Command"]:
    command = Command(environment, workspace, adapter)
    yield command
    command.end()


class Command:
    """Starts the command as a process."""

    def __init__(self, environment: dict[str, str], workspace: Path, adapter: str) -> None:
        self._environment = environment | {"PYTHONPATH": str(PROJECT_ROOT)}
        self._workspace = workspace
        self._adapter = adapter
        self._started: list[subprocess.Popen[str]] = []

    def start(self, script: str, *options: str, **environment: str) -> subprocess.Popen[str]:
        standard = ("--harness=mock", "--output-contract=native", f"--adapter={self._adapter}", f"--model={script}")
        process = subprocess.Popen(
            [sys.executable, "-m", "countersign.prose", "--output=jsonl", *standard, *options, "run", "x.md"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self._workspace,
            env=self._environment | environment,
            preexec_fn=heed_signals,
        )
        self._started.append(process)
        return process

    def run(self, script: str, *options: str, **environment: str) -> Answer:
        return finished(self.start(script, *options, **environment))

    def end(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate()


def heed_signals() -> None:
    """Signals that whoever runs the tests ignores, as below `nohup` or in a shell's background, are heard here."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def finished(process: subprocess.Popen[str], before: str = "") -> Answer:
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert "Traceback" not in err
    return Answer(process.returncode, before + out, err)


def marked(invocation: str) -> list[int]:
    """Processes of a run that are alive."""
    found = []
    for process in read_table():
        try:
            environ = Path(f"/proc/{process.pid}/environ").read_bytes()
        except OSError:
            continue
        if process.alive and invocation.encode() in environ:
            found.append(process.pid)
    return found


def test_it_starts_an_adapter_where_none_is_given(environment: dict[str, str], workspace: Path) -> None:
    options = ("--harness=mock", "--output-contract=native", "--model=say:hello", "run")
    command = [sys.executable, "-m", "countersign.prose", *options]
    env = environment | {"PYTHONPATH": str(PROJECT_ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=workspace, env=env, timeout=PATIENCE_SECONDS)
    assert (done.returncode, done.stdout, done.stderr) == (0, "hello\n", "")


@pytest.mark.parametrize(("script", "status"), [("tool", 0), ("error", 22), ("survivor:session", 25)])
def test_the_exit_status_is_the_process_s(command: Command, script: str, status: int) -> None:
    answer = command.run(script)
    assert (answer.status, marked(answer.result["invocation_id"])) == (status, [])


def test_events_are_said_as_they_come(command: Command) -> None:
    process = command.start("hang")
    assert process.stdout is not None
    seen = [process.stdout.readline() for _ in range(3)]
    assert [json.loads(line)["type"] for line in seen] == ["runner.started", "harness.started", "assistant.message"]
    process.send_signal(signal.SIGTERM)
    assert finished(process, "".join(seen)).status == 24


def stopped(process: "subprocess.Popen[str]") -> Answer:
    """What comes of a signal once the harness has said that it started."""
    assert process.stdout is not None
    seen = process.stdout.readline() + process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    return finished(process, seen)


def test_a_terminal_record_after_our_signal_completes_nothing(command: Command) -> None:
    answer = stopped(command.start("late-success"))
    terminal = answer.result["terminal"]
    assert (answer.status, terminal["terminal_event_observed"], terminal["exit_status"]) == (24, True, 0)
    assert (terminal["classification"], terminal["transport_completed"]) == ("cancelled", False)


def test_its_cost_is_not_taken_for_final(
    command: Command, ledger: tuple[str, ledger_pb2_grpc.LedgerServiceStub]
) -> None:
    paid = ("--study=s", "--max-cost=0.5", f"--ledger={ledger[0]}")
    result = stopped(command.start("late-success", *paid)).result
    assert (result["cost_usd"], result["ledger"]["state"]) == ("0.25", "held")
    assert result["ledger"]["hold_category"] == "COST_UNRESOLVED"


def test_what_hides_in_a_session_of_its_own_is_ended_with_the_run(command: Command) -> None:
    answer = stopped(command.start("hang-with-survivor"))
    assert (answer.status, answer.code) == (24, "CANCELLED")
    assert (answer.result["supervision"]["killed"], answer.result["supervision"]["remaining"]) == (1, 0)
    assert marked(answer.result["invocation_id"]) == []


def test_a_second_signal_ends_patience(command: Command) -> None:
    process = command.start("stubborn")
    assert process.stdout is not None
    seen = process.stdout.readline() + process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    answer = finished(process, seen)
    assert (answer.status, answer.code, answer.result["terminal"]["signal_sent"]) == (24, "CANCELLED", 9)


def test_signals_at_any_moment_end_it_cleanly(command: Command) -> None:
    """After some lines, and then some time below what a run takes, drawn from a seed."""
    drawn = random.Random(SEED)
    for number in range(SIGNALLED_RUNS):
        script = drawn.choice(["hang", "many:2000", "hang-with-survivor"])
        process = command.start(script)
        assert process.stdout is not None
        seen = "".join(process.stdout.readline() for _ in range(drawn.randint(1, 2)))
        select.select([], [], [], drawn.random() * 0.05)
        process.send_signal(drawn.choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP]))
        answer = finished(process, seen)
        lines = [json.loads(line) for line in answer.out.splitlines()]
        assert [line["sequence"] for line in lines] == list(range(len(lines))), number
        assert lines[-1]["type"] in ("runner.completed", "runner.failed"), number
        expected = {"CANCELLED": 24, None: 0} if script == "many:2000" else {"CANCELLED": 24}
        assert answer.status == expected[answer.code], number
        assert marked(answer.result["invocation_id"]) == [], number


def test_an_adapter_that_dies_ends_the_run(command: Command) -> None:
    with adapter_process() as (address, judge):
        process = command.start("hang", f"--adapter={address}")
        assert process.stdout is not None
        seen = process.stdout.readline() + process.stdout.readline()
        judge.kill()
        answer = finished(process, seen)
    assert (answer.status, answer.code) == (70, "INTERNAL_ERROR")
    assert answer.result["supervision"]["remaining"] == 0
    assert marked(answer.result["invocation_id"]) == []


def test_nobody_reading_any_more_ends_the_run(command: Command) -> None:
    process = command.start("flood")
    assert process.stdout is not None
    first = json.loads(process.stdout.readline())
    process.stdout.close()
    assert process.stderr is not None
    process.stderr.read()
    assert process.wait(PATIENCE_SECONDS) == 24
    process.stderr.close()
    process.stdout = process.stderr = None
    assert marked(first["body"]["invocation_id"]) == []


def test_a_reader_who_stops_reading_does_not_stop_the_supervision(command: Command) -> None:
    process = command.start("flood", "--native-output-bytes=67108864")
    assert process.stdout is not None
    first = json.loads(process.stdout.readline())
    process.send_signal(signal.SIGTERM)
    # The pipe is full and stays so: the process ends in spite of it.
    assert process.wait(PATIENCE_SECONDS) == 24
    assert marked(first["body"]["invocation_id"]) == []


def test_a_key_is_in_nobody_s_arguments(command: Command) -> None:
    process = command.start("hang", "--auth-profile=mock-api-key", MOCK_API_KEY=SECRET)
    assert process.stdout is not None
    seen = [process.stdout.readline() for _ in range(3)]
    invocation = json.loads(seen[0])["body"]["invocation_id"]
    members = marked(invocation)
    assert len(members) == 1
    for pid in (*members, process.pid):
        assert SECRET.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
    process.send_signal(signal.SIGINT)
    answer = finished(process, "".join(seen))
    assert SECRET not in answer.out + answer.err


@pytest.mark.timeout(max(300, RUNS * 3))
def test_many_runs_leave_no_process_and_no_descriptor(prose: Prose, tmp_path: Path) -> None:
    scripts = ["text", "tool", "error", "cut", "crash", "malformed", "exit-after-success:1", "many:50", "truncated"]
    drawn = random.Random(SEED)
    prose("text")
    before = descriptors()
    threads = len(os.listdir("/proc/self/task"))
    invocations = []
    for _ in range(RUNS):
        answer = prose(drawn.choice(scripts))
        assert answer.status in (0, 22)
        invocations.append(answer.result["invocation_id"])
    assert Counter(descriptors()) - Counter(before) == Counter()
    assert len(os.listdir("/proc/self/task")) <= threads + 2
    own = [process for process in read_table() if process.parent == os.getpid() and not process.alive]
    assert own == []
    alive = b"".join(_environ(process.pid) for process in read_table() if process.alive)
    assert [one for one in invocations if one.encode() in alive] == []
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["home", "temporary", "workspace"]


def descriptors() -> list[str]:
    """What this process has open, by kind; what only cycles of garbage hold is closed first."""
    gc.collect()
    found = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.append(re.sub("[0-9]+", "N", os.readlink(f"/proc/self/fd/{name}")))
    return sorted(found)


def _environ(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""
