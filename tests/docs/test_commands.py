"""Every command and every long option that a page names exists."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main

from countersign.cli.main import app
from countersign.prose.help_text import help_text
from tests.conftest import PROJECT_ROOT
from tests.docs.pages import PAGES, commands

ROOT = typer.main.get_command(app)
PROGRAMS = {
    "countersign-ledger": "ledger_svc",
    "countersign-adapter": "adapter_svc",
    "countersign-verifier": "verifier_svc",
    "countersign-health": "countersign.kit.health",
}
WORD = re.compile(r"[a-z][a-z-]*")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT_ROOT)))
def test_every_command_and_option_of_a_page_exists(page: Path) -> None:
    assert [fault for line in commands(page) for fault in faults(line)] == []


def faults(line: str) -> Iterator[str]:
    """What of the line does not exist, where it is a command line of ours."""
    words = split(line)
    if not words:
        return
    if words[0] == "countersign":
        yield from command_faults(words[1:], line)
    elif words[0] == "prose" and len(words) > 1:
        yield from (f"{line}: {name}" for name in options(words) if name not in known_options(help_text()))
    elif words[0] in PROGRAMS:
        yield from (f"{line}: {name}" for name in options(words) if name not in known_options(said_by(words[0])))


def split(line: str) -> list[str]:
    """The line's words up to the next command; none where it is no command line."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        return []
    ends = [index for index, word in enumerate(words) if word in ("|", "&", "&&", ";")]
    return words[: ends[0]] if ends else words


def command_faults(words: list[str], line: str) -> Iterator[str]:
    """Goes down the commands as far as the words name them; the rest may hold options of any command passed."""
    here: Any = ROOT
    allowed = {"--help": True, **flags(here)}
    takes_value = False
    for word in words:
        if word.startswith("--"):
            name = word.partition("=")[0]
            if name not in allowed:
                yield f"{line}: {name}"
            takes_value = "=" not in word and not allowed.get(name, True)
        elif takes_value:
            takes_value = False
        elif hasattr(here, "commands") and WORD.fullmatch(word):
            if word not in here.commands:
                yield f"{line}: {word}"
                return
            here = here.commands[word]
            allowed |= flags(here)


def flags(command: Any) -> dict[str, bool]:
    """The command's options, and whether each is a flag without a value."""
    return {name: getattr(parameter, "is_flag", False) for parameter in command.params for name in parameter.opts}


def options(words: list[str]) -> list[str]:
    """The long options among the words, up to a bare `--`."""
    ours = words[: words.index("--")] if "--" in words else words
    return [word.partition("=")[0] for word in ours if word.startswith("--")]


def known_options(text: str) -> set[str]:
    return set(re.findall(r"--[a-z][a-z-]*", text)) | {"--help"}


@cache
def said_by(program: str) -> str:
    """What the program's `--help` says."""
    command = [sys.executable, "-m", PROGRAMS[program], "--help"]
    return subprocess.run(command, cwd=PROJECT_ROOT, capture_output=True, text=True, check=True).stdout


def test_a_command_or_option_that_does_not_exist_is_found() -> None:
    assert list(faults("countersign ledger frobnicate")) == ["countersign ledger frobnicate: frobnicate"]
    assert list(faults("countersign ledger holds lab --al")) == ["countersign ledger holds lab --al: --al"]
    assert list(faults("countersign-ledger --databass x")) == ["countersign-ledger --databass x: --databass"]
    assert list(faults("prose --harnes mock run x")) == ["prose --harnes mock run x: --harnes"]
    assert list(faults("countersign --insecure collect plan.toml --out run")) == []


def test_the_commands_of_the_pages_are_read() -> None:
    ours = [line for page in PAGES for line in commands(page) if split(line)[:1] == ["countersign"]]
    assert len(ours) > 80
    assert 'countersign ledger grant team 12.50 --by ann --reason "the spring pilot"' in ours
