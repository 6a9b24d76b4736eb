"""`countersign rehearse` and `countersign local`: providers on this machine, to rehearse a study against."""

from pathlib import Path
from typing import Annotated

import typer

from countersign.agents import local_model, scripted
from countersign.agents.errors import AgentError
from countersign.agents.process import parse_address
from countersign.cli.output import AsJson
from countersign.study.errors import ProcessFailed

Listen = Annotated[str, typer.Option(help="Where to listen: HOST:PORT on loopback; port 0 takes any.")]
WireLog = Annotated[Path | None, typer.Option("--log", help="A file to append a wire log to.")]


def rehearse(
    listen: Listen = "127.0.0.1:0",
    policy: Annotated[str | None, typer.Option(help="What answers models without the scripted/ prefix.")] = None,
    log: WireLog = None,
    as_json: AsJson = False,
) -> None:
    """Run the scripted agent; it says where it listens as a JSON line, with or without --json."""
    del as_json
    try:
        host, port = parse_address(listen)
        scripted.rehearse(host, port, policy, log, exit_with_parent=False)
    except AgentError as error:
        raise ProcessFailed(str(error)) from None


def local(
    listen: Listen = "127.0.0.1:0",
    front: Annotated[bool, typer.Option(help="Put the tool front before the model.")] = False,
    log: WireLog = None,
    as_json: AsJson = False,
) -> None:
    """Run the local model; it says where it listens as a JSON line, with or without --json."""
    del as_json
    arguments = ["--listen", listen, *(["--front"] if front else []), *(["--log", str(log)] if log else [])]
    raise typer.Exit(local_model.main(arguments))
