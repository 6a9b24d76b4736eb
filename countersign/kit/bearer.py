"""Client interceptors that send a bearer token with every call.

Interceptors rather than gRPC's call credentials, which it refuses to send over plaintext, even on loopback and Unix
sockets: where a token may go is decided once, when the channel is opened.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import grpc

Continuation = Callable[[Any, Any], Awaitable[Any]]


def bearer_interceptors(token: str) -> Sequence[grpc.aio.ClientInterceptor]:
    """One interceptor for each kind of call: gRPC sorts them by class."""
    value = f"Bearer {token}"
    return (_UnaryUnary(value), _UnaryStream(value), _StreamUnary(value), _StreamStream(value))


class _Bearer:
    """Adds the header to a call's metadata."""

    def __init__(self, value: str) -> None:
        self._value = value

    async def _send(self, continuation: Continuation, details: Any, request: Any) -> Any:
        metadata = grpc.aio.Metadata(*(details.metadata or ()), ("authorization", self._value))
        return await continuation(details._replace(metadata=metadata), request)


class _UnaryUnary(_Bearer, grpc.aio.UnaryUnaryClientInterceptor):
    async def intercept_unary_unary(self, continuation: Continuation, client_call_details: Any, request: Any) -> Any:
        return await self._send(continuation, client_call_details, request)


class _UnaryStream(_Bearer, grpc.aio.UnaryStreamClientInterceptor):
    async def intercept_unary_stream(self, continuation: Continuation, client_call_details: Any, request: Any) -> Any:
        return await self._send(continuation, client_call_details, request)


class _StreamUnary(_Bearer, grpc.aio.StreamUnaryClientInterceptor):
    async def intercept_stream_unary(
        self, continuation: Continuation, client_call_details: Any, request_iterator: Any
    ) -> Any:
        return await self._send(continuation, client_call_details, request_iterator)


class _StreamStream(_Bearer, grpc.aio.StreamStreamClientInterceptor):
    async def intercept_stream_stream(
        self, continuation: Continuation, client_call_details: Any, request_iterator: Any
    ) -> Any:
        return await self._send(continuation, client_call_details, request_iterator)
