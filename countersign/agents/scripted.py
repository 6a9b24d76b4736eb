"""The scripted agent: a provider that answers by a named policy in every wire format, for rehearsals and tests.

The request's model name chooses the policy (`scripted/act-well`) and is served back; any other model name gets the
server's default policy. The agent keeps no state: the conversation in the request is all it knows.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from countersign.agents.chat import error_response
from countersign.agents.errors import AgentError, BadChatRequestError, UnknownPolicyError
from countersign.agents.http_server import Abort, Handler, LoopbackServer, Request, Response, WireLog, serve
from countersign.agents.policies import MODEL_PREFIX, Late, Policy, answer, read_policy
from countersign.agents.process import Service, announce, complain, parse_address, stop_event
from countersign.agents.situation import packet_text
from countersign.agents.wires import read_request
from countersign.kit.canonical import sha256

DEFAULT_LATE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class ScriptedConfig:
    """`default_policy` answers models without the prefix (None: refused); `late_seconds` is `late`'s delay."""

    default_policy: Policy | None = None
    late_seconds: float = DEFAULT_LATE_SECONDS


async def serve_scripted(
    config: ScriptedConfig | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    log_path: Path | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> LoopbackServer:
    """Start a scripted agent; `log_path` names the wire log. Raises NotLoopbackError and ListenError."""
    handler = _handler(config or ScriptedConfig(), sleep)
    wire_log = WireLog(log_path, conversation_marker) if log_path is not None else None
    return await serve(handler, host=host, port=port, wire_log=wire_log)


def rehearse(
    host: str,
    port: int,
    policy: str | None,
    log_path: Path | None,
    *,
    late_seconds: float = DEFAULT_LATE_SECONDS,
    exit_with_parent: bool = True,
) -> None:
    """Run a scripted agent in this process, announce it on stdout, and return after SIGTERM or SIGINT.

    `policy` is the default for models without the `scripted/` prefix. Raises UnknownPolicyError, NotLoopbackError
    and ListenError before anything is announced.
    """
    config = ScriptedConfig(read_policy(policy) if policy is not None else None, late_seconds)
    parent = os.getppid() if exit_with_parent else None
    asyncio.run(_rehearse(config, host, port, log_path, parent))


async def _rehearse(config: ScriptedConfig, host: str, port: int, log_path: Path | None, parent: int | None) -> None:
    async with (
        stop_event(parent) as stop,
        await serve_scripted(config, host=host, port=port, log_path=log_path) as server,
    ):
        announce(Service.SCRIPTED_AGENT, server.address)
        await stop.wait()


def conversation_marker(request: Request) -> str | None:
    """What tells conversations apart in the wire log: the start of the packet's digest, equal in every turn.

    Repetitions of one packet share it; an episode's own name is never on the wire. None without a packet.
    """
    try:
        chat = read_request(request)
    except BadChatRequestError:
        return None
    packet = None if chat is None else packet_text(chat)
    return None if packet is None else sha256(packet.encode("utf-8", "surrogatepass")).hex()[:16]


def _handler(config: ScriptedConfig, sleep: Callable[[float], Awaitable[None]]) -> Handler:
    async def handle(request: Request) -> Response | Abort:
        try:
            chat = read_request(request)
            if chat is None:
                return error_response(404, "nothing is served here")
            policy = _policy_of(chat.model, config)
        except BadChatRequestError as error:
            return error_response(400, str(error))
        except UnknownPolicyError as error:
            return error_response(404, str(error))
        reply = answer(policy, chat)
        if isinstance(reply, Late):
            await sleep(config.late_seconds)
            return reply.response
        return reply

    return handle


def _policy_of(model: str, config: ScriptedConfig) -> Policy:
    if model.startswith(MODEL_PREFIX):
        return read_policy(model.removeprefix(MODEL_PREFIX))
    if config.default_policy is None:
        raise UnknownPolicyError(f"the model {model!r} names no policy and the server has no default")
    return config.default_policy


def main(arguments: list[str] | None = None) -> int:
    """`python -m countersign.agents.scripted`: run until SIGTERM; 2 on a wrong argument or address."""
    parser = argparse.ArgumentParser(prog="countersign.agents.scripted", description=main.__doc__)
    parser.add_argument("--listen", default="127.0.0.1:0", help="loopback address, port 0 for any")
    parser.add_argument("--policy", default=None, help="policy for models without the scripted/ prefix")
    parser.add_argument("--log", type=Path, default=None, help="wire log, appended to")
    parser.add_argument("--late-seconds", type=float, default=DEFAULT_LATE_SECONDS, help="the delay of policy late")
    options = parser.parse_args(arguments)
    try:
        host, port = parse_address(options.listen)
        rehearse(host, port, options.policy, options.log, late_seconds=options.late_seconds)
    except AgentError as error:
        complain(error)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
