"""One attempt against a raw server, and everything that is to be said of it."""

import asyncio
import logging
import ssl
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from adapter_svc.routes import (
    FailureCategory,
    HttpProvider,
    ProviderAnswer,
    RequestProgress,
    Route,
    Timeouts,
    TransportFailure,
)
from tests.adapter_svc.routes.helpers import a_route
from tests.adapter_svc.routes.raw_server import RawServer, Script, serving

REQUEST = b'{"model":"m"}'
LARGE_REQUEST = b" " * (16 * 1024 * 1024)
"""More than two sockets hold: it cannot be sent to a server that does not read."""
KEY = "sk-very-secret-0123456789"

BRIEF = Timeouts(connect_millis=600, first_byte_millis=600, total_millis=600)
FIRST_BYTE_SOON = Timeouts(connect_millis=10_000, first_byte_millis=50, total_millis=10_000)
CONNECT_SOON = Timeouts(connect_millis=300, first_byte_millis=10_000, total_millis=10_000)

Failure = tuple[RequestProgress, FailureCategory]


@dataclass(frozen=True, slots=True)
class Observed:
    """How an attempt ended, and what the server saw of it; `beyond` is what came after a whole request."""

    outcome: ProviderAnswer | Failure
    connections: int
    requests: int
    beyond: bytes = b""


def in_one(outcome: ProviderAnswer | Failure, *, requests: int = 1) -> Observed:
    """What is to be observed: one connection, one request at most, and nothing after it."""
    return Observed(outcome, 1, requests)


def keyed_route(base_url: str, timeouts: Timeouts | None = None) -> Route:
    """A route that sends KEY."""
    return a_route(base_url=base_url, api_key_variable="ROUTE_KEY", timeouts=timeouts or Timeouts())


class _Listener(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(self.format(record))


@contextmanager
def everything_logged() -> Iterator[list[str]]:
    """The text of all that is logged meanwhile, at DEBUG, by HTTP libraries and the event loop too."""
    listener = _Listener()
    loggers = [logging.getLogger(name) for name in ("", "asyncio", "h11", "httpcore", "httpx")]
    levels = [logger.level for logger in loggers]
    loop = asyncio.get_running_loop()
    patience = loop.slow_callback_duration
    for logger in loggers:
        logger.setLevel(logging.DEBUG)
    loggers[0].addHandler(listener)
    loop.set_debug(True)
    loop.slow_callback_duration = 0
    try:
        yield listener.heard
    finally:
        loop.slow_callback_duration = patience
        loop.set_debug(False)
        loggers[0].removeHandler(listener)
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


async def outcome_of(route: Route, request: bytes = REQUEST, **provider: Any) -> ProviderAnswer | Failure:
    """How one attempt ends, with the key searched for in everything that is logged or that a failure could show."""
    with everything_logged() as heard:
        outcome = await _outcome_of(route, request, **provider)
    assert heard
    assert KEY not in "".join(heard)
    return outcome


async def _outcome_of(route: Route, request: bytes, **provider: Any) -> ProviderAnswer | Failure:
    try:
        return await HttpProvider({"ROUTE_KEY": KEY}, **provider).send(route, request)
    except TransportFailure as caught:
        failure = caught
    assert (failure.__cause__, failure.__context__) == (None, None)
    shown = traceback.TracebackException.from_exception(failure, capture_locals=True)
    assert KEY not in "".join(shown.format()) + repr(failure) + str(failure)
    return failure.progress, failure.category


async def observe(
    script: Script,
    *,
    request: bytes = REQUEST,
    timeouts: Timeouts | None = None,
    tls: ssl.SSLContext | None = None,
    host: str = "127.0.0.1",
    **provider: Any,
) -> Observed:
    """One attempt at `request` against a server that follows `script`."""
    async with serving(script, tls) as server:
        base_url = server.base_url.replace("127.0.0.1", host)
        outcome = await outcome_of(keyed_route(base_url, timeouts), request, **provider)
        assert all(head.count(KEY.encode()) == 1 for head in server.heads)
        return await observed_by(server, outcome)


async def observed_by(server: RawServer, outcome: ProviderAnswer | Failure) -> Observed:
    """What the server saw, once all that was under way is counted."""
    await server.settled()
    return Observed(outcome, server.connections, len(server.bodies), server.beyond)
