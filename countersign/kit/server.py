"""The one way to build and run a `grpc.aio` server."""

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import grpc
import structlog
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer
from grpc_reflection.v1alpha import reflection

from countersign.kit import limits
from countersign.kit.address import TLS_PREFIX, UNIX_PREFIX, BadAddress, check_listen_address
from countersign.kit.interceptors.around import AroundInterceptor
from countersign.kit.security import OPEN, Security, log_security

log = structlog.get_logger()

SERVER_OPTIONS: Sequence[tuple[str, int]] = (
    ("grpc.max_receive_message_length", limits.MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", limits.MAX_MESSAGE_BYTES),
    # Two servers on one port would share its calls between them: the second must fail instead.
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_time_ms", limits.KEEPALIVE_MILLIS),
    ("grpc.keepalive_timeout_ms", limits.KEEPALIVE_TIMEOUT_MILLIS),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", limits.MIN_PING_INTERVAL_MILLIS),
    ("grpc.keepalive_permit_without_calls", 1),
)


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """One gRPC service to serve: its short and full name, how to register it, and which methods mutate."""

    name: str
    full_name: str
    register: Callable[[grpc.aio.Server], None]
    mutations: frozenset[str] = frozenset()

    def mutation_paths(self) -> frozenset[str]:
        """The mutating methods as gRPC names them."""
        return frozenset(f"/{self.full_name}/{method}" for method in self.mutations)


@dataclass(slots=True)
class RunningServer:
    """A started server: the address to reach it at, its health, whether it drains, and who may call it."""

    address: str
    server: grpc.aio.Server
    health: Any
    full_name: str
    draining: asyncio.Event
    security: Security = OPEN

    async def set_serving(self, serving: bool) -> None:
        """Tell health checks whether the service can do its work."""
        status = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        for name in ("", self.full_name):
            await self.health.set(name, status)

    async def stop(self, grace_seconds: float) -> None:
        """Stop: NOT_SERVING, no new calls, wait for those under way, at most `grace_seconds`."""
        self.draining.set()
        await self.set_serving(False)
        await self.server.stop(grace_seconds)


async def start_server(
    spec: ServiceSpec, listen: str, draining: asyncio.Event | None = None, security: Security = OPEN
) -> RunningServer:
    """Build and start a server with health, reflection and what stands around every call.

    `draining` is set once the server is told to stop, before it waits for the calls under way.

    Raises BadAddress where `listen` cannot be used, or is beyond loopback without the protection that this needs.
    """
    check_listen_address(listen, protected=security.may_leave_loopback)
    server = grpc.aio.server(
        interceptors=(AroundInterceptor(security.policy, spec.mutation_paths()),),
        options=SERVER_OPTIONS,
    )
    spec.register(server)
    health = HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(health, server)
    names = (
        spec.full_name,
        health_pb2.DESCRIPTOR.services_by_name["Health"].full_name,
        reflection.SERVICE_NAME,
    )
    reflection.enable_server_reflection(names, server)
    address = _bind(server, listen, security)
    await server.start()
    running = RunningServer(address, server, health, spec.full_name, draining or asyncio.Event(), security)
    await running.set_serving(True)
    return running


def _bind(server: grpc.aio.Server, listen: str, security: Security) -> str:
    """Let the server listen; the address by which a client of ours reaches it."""
    on_socket = listen.startswith(UNIX_PREFIX)
    if on_socket and security.credentials is not None:
        raise BadAddress(f"{listen} is a Unix socket, which takes no TLS: leave the TLS files out")
    try:
        if security.credentials is None:
            port = server.add_insecure_port(listen)
        else:
            port = server.add_secure_port(listen, security.credentials)
    except RuntimeError:
        raise BadAddress(f"cannot listen on {listen}: choose another address") from None
    if on_socket:
        return listen
    return f"{TLS_PREFIX if security.credentials is not None else ''}{listen.rpartition(':')[0]}:{port}"


async def serve_until_stopped(
    running: RunningServer, name: str, drain_seconds: float, *, exit_with_stdin: bool
) -> None:
    """Say on standard output where the service listens; serve until SIGTERM, SIGINT or the end of standard input.

    The last only with `exit_with_stdin`. SIGHUP reads the access file anew, where there is one.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if running.security.access_file is not None:
        loop.add_signal_handler(signal.SIGHUP, running.security.access_file.reload)
    log_security(running.security, running.address)
    announcement = {"event": "listening", "service": name, "address": running.address}
    sys.stdout.write(json.dumps(announcement) + "\n")
    sys.stdout.flush()
    async with _stdin_watch(stop, exit_with_stdin):
        await stop.wait()
    log.info("draining", drain_seconds=drain_seconds)
    await running.stop(drain_seconds)
    log.info("stopped")


@contextlib.asynccontextmanager
async def _stdin_watch(stop: asyncio.Event, enabled: bool) -> AsyncIterator[None]:
    """Set `stop` at the end of standard input: the process that started this one is gone."""
    if not enabled:
        yield
        return
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)

    async def watch() -> None:
        while await reader.read(4096):
            pass
        stop.set()

    task = asyncio.create_task(watch())
    try:
        yield
    finally:
        task.cancel()
        transport.close()
