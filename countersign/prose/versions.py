"""Which program a harness is, and which version it says that it is: looked up once, asked once (section 6)."""

import asyncio
import contextlib
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from countersign.prose.codes import Code, ProseError
from countersign.prose.profiles import allowed_environment
from countersign.prose.recipes import Recipe

PROBE_SECONDS: Final = 30.0
_ANSWER_BYTES: Final = 4096
_VERSION: Final = re.compile(r"(?<![0-9.])([0-9]{1,9}(?:\.[0-9]{1,9}){1,3})")


@dataclass(frozen=True, slots=True)
class Found:
    """A harness on this machine."""

    program: tuple[str, ...]
    version: str


async def find_harness(recipe: Recipe, environ: Mapping[str, str]) -> Found:
    """The program and its version. Raises ProseError: HARNESS_UNAVAILABLE or HARNESS_INCOMPATIBLE."""
    program = find_program(recipe, environ)
    version = await _version(recipe, program, environ)
    if not recipe.accepts(tuple(map(int, version.split(".")))):
        raise ProseError(
            Code.HARNESS_INCOMPATIBLE, f"{recipe.harness} says {version}: this command knows {recipe.version_range}"
        )
    return Found(program, version)


def find_program(recipe: Recipe, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The program's absolute path, from PATH. Raises ProseError, HARNESS_UNAVAILABLE."""
    if recipe.program is not None:
        return recipe.program()
    # Empty and relative entries would mean whatever folder this is run in.
    folders = [folder for folder in environ.get("PATH", "").split(os.pathsep) if os.path.isabs(folder)]
    path = shutil.which(recipe.executable, path=os.pathsep.join(folders)) if folders else None
    if path is None:
        raise ProseError(Code.HARNESS_UNAVAILABLE, f"{recipe.executable} is not on PATH")
    return (path,)


async def _version(recipe: Recipe, program: tuple[str, ...], environ: Mapping[str, str]) -> str:
    if recipe.own_version is None:
        answer = await _ask(program, environ)
    else:
        answer = recipe.own_version() or ""
    found = _VERSION.search(answer)
    if found is None:
        raise ProseError(Code.HARNESS_UNAVAILABLE, f"{recipe.harness} is not installed, or does not say its version")
    return found[1]


async def _ask(program: tuple[str, ...], environ: Mapping[str, str]) -> str:
    """What the program says to `--version`, without credentials, in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="prose-", ignore_cleanup_errors=True) as folder:
        try:
            process = await asyncio.create_subprocess_exec(
                *program,
                "--version",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                cwd=folder,
                env=allowed_environment(environ),
                start_new_session=True,
            )
        except OSError as error:
            raise ProseError(Code.HARNESS_UNAVAILABLE, f"it cannot be started: {error.strerror}") from None
        try:
            assert process.stdout is not None
            answer = await asyncio.wait_for(process.stdout.read(_ANSWER_BYTES), PROBE_SECONDS)
        except TimeoutError:
            answer = b""
        finally:
            await _end(process)
    return answer.decode("utf-8", "replace")


async def _end(process: asyncio.subprocess.Process) -> None:
    """The answer is there, or will not come: a moment to exit, then the whole group is killed."""
    try:
        await asyncio.wait_for(process.wait(), 1.0)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
