"""The one way to build a channel and to make a call on it."""

from collections.abc import Sequence
from typing import TypeVar

import grpc

from countersign.kit import limits
from countersign.kit.address import TLS_PREFIX, check_target
from countersign.kit.bearer import bearer_interceptors
from countersign.kit.client_metadata import metadata_interceptors
from countersign.kit.identity import ANONYMOUS, Identity
from countersign.kit.observability import tracing
from countersign.kit.rpc_errors import ServiceError, from_rpc_error

Q = TypeVar("Q")
A = TypeVar("A")

CHANNEL_OPTIONS = (
    # Nothing of ours is retried by gRPC: UNAVAILABLE does not mean that a call was not executed.
    ("grpc.enable_retries", 0),
    ("grpc.max_receive_message_length", limits.MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", limits.MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", limits.KEEPALIVE_MILLIS),
    ("grpc.keepalive_timeout_ms", limits.KEEPALIVE_TIMEOUT_MILLIS),
    # A service that was restarted is found again within a second rather than after a back-off of minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # Proxies named in the environment are for the world outside, never for our own services.
    ("grpc.enable_http_proxy", 0),
)


def open_channel(address: str, identity: Identity = ANONYMOUS) -> grpc.aio.Channel:
    """A channel to `address` (HOST:PORT, tls:HOST:PORT or unix:PATH), without retries, that shows `identity`.

    Raises BadAddress for a malformed address, and for plaintext beyond loopback unless the identity is `insecure`.
    """
    check_target(address, insecure=identity.insecure)
    interceptors = _interceptors(identity)
    if not address.startswith(TLS_PREFIX):
        return grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS, interceptors=interceptors)
    credentials = identity.credentials or grpc.ssl_channel_credentials()
    target = address.removeprefix(TLS_PREFIX)
    return grpc.aio.secure_channel(target, credentials, options=CHANNEL_OPTIONS, interceptors=interceptors)


def _interceptors(identity: Identity) -> Sequence[grpc.aio.ClientInterceptor]:
    """What sends the token, and the trace that a call belongs to where traces are on."""
    bearer = bearer_interceptors(identity.token) if identity.token is not None else ()
    return (*bearer, *metadata_interceptors(_trace_pairs)) if tracing.is_on() else bearer


def _trace_pairs() -> Sequence[tuple[str, str]]:
    traceparent = tracing.traceparent()
    return ((tracing.TRACEPARENT, traceparent),) if traceparent else ()


async def call(method: "grpc.aio.UnaryUnaryMultiCallable[Q, A]", request: Q, timeout_seconds: float) -> A:
    """Make one unary call with a deadline; raises ServiceError, whose reason tells what to do."""
    try:
        return await method(request, timeout=timeout_seconds)
    except grpc.aio.AioRpcError as error:
        raise from_rpc_error(error) from None


__all__ = ["CHANNEL_OPTIONS", "ServiceError", "call", "open_channel"]
