"""The command, and its one boundary for errors: a result, never a traceback."""

import asyncio
import os
import time
import traceback
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from countersign.cli.showing import shown_identity
from countersign.prose.codes import FACTS, Code, ProseError
from countersign.prose.config import Sourced, gather, of_flags
from countersign.prose.grammar import CommandLine, read_command_line
from countersign.prose.help_text import help_text
from countersign.prose.identity import RANDOM_BYTES, uuid7
from countersign.prose.inspecting import examine, explain, list_harnesses
from countersign.prose.interruption import Interruption
from countersign.prose.rendering import Reporter
from countersign.prose.result import Outcome, runner_version
from countersign.prose.running import Run
from countersign.prose.settings import HarnessName, Rendering, read_cwd, read_rendering, read_settings
from countersign.prose.tabulating import harness_rows, table_text
from countersign.prose.writer import Writer
from countersign.study.errors import StudyError
from countersign.study.services import show


def run_command(
    tokens: Sequence[str],
    environ: Mapping[str, str],
    interruption: Interruption | None = None,
    leave: Callable[[int], NoReturn] | None = None,
) -> int:
    """Run the command with the arguments after its name; its exit status.

    `leave` is called with it, if given, as soon as all is said, and ends the process.
    """
    return asyncio.run(_Command(tokens, environ).run(interruption or Interruption(), leave))


class _Command:
    def __init__(self, tokens: Sequence[str], environ: Mapping[str, str]) -> None:
        self._tokens = tokens
        self._environ = environ
        self._cancelled = asyncio.Event()
        self._running: Run | None = None
        self._values: dict[str, Sourced] = {}

    async def run(self, interruption: Interruption, leave: Callable[[int], NoReturn] | None) -> int:
        interruption.listen(self._on_signal)
        writer = Writer(self._on_broken)
        reporter = Reporter(writer)
        outcome = Outcome(uuid7(time.time_ns() // 1_000_000, os.urandom(RANDOM_BYTES)), time.time())
        status = await self._answer(reporter, writer, outcome)
        await writer.close(self._cancelled)
        if leave is not None:
            leave(status)
        return status

    def _on_signal(self) -> None:
        self._cancelled.set()
        if self._running is not None:
            self._running.cancel()

    def _on_broken(self) -> None:
        if self._running is not None:
            self._running.cancel()

    async def _answer(self, reporter: Reporter, writer: Writer, outcome: Outcome) -> int:
        flags: dict[str, str] = {}
        try:
            line = read_command_line(self._tokens, flags)
            if line.information:
                text = help_text() if line.information == "help" else f"prose {runner_version()}\n"
                writer.put(text.encode())
                return 0
            cwd = self._configure(line, reporter)
            if line.subcommand:
                return await self._unless_cancelled(self._inspect(line.subcommand, cwd, reporter, writer))
            await self._run_program(line, cwd, reporter, outcome)
        except ProseError as error:
            outcome.error = error
            if not self._values:
                reporter.rendering = _wanted_rendering(flags)
        except Exception as error:  # noqa: BLE001 - people get a line that can be reported, not a traceback
            outcome.error = ProseError(Code.INTERNAL_ERROR, _where(error))
        outcome.ended_at = time.time()
        if outcome.error is not None or not (outcome.settings and outcome.settings.dry_run):
            reporter.finish(outcome)
        return outcome.exit_status

    async def _unless_cancelled(self, work: Coroutine[Any, Any, int]) -> int:
        """Raises ProseError, CANCELLED, where a signal comes first."""
        working, cancelled = asyncio.ensure_future(work), asyncio.ensure_future(self._cancelled.wait())
        await asyncio.wait({working, cancelled}, return_when=asyncio.FIRST_COMPLETED)
        for task in (cancelled, working):
            task.cancel()
        await asyncio.gather(working, return_exceptions=True)
        if working.cancelled():
            raise ProseError(Code.CANCELLED, "the caller ended the command")
        return working.result()

    def _configure(self, line: CommandLine, reporter: Reporter) -> Path:
        """Gather what is configured, so that even a wrong value is said in the rendering that was asked for."""
        self._values = of_flags(line.flags)
        reporter.rendering = read_rendering(self._values)
        cwd = read_cwd(line.flags, self._environ)
        home = self._environ.get("HOME")
        self._values = gather(line.flags, self._environ, cwd, Path(home) if home else None)
        reporter.rendering = read_rendering(self._values)
        return cwd

    async def _run_program(self, line: CommandLine, cwd: Path, reporter: Reporter, outcome: Outcome) -> None:
        settings = read_settings(self._values, cwd)
        outcome.settings = settings
        reporter.verbose, reporter.no_color = settings.verbose, settings.no_color
        _show_identity(self._environ)
        reporter.event(
            "runner.started",
            {
                "invocation_id": outcome.invocation,
                "runner_version": runner_version(),
                "harness": settings.harness.value,
                "contract": settings.contract.value,
                "cwd": str(settings.cwd),
            },
        )
        self._running = Run(settings, line.language, outcome, reporter)
        if self._cancelled.is_set():
            self._running.cancel()
        await self._running.execute(self._environ)

    async def _inspect(self, subcommand: str, cwd: Path, reporter: Reporter, writer: Writer) -> int:
        match subcommand:
            case "config explain":
                # A value is shown only once it has been checked: what is rejected is never echoed.
                read_settings(of_flags({"harness": HarnessName.MOCK}) | self._values, cwd)
                rows = explain(self._values, cwd)
            case "harness list":
                rows = await list_harnesses(self._environ)
            case _:
                rows = await examine(self._environ, self._values)
        if reporter.rendering is Rendering.HUMAN:
            writer.put(table_text(harness_rows(rows) if subcommand == "harness list" else rows).encode())
        else:
            reporter.show_rows(rows)
        troubled = subcommand == "doctor" and not all(row["well"] or not row["needed"] for row in rows)
        return FACTS[Code.HARNESS_UNAVAILABLE].status if troubled else 0


def _wanted_rendering(flags: Mapping[str, str]) -> Rendering:
    """The rendering of an error that came before the configuration was read."""
    try:
        return read_rendering(of_flags(flags))
    except ProseError:
        return Rendering.HUMAN


def _show_identity(environ: Mapping[str, str]) -> None:
    """What services are shown, as for every other command. Raises ProseError, CONFIG_INVALID."""

    def path(name: str) -> Path | None:
        return Path(environ[name]) if environ.get(name) else None

    try:
        identity = shown_identity(
            path("COUNTERSIGN_TOKEN_FILE"),
            path("COUNTERSIGN_CA"),
            path("COUNTERSIGN_CERTIFICATE"),
            path("COUNTERSIGN_KEY"),
            environ.get("COUNTERSIGN_INSECURE", "").lower() in ("1", "true", "yes", "on"),
        )
    except StudyError as error:
        raise ProseError(Code.CONFIG_INVALID, error.message) from None
    show(identity)


def _where(error: Exception) -> str:
    """Where a defect showed; its text may hold anything, and is not repeated."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {Path(frame.filename).stem}.{frame.name}, line {frame.lineno}"
