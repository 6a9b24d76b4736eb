"""How a service's process begins and ends."""

import asyncio
import resource
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import NoReturn, TypeVar

from countersign.kit.errors import CountersignError
from countersign.kit.logs import configure_logs
from countersign.kit.observability.running import Wanted, observed
from countersign.kit.settings import ServiceSettings, load_settings

S = TypeVar("S", bound=ServiceSettings)
BAD_INPUT_STATUS = 2


def run_service(
    name: str, settings_type: type[S], serve: Callable[[S], Awaitable[None]], argv: Sequence[str] | None
) -> None:
    """Read the settings and serve; where that cannot start, one clear line on standard error and exit status 2."""
    forbid_core_dumps()
    configure_logs(name)
    try:
        settings = load_settings(settings_type, sys.argv[1:] if argv is None else argv)
        with observed(name, wanted(settings)):
            asyncio.run(_awaited(serve(settings)))
    except CountersignError as error:
        fail(name, error.message)


def wanted(settings: ServiceSettings) -> Wanted:
    """What the settings say of traces and metrics."""
    return Wanted(settings.otlp_endpoint, settings.metrics_listen, settings.insecure, settings.metrics_anywhere)


def forbid_core_dumps() -> None:
    """From now on a crash of this process leaves no file: its memory holds tokens, keys and private text."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


async def _awaited(serving: Awaitable[None]) -> None:
    await serving


def fail(name: str, message: str) -> NoReturn:
    """End this process with one line on standard error and exit status 2."""
    sys.stderr.write(f"{name}: {message}\n")
    sys.exit(BAD_INPUT_STATUS)
