"""Real agent programs run by the real command, with a scripted provider, where nothing but loopback is reachable."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import countersign.prose
from tests.conftest import PROJECT_ROOT
from tests.harness.loopback import READY
from tests.harness.programs import ALL_VARIABLE, KEY, Program

SCHEMA = json.loads((Path(countersign.prose.__file__).parent / "run-result.schema.json").read_text())
TIMEOUT = "25s"
Act = dict[str, Any]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without the variable only the core set is run: seconds matter in continuous integration."""
    if os.environ.get(ALL_VARIABLE):
        return
    reason = pytest.mark.skip(reason=f"not of the core set: run it with `make test-harness`, which sets {ALL_VARIABLE}")
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.get_closest_marker("core") is None:
            item.add_marker(reason)


@pytest.fixture(scope="session")
def network() -> Iterator[tuple[str, ...]]:
    """What a command begins with to run where there is loopback and nothing else; nothing where that cannot be had."""
    command = ["unshare", "--net", sys.executable, "-m", "tests.harness.loopback"]
    if shutil.which("unshare") is None or shutil.which("nsenter") is None:
        say_open("unshare and nsenter are not installed")
        yield ()
        return
    with subprocess.Popen(
        command, cwd=PROJECT_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        if holder.stdout.readline().strip() == READY:
            yield ("nsenter", f"--net=/proc/{holder.pid}/ns/net")
        else:
            say_open("this machine allows no network namespace")
            yield ()
        holder.stdin.close()


def say_open(reason: str) -> None:
    """Say that the programs can reach the network."""
    print(f"\nreal programs run without a network namespace: {reason}", file=sys.__stderr__)


@pytest.fixture(scope="session")
def isolated_adapter(network: tuple[str, ...]) -> Iterator[str]:
    """A real adapter beside the provider, for all runs but those which start their own."""
    command = [*network, sys.executable, "-m", "adapter_svc", "--listen", "127.0.0.1:0", "--exit-with-stdin"]
    with subprocess.Popen(
        command, cwd=PROJECT_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        announced = (json.loads(line) for line in process.stdout)
        yield next(one["address"] for one in announced if one.get("event") == "listening")
        process.stdin.close()


@dataclass
class Provider:
    """A running provider: where it is, and what it says that it was asked."""

    process: "subprocess.Popen[str]"
    url: str
    seen: list[dict[str, Any]] = field(default_factory=list)

    def wait_for_turn(self) -> None:
        """Return once a turn was asked for."""
        assert self.process.stdout is not None
        while not any(one["turn"] for one in self.seen):
            self.seen.append(json.loads(self.process.stdout.readline()))

    def finish(self) -> None:
        """End it, and read the rest of what it says."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        if not self.process.stdin.closed:
            self.process.stdin.close()
            self.seen += [json.loads(line) for line in self.process.stdout]
            self.process.wait()
            self.process.stdout.close()


@dataclass
class Ran:
    """A run that ended."""

    status: int
    records: list[dict[str, Any]]
    err: str
    turns: int
    keys: set[str]

    @property
    def result(self) -> dict[str, Any]:
        """The result, which is of its schema."""
        result: dict[str, Any] = self.records[-1]["body"]
        jsonschema.validate(result, SCHEMA)
        return result

    @property
    def code(self) -> str | None:
        """The error's code."""
        error = self.result["error"]
        return None if error is None else error["code"]

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The events of one type."""
        return [record for record in self.records if record["type"] == kind]

    @property
    def types(self) -> list[str]:
        """The events' types, in order."""
        return [record["type"] for record in self.records]


class Stage:
    """Runs of one test: a home and a workspace of their own, and a provider for each run."""

    def __init__(self, network: tuple[str, ...], adapter: str, folder: Path) -> None:
        self._network = network
        self._adapter = adapter
        self.folder = folder
        self.workspace = folder / "workspace"
        self.home = folder / "home"
        self.providers: list[Provider] = []
        for made in (self.workspace, self.home, folder / "bin", folder / "tmp"):
            made.mkdir()

    @property
    def out(self) -> Path:
        """The file that the scripts write."""
        return self.workspace / "out.txt"

    def start(
        self,
        program: Program,
        script: list[Act],
        *options: str,
        own_adapter: bool = False,
        with_mode: bool = True,
        timeout: str = TIMEOUT,
    ) -> "subprocess.Popen[str]":
        """Start a run against a provider with the script; skip where the program is not there.

        `with_mode` asks for the program's own permission mode.
        """
        skip_where_missing(program)
        provider = self._provider(script)
        given = [
            f"--harness={program.harness}",
            f"--model={program.model}",
            f"--auth-profile={program.profile}",
            *([f"--permission-mode={program.mode}"] if with_mode else []),
            "--output-contract=native",
            "--output=jsonl",
            f"--cwd={self.workspace}",
            f"--timeout={timeout}",
            f"--provider-base-url={provider.url}{program.api}",
            *([] if own_adapter else [f"--adapter={self._adapter}"]),
            *options,
        ]
        return subprocess.Popen(
            [*self._network, sys.executable, "-m", "countersign.prose", *given, "run", "test/PROGRAM.md"],
            cwd=PROJECT_ROOT,
            env=self._environment(program),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, program: Program, script: list[Act], *options: str, **more: Any) -> Ran:
        """Run to the end."""
        return self.finished(self.start(program, script, *options, **more))

    def finished(self, process: "subprocess.Popen[str]") -> Ran:
        """What a started run came to."""
        out, err = process.communicate()
        provider = self.providers[-1]
        provider.finish()
        records = [json.loads(line) for line in out.splitlines()]
        assert [record["sequence"] for record in records] == list(range(len(records)))
        assert KEY not in out + err
        turns = [one for one in provider.seen if one["turn"]]
        return Ran(process.returncode, records, err, len(turns), {one["key"] for one in turns})

    def interrupted(self, process: "subprocess.Popen[str]") -> Ran:
        """What a started run comes to after a SIGINT to the command."""
        process.send_signal(signal.SIGINT)
        return self.finished(process)

    def _provider(self, script: list[Act]) -> Provider:
        path = self.folder / "script.json"
        path.write_text(json.dumps([self._placed(act) for act in script]))
        process = subprocess.Popen(
            [*self._network, sys.executable, "-m", "tests.harness.provider", str(path)],
            cwd=PROJECT_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        provider = Provider(process, json.loads(process.stdout.readline())["url"])
        self.providers.append(provider)
        return provider

    def _placed(self, act: Act) -> Act:
        """Programs want the whole path of a file."""
        return act | {"write": str(self.workspace / act["write"])} if "write" in act else act

    def _environment(self, program: Program) -> dict[str, str]:
        for name, path in program.files().items():
            place = self.folder / "bin" / name
            place.unlink(missing_ok=True)
            place.symlink_to(path)
        for name, text in program.home.items():
            place = self.home / name
            place.parent.mkdir(exist_ok=True)
            place.write_text(text)
        return {
            "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.home),
            "TMPDIR": str(self.folder / "tmp"),
            "LANG": "C.UTF-8",
            program.variable: KEY,
        }


def skip_where_missing(program: Program) -> None:
    """Skip where the program is not installed; fail instead where all of them were asked for."""
    missing = program.missing()
    if missing is not None:
        assert not os.environ.get(ALL_VARIABLE), missing
        pytest.skip(missing)


@pytest.fixture
def stage(network: tuple[str, ...], isolated_adapter: str, tmp_path: Path) -> Iterator[Stage]:
    """A place for runs."""
    made = Stage(network, isolated_adapter, tmp_path)
    yield made
    for provider in made.providers:
        provider.finish()
