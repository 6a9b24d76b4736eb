"""The argument grammar, as tables."""

import pytest

from countersign.prose.codes import Code, ProseError
from countersign.prose.grammar import OPTIONS, CommandLine, Kind, read_command_line
from countersign.prose.help_text import help_text


@pytest.mark.parametrize(
    ("tokens", "flags", "language"),
    [
        (["run", "x.md"], {}, ("run", "x.md")),
        (["--harness", "mock", "run"], {"harness": "mock"}, ("run",)),
        (["--harness=mock", "run"], {"harness": "mock"}, ("run",)),
        (["--model=a=b", "run"], {"model": "a=b"}, ("run",)),
        (["--model", "-x", "run"], {"model": "-x"}, ("run",)),
        (["--model=--x", "run"], {"model": "--x"}, ("run",)),
        (["--verbose", "run", "--verbose"], {"verbose": "true"}, ("run", "--verbose")),
        (["run", "--harness", "mock"], {}, ("run", "--harness", "mock")),
        (["run", "--", "x"], {}, ("run", "--", "x")),
        (["--", "run"], {}, ("run",)),
        (["--", "--harness", "x"], {}, ("--harness", "x")),
        (["--", "--"], {}, ("--",)),
        (["--", "cli", "doctor"], {}, ("cli", "doctor")),
        (["-", "x"], {}, ("-", "x")),
        (["", "x"], {}, ("", "x")),
        (["--timeout", "1s", "--timeout", "2s", "run"], {"timeout": "2s"}, ("run",)),
        (["--native-output-bytes=1048576", "run"], {"native_output_bytes": "1048576"}, ("run",)),
        (["run", "a b", "\t", "ü", "\udcff"], {}, ("run", "a b", "\t", "ü", "\udcff")),
    ],
)
def test_options_end_at_the_first_word(tokens: list[str], flags: dict[str, str], language: tuple[str, ...]) -> None:
    assert read_command_line(tokens) == CommandLine(flags, ("prose", *language))


@pytest.mark.parametrize(
    ("tokens", "subcommand"),
    [
        (["cli", "doctor"], "doctor"),
        (["--output", "json", "cli", "harness", "list"], "harness list"),
        (["cli", "config", "explain"], "config explain"),
    ],
)
def test_subcommands(tokens: list[str], subcommand: str) -> None:
    line = read_command_line(tokens)
    assert (line.subcommand, line.language) == (subcommand, ())


@pytest.mark.parametrize(
    "tokens",
    [
        [],
        ["--"],
        ["--verbose"],
        ["--nope", "run"],
        ["--nope=sk-secret", "run"],
        ["-v", "run"],
        ["--harness"],
        ["--harness=", "run"],
        ["--harness", "", "run"],
        ["--harness", "--verbose", "run"],
        ["--harness", "--", "run"],
        ["--verbose=true", "run"],
        ["--dry-run=1", "run"],
        ["--model", "a", "--model", "b", "run"],
        ["--model=a", "--model=a", "run"],
        ["--auth-profile=a", "--auth-profile", "b", "run"],
        ["cli"],
        ["cli", "nope"],
        ["cli", "doctor", "more"],
    ],
)
def test_what_is_no_invocation_is_refused_without_an_echo(tokens: list[str]) -> None:
    with pytest.raises(ProseError) as caught:
        read_command_line(tokens)
    assert caught.value.code is Code.INVOCATION_INVALID
    assert "secret" not in caught.value.detail


@pytest.mark.parametrize(("token", "information"), [("--help", "help"), ("-h", "help"), ("--version", "version")])
def test_information(token: str, information: str) -> None:
    assert read_command_line(["--verbose", token]).information == information


def test_the_help_names_every_option() -> None:
    text = help_text()
    for option in OPTIONS:
        assert f"--{option.name}{'' if option.kind is Kind.FLAG else ' VALUE'}" in text


def test_flags_before_an_error_are_kept() -> None:
    flags: dict[str, str] = {}
    with pytest.raises(ProseError):
        read_command_line(["--output", "jsonl", "--nope"], flags)
    assert flags == {"output": "jsonl"}
