"""A loopback front before the local model that lets it choose tools.

The local model is too small for native tool calling: its chat template has no place for tools, and its server
ignores them. What it can do is answer under a JSON schema. So this front takes a chat-completions request with
tools, explains the tools in the system message, constrains the output to a choice among exactly those tools (and,
under `tool_choice: auto`, a text answer), and writes the choice as a chat completion with one tool call.

What this is: decisions of a real model, its own tokens and usage, under constrained decoding. What it is not:
native tool calling. The model could not have written malformed arguments or a tool that was not offered, so a study
of such errors must use the plain route, straight to the model server. Nothing is repaired here: an answer cut short
stays `length` with its text as it came, and a failure upstream is HTTP 502. One attempt for each request; no
retries, no redirects, no proxies.
"""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from countersign.agents.chat import CHAT_PATH, error_response, read_chat_request
from countersign.agents.errors import AgentError, BadChatRequestError, ChoiceNotHonouredError
from countersign.agents.http_server import (
    Abort,
    Handler,
    LoopbackServer,
    Request,
    Response,
    WireLog,
    join_address,
    serve,
)
from countersign.agents.process import Service, announce, complain, parse_address, stop_event
from countersign.agents.scripted import conversation_marker
from countersign.agents.tool_choice import answer_body, constrained_body
from countersign.agents.wire import ChatRequest

_CONNECT_SECONDS = 5.0
_READ_SECONDS = 300.0
"""Long prompts take their time on few cores; the caller's own limit should be the one that ends the wait."""


class UpstreamError(AgentError):
    """The model server did not answer with a completion."""


@asynccontextmanager
async def serve_front(
    upstream: str, *, host: str = "127.0.0.1", port: int = 0, log_path: Path | None = None
) -> AsyncIterator[LoopbackServer]:
    """Run a front before the model server at `upstream` (host:port) for as long as the context lasts.

    `log_path` names the wire log. Raises NotLoopbackError for either address, and ListenError.
    """
    base_url = f"http://{join_address(*parse_address(upstream))}"
    timeout = httpx.Timeout(_READ_SECONDS, connect=_CONNECT_SECONDS)
    wire_log = WireLog(log_path, conversation_marker) if log_path is not None else None
    async with (
        httpx.AsyncClient(base_url=base_url, timeout=timeout, trust_env=False) as client,
        await serve(_handler(client), host=host, port=port, wire_log=wire_log) as server,
    ):
        yield server


def _handler(client: httpx.AsyncClient) -> Handler:
    async def handle(request: Request) -> Response | Abort:
        if (request.method, request.path) != ("POST", CHAT_PATH):
            return error_response(404, f"only POST {CHAT_PATH} is served")
        try:
            return await _choose(client, read_chat_request(request.body))
        except BadChatRequestError as error:
            return error_response(400, str(error))
        except (UpstreamError, ChoiceNotHonouredError) as error:
            return error_response(502, str(error), "upstream_error")

    return handle


async def _choose(client: httpx.AsyncClient, chat: ChatRequest) -> Response:
    upstream = await _ask(client, constrained_body(chat))
    return Response(200, json.dumps(answer_body(chat, upstream)).encode())


async def _ask(client: httpx.AsyncClient, body: dict[str, Any]) -> dict[str, Any]:
    try:
        response = await client.post(CHAT_PATH, json=body)
    except httpx.HTTPError as error:
        raise UpstreamError(f"the model server could not be asked: {type(error).__name__}") from None
    if response.status_code != 200:
        raise UpstreamError(f"the model server answered with status {response.status_code}")
    try:
        value = response.json()
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise UpstreamError("the model server's answer is not a JSON object")
    return value


async def _run(upstream: str, host: str, port: int, log_path: Path | None, parent: int) -> None:
    async with stop_event(parent) as stop, serve_front(upstream, host=host, port=port, log_path=log_path) as server:
        announce(Service.TOOL_FRONT, server.address)
        await stop.wait()


def main(arguments: list[str] | None = None) -> int:
    """`python -m countersign.agents.tool_front`: run until SIGTERM; 2 on a wrong argument or address."""
    parent = os.getppid()
    parser = argparse.ArgumentParser(prog="countersign.agents.tool_front", description=main.__doc__)
    parser.add_argument("--upstream", required=True, help="the model server's host:port")
    parser.add_argument("--listen", default="127.0.0.1:0", help="loopback address, port 0 for any")
    parser.add_argument("--log", type=Path, default=None, help="wire log, appended to")
    options = parser.parse_args(arguments)
    try:
        host, port = parse_address(options.listen)
        asyncio.run(_run(options.upstream, host, port, options.log, parent))
    except AgentError as error:
        complain(error)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
