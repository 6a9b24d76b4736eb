"""The argument grammar (design/native-harness.md, section 2): options first, then opaque bytes.

The first token that is no option ends option parsing; `--` does so explicitly. Everything after is kept as it is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from countersign.prose.codes import Code, ProseError

SUBCOMMANDS: Final = {
    ("doctor",): "doctor",
    ("harness", "list"): "harness list",
    ("config", "explain"): "config explain",
}


class Kind(Enum):
    """Whether an option takes a value."""

    VALUE = "value"
    FLAG = "flag"


@dataclass(frozen=True, slots=True)
class Option:
    """One option. `once`: a second one is an error, else the last counts. `shared`: a project's file may set it."""

    name: str
    help: str
    kind: Kind = Kind.VALUE
    once: bool = False
    in_files: bool = True
    shared: bool = True

    @property
    def key(self) -> str:
        """Its key in a configuration file."""
        return self.name.replace("-", "_")

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return f"PROSE_{self.key.upper()}"


OPTIONS: Final = (
    Option("harness", "The agent program: claude, codex, omp, pi, gemini, agents-sdk or mock."),
    Option("model", "The model, as the harness names it.", once=True),
    Option("auth-profile", "Where the harness's credentials come from; see 'cli harness list'.", once=True),
    Option("permission-mode", "default, acceptEdits, workspace-write or read-only."),
    Option("output-contract", "What makes a run complete: native or image-envelope."),
    Option("output", "human, json or jsonl."),
    Option("cwd", "The harness's working folder.", in_files=False),
    Option("timeout", "For the whole run: 90s, 10m, 1h; at most 24h."),
    Option("native-log", "An absolute path, not there yet, for the harness's own records."),
    Option("native-output-bytes", "The most that the harness may write, 1 MiB to 256 MiB, in bytes."),
    Option("image", "An image bundle: a folder, or native or echo of those that ship."),
    Option("max-cost", "The most that the run may cost, in US dollars."),
    Option("study", "The study on the ledger that pays."),
    Option("ledger", "The ledger's address.", shared=False),
    Option("prices", "A snapshot of 'countersign prices': charges a run whose harness reports no cost."),
    Option("adapter", "The adapter's address; one is started if not given.", shared=False),
    Option("provider-base-url", "Where the harness reaches its provider.", shared=False),
    Option("dry-run", "Say what would be launched, and launch nothing.", Kind.FLAG, in_files=False),
    Option("verbose", "Say more on standard error.", Kind.FLAG),
    Option("no-color", "No colours.", Kind.FLAG),
)
BY_NAME: Final = {option.name: option for option in OPTIONS}
BY_KEY: Final = {option.key: option for option in OPTIONS}


@dataclass(frozen=True, slots=True)
class CommandLine:
    """What was asked: the flags by key, and either the language's arguments, a subcommand, or help or version."""

    flags: dict[str, str]
    language: tuple[str, ...] = ()
    subcommand: str = ""
    information: str = ""


def read_command_line(tokens: Sequence[str], flags: dict[str, str] | None = None) -> CommandLine:
    """Read the arguments after the command's own name. Raises ProseError, INVOCATION_INVALID.

    `flags`, if given, is what the options are put into: those before an error are there in spite of it.
    """
    flags = {} if flags is None else flags
    rest = iter(tokens)
    for word in rest:
        if word == "--":
            return CommandLine(flags, _language(tuple(rest)))
        if word in ("--help", "-h", "--version"):
            return CommandLine(flags, information="version" if word == "--version" else "help")
        if not word.startswith("-") or word == "-":
            return _operands(flags, (word, *rest))
        option, value = _option(word, rest)
        if option.once and option.key in flags:
            raise ProseError(Code.INVOCATION_INVALID, f"--{option.name} stands twice")
        flags[option.key] = value
    raise ProseError(Code.INVOCATION_INVALID, "there is no program to run")


def _operands(flags: dict[str, str], operands: tuple[str, ...]) -> CommandLine:
    if operands[0] != "cli":
        return CommandLine(flags, _language(operands))
    subcommand = SUBCOMMANDS.get(operands[1:])
    if subcommand is None:
        raise ProseError(Code.INVOCATION_INVALID, "after 'cli' stands doctor, harness list or config explain")
    return CommandLine(flags, subcommand=subcommand)


def _language(operands: tuple[str, ...]) -> tuple[str, ...]:
    if not operands:
        raise ProseError(Code.INVOCATION_INVALID, "there is no program to run")
    return ("prose", *operands)


def _option(token: str, rest: Iterator[str]) -> tuple[Option, str]:
    name, joined, value = token.removeprefix("--").partition("=")
    option = BY_NAME.get(name) if token.startswith("--") else None
    if option is None:
        # The token may hold anything, a key among it: it is not repeated.
        raise ProseError(Code.INVOCATION_INVALID, "there is an unknown option; see --help")
    if option.kind is Kind.FLAG:
        if joined:
            raise ProseError(Code.INVOCATION_INVALID, f"--{name} takes no value")
        return option, "true"
    if not joined:
        value = next(rest, "")
        if value.startswith("--"):
            raise ProseError(
                Code.INVOCATION_INVALID, f"--{name} needs a value; one that begins with -- needs --{name}="
            )
    if not value:
        raise ProseError(Code.INVOCATION_INVALID, f"--{name} needs a value")
    return option, value
