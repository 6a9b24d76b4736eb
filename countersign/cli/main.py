"""The entry of the command line, and its one boundary for errors: one line on standard error, never a traceback."""

import sys
import traceback
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated

import typer
from typer.exceptions import Abort, TyperException

from countersign.cli import (
    adapt,
    agents,
    collect,
    exchanges,
    ledger,
    native,
    prices,
    report,
    services,
    solve,
    study,
)
from countersign.cli.observing import OtlpEndpoint, traced
from countersign.cli.output import say
from countersign.cli.running import Interrupted
from countersign.cli.showing import Ca, Certificate, Insecure, Key, TokenFile, shown_identity
from countersign.kit.process import forbid_core_dumps
from countersign.study.errors import StudyError
from countersign.study.services import show

HELP = """Trustworthy evaluation of language-model agents with paid calls.

Exit status: 0 done; 1 a service failed, or a verification differs; 2 wrong input; 3 a hold or the stop rule ended a
collection early; 130 or 143 interrupted.
"""
INTERNAL_STATUS = 70

app = typer.Typer(name="countersign", help=HELP, add_completion=False, pretty_exceptions_enable=False)
app.command("collect")(collect.collect)
app.command("report")(report.report)
app.command("up")(services.up)
app.add_typer(ledger.app, name="ledger")
app.add_typer(study.app, name="study")
app.command("prices")(prices.prices)
app.command("adapt")(adapt.adapt)
app.command("replay")(exchanges.replay)
app.command("solve")(solve.solve)
app.command("native")(native.native)
app.command("rehearse")(agents.rehearse)
app.command("local")(agents.local)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    token_file: TokenFile = None,
    ca: Ca = None,
    certificate: Certificate = None,
    key: Key = None,
    insecure: Insecure = False,
    otlp_endpoint: OtlpEndpoint = "",
    show_version: Annotated[bool, typer.Option("--version", help="Say the version and exit.")] = False,
) -> None:
    if show_version:
        sys.stdout.write(f"countersign {version('countersign')}\n")
        raise typer.Exit()
    if context.invoked_subcommand is None:
        sys.stdout.write(context.get_help() + "\n")
        raise typer.Exit()
    show(shown_identity(token_file, ca, certificate, key, insecure))
    context.with_resource(traced(otlp_endpoint, insecure=insecure))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the process's exit status."""
    forbid_core_dumps()
    try:
        result = app(
            args=None if arguments is None else list(arguments), prog_name="countersign", standalone_mode=False
        )
    except StudyError as error:
        return _fail(error.message, error.exit_status)
    except Interrupted as error:
        return _fail("interrupted", error.exit_status)
    except TyperException as error:
        return _fail(f"{' '.join(error.format_message().split())} (see --help)", 2)
    except (Abort, KeyboardInterrupt):
        return _fail("interrupted", 130)
    except OSError as error:
        return _fail(f"{error.strerror}: {error.filename}" if error.filename else str(error), 2)
    except Exception as error:  # noqa: BLE001 - people get a line that can be reported, not a traceback
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return _fail(f"internal error: {type(error).__name__} at {frame.name}, line {frame.lineno}", INTERNAL_STATUS)
    return result if isinstance(result, int) else 0


def _fail(line: str, status: int) -> int:
    say(f"countersign: {line}")
    return status
