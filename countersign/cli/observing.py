"""Where the command line sends its traces, and those of the processes that it starts."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from countersign.kit.observability.running import ENDPOINT_VARIABLE, NotObservable, Wanted, observed
from countersign.study.errors import BadInput

OtlpEndpoint = Annotated[
    str,
    typer.Option(
        envvar=ENDPOINT_VARIABLE, help="Where to send traces, over OTLP/gRPC: HOST:PORT on loopback or tls:HOST:PORT."
    ),
]


@contextmanager
def traced(endpoint: str, *, insecure: bool) -> Iterator[None]:
    """Send this process's traces, and its children's, to `endpoint` as long as the context lasts; empty: nowhere.

    Raises BadInput.
    """
    before = os.environ.get(ENDPOINT_VARIABLE)
    try:
        with observed("collector", Wanted(otlp_endpoint=endpoint, insecure=insecure)):
            if endpoint:
                os.environ[ENDPOINT_VARIABLE] = endpoint
            yield
    except NotObservable as error:
        raise BadInput(error.message) from None
    finally:
        if endpoint:
            _restore(before)


def _restore(before: str | None) -> None:
    if before is None:
        os.environ.pop(ENDPOINT_VARIABLE, None)
    else:
        os.environ[ENDPOINT_VARIABLE] = before
