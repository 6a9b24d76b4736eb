"""Configuration from files and the environment, each value with its source (design/native-harness.md, section 2).

Precedence: flag, `PROSE_*`, the project's `.prose/cli.toml`, the user's file, default. Files are flat TOML. A rejected
value is never echoed. A project's file comes with what it is checked out with, so it may not say where requests and
credentials go: `ledger`, `adapter` and `provider_base_url` are the user's to set.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from countersign.prose.codes import Code, ProseError
from countersign.prose.grammar import BY_KEY, OPTIONS, Kind

FILE_NAME: Final = "cli.toml"
FOLDER_NAME: Final = ".prose"
MAX_FILE_BYTES: Final = 64 * 1024
_LINE: Final = re.compile(r"at line ([0-9]+)")
_TRUTH: Final = {"1": "true", "true": "true", "0": "false", "false": "false"}


@dataclass(frozen=True, slots=True)
class Sourced:
    """A value as text, and where it came from: `flag`, a variable's name, or PATH:LINE. `of_file`: a file gave it."""

    text: str
    source: str
    code: Code

    def reject(self, key: str, requirement: str) -> ProseError:
        """The error for a value that does not hold what it must; it names the source, not the value."""
        where = f"--{BY_KEY[key].name}" if self.source == "flag" else f"{self.source}: {key}"
        return ProseError(self.code, f"{where}: {requirement}")


Values = Mapping[str, Sourced]


def gather(flags: Mapping[str, str], environ: Mapping[str, str], start: Path, home: Path | None) -> dict[str, Sourced]:
    """Every value that is set, by key; `start` is the folder that the project's file is looked for from.

    Raises ProseError, CONFIG_INVALID.
    """
    user = _user_file(environ, home)
    layers: list[dict[str, Sourced]] = [of_flags(flags), _of_environment(environ)]
    project = find_project_file(start)
    if project is not None and project != user:
        layers.append(read_file(project, of_project=True))
    if user is not None and user.is_file():
        layers.append(read_file(user, of_project=False))
    found: dict[str, Sourced] = {}
    for layer in layers:
        found |= {key: value for key, value in layer.items() if key not in found}
    return found


def of_flags(flags: Mapping[str, str]) -> dict[str, Sourced]:
    """The values of the command line alone."""
    return {key: Sourced(text, "flag", Code.INVOCATION_INVALID) for key, text in flags.items()}


def find_project_file(start: Path) -> Path | None:
    """`.prose/cli.toml` in `start` or above it, up to the repository's root; outside of one in `start` alone."""
    folders = [start, *start.parents]
    root = next((index for index, folder in enumerate(folders) if (folder / ".git").exists()), 0)
    candidates = (folder / FOLDER_NAME / FILE_NAME for folder in folders[: root + 1])
    return next((path for path in candidates if path.is_file()), None)


def _user_file(environ: Mapping[str, str], home: Path | None) -> Path | None:
    folder = environ.get("PROSE_CONFIG_DIR")
    if folder:
        return Path(folder) / FILE_NAME
    return None if home is None else home / FOLDER_NAME / FILE_NAME


def _of_environment(environ: Mapping[str, str]) -> dict[str, Sourced]:
    found = {}
    for option in OPTIONS:
        if option.variable not in environ:
            continue
        value = Sourced(environ[option.variable], option.variable, Code.CONFIG_INVALID)
        if not value.text:
            raise value.reject(option.key, "must not be empty")
        if option.kind is Kind.FLAG:
            if value.text not in _TRUTH:
                raise value.reject(option.key, "must be true or false")
            value = Sourced(_TRUTH[value.text], value.source, value.code)
        found[option.key] = value
    return found


def read_file(path: Path, *, of_project: bool) -> dict[str, Sourced]:
    """The values of one file. Raises ProseError, CONFIG_INVALID, whose detail begins with PATH:LINE."""
    text = _text(path)
    lines = text.splitlines()
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        # The parser's own words may repeat what the file holds: only the line is taken.
        found = _LINE.search(str(error))
        line = int(found[1]) if found else max(1, len(lines))
        raise _bad(path, line, "not TOML") from None
    return dict(_entries(path, table, lines, of_project))


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise _bad(path, 1, f"longer than {MAX_FILE_BYTES} bytes")
        return content.decode("utf-8")
    except OSError as error:
        raise _bad(path, 1, f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise _bad(path, 1, "not UTF-8") from None


def _entries(path: Path, table: Mapping[str, Any], lines: list[str], of_project: bool) -> Iterator[tuple[str, Sourced]]:
    for key, value in table.items():
        line = _line_of(key, lines)
        option = BY_KEY.get(key)
        if option is None or not option.in_files:
            raise _bad(path, line, "unknown key" if option is None else f"{key} cannot be set in a file")
        if of_project and not option.shared:
            raise _bad(path, line, f"{key} cannot be set by a project: set it in your own file")
        yield key, Sourced(_plain(path, line, key, value), f"{path}:{line}", Code.CONFIG_INVALID)


def _plain(path: Path, line: int, key: str, value: Any) -> str:
    """A value as the text that a flag would have."""
    if BY_KEY[key].kind is Kind.FLAG:
        if not isinstance(value, bool):
            raise _bad(path, line, f"{key} must be true or false")
        return "true" if value else "false"
    if key == "native_output_bytes" and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value:
        raise _bad(path, line, f"{key} must be a text that is not empty")
    return value


def _line_of(key: str, lines: list[str]) -> int:
    """Where a top-level key or its table stands, from 1."""
    name = re.escape(key)
    form = re.compile(rf"""\s*\[{{0,2}}\s*(?:{name}|"{name}"|'{name}')\s*(?:[=.\]])""")
    return next((number for number, line in enumerate(lines, 1) if form.match(line)), 1)


def _bad(path: Path, line: int, what: str) -> ProseError:
    return ProseError(Code.CONFIG_INVALID, f"{path}:{line}: {what}")
