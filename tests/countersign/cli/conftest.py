"""Fixtures of the command line's tests: the stand-ins run in a thread of their own, the command in the main thread."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from countersign.cli.main import main
from tests.countersign.study.fakes import Fakes, run_fakes
from tests.countersign.study.plans import plan_text


@dataclass
class Answer:
    """What a command ended with and said."""

    status: int
    out: str
    err: str

    def lines(self) -> list[dict[str, Any]]:
        """Standard output as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


Command = Callable[..., Answer]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command; no traceback may ever be seen."""

    def run(*arguments: object) -> Answer:
        status = main([str(argument) for argument in arguments])
        seen = capsys.readouterr()
        assert "Traceback" not in seen.out + seen.err
        return Answer(status, seen.out, seen.err)

    return run


@pytest.fixture
def fakes() -> Iterator[Fakes]:
    """Stand-ins for the three services."""
    ready, stop = threading.Event(), asyncio.Event()
    found: list[Fakes] = []
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        async with run_fakes() as running:
            found.append(running)
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    ready.wait()
    yield found[0]
    loop.call_soon_threadsafe(stop.set)
    thread.join()
    loop.close()


@pytest.fixture
def addresses(fakes: Fakes) -> Sequence[str]:
    """The options that name the stand-ins."""
    where = fakes.addresses
    return ("--ledger", where.ledger, "--adapter", where.adapter, "--verifier", where.verifier)


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    """A small plan."""
    path = tmp_path / "plan.toml"
    path.write_text(plan_text())
    return path
