"""What --help says."""

from countersign.prose.grammar import OPTIONS, Kind

_HEAD = """Usage: prose [options] <program and its arguments...>
       prose [options] -- <program and its arguments...>
       prose [options] cli doctor | cli harness list | cli config explain

Runs a program written in prose with an agent command-line tool, as a supervised child, and reports what the tool's own
protocol established. Completion says that the tool finished, not that the program's requirements hold.

Options, as --option value or --option=value; each also as PROSE_OPTION, or as a key of .prose/cli.toml:
"""
_TAIL = """
Exit status: 0 success; 2 invocation or configuration; 10 harness unavailable, incompatible or without credentials;
20 image; 21 startup timeout; 22 protocol or harness failure; 23 semantic status unknown; 24 cancelled; 25 cleanup
failed; 30 the envelope says that the program failed; 70 internal.
"""


def help_text() -> str:
    """The whole help."""
    lines = []
    for option in OPTIONS:
        name = f"--{option.name}" + ("" if option.kind is Kind.FLAG else " VALUE")
        lines.append(f"  {name:<28}{option.help}\n")
    return _HEAD + "".join(lines) + _TAIL
