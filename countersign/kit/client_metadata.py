"""Client interceptors that send something with every call."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import grpc

Continuation = Callable[[Any, Any], Awaitable[Any]]
Pairs = Callable[[], Sequence[tuple[str, str]]]
"""What to send with a call that is made now."""


def metadata_interceptors(pairs: Pairs) -> Sequence[grpc.aio.ClientInterceptor]:
    """One interceptor for each kind of call: gRPC sorts them by class."""
    return (_UnaryUnary(pairs), _UnaryStream(pairs), _StreamUnary(pairs), _StreamStream(pairs))


class _Sending:
    """Adds to a call's metadata."""

    def __init__(self, pairs: Pairs) -> None:
        self._pairs = pairs

    async def _send(self, continuation: Continuation, details: Any, request: Any) -> Any:
        metadata = grpc.aio.Metadata(*(details.metadata or ()), *self._pairs())
        return await continuation(details._replace(metadata=metadata), request)


class _UnaryUnary(_Sending, grpc.aio.UnaryUnaryClientInterceptor):
    async def intercept_unary_unary(self, continuation: Continuation, client_call_details: Any, request: Any) -> Any:
        return await self._send(continuation, client_call_details, request)


class _UnaryStream(_Sending, grpc.aio.UnaryStreamClientInterceptor):
    async def intercept_unary_stream(self, continuation: Continuation, client_call_details: Any, request: Any) -> Any:
        return await self._send(continuation, client_call_details, request)


class _StreamUnary(_Sending, grpc.aio.StreamUnaryClientInterceptor):
    async def intercept_stream_unary(
        self, continuation: Continuation, client_call_details: Any, request_iterator: Any
    ) -> Any:
        return await self._send(continuation, client_call_details, request_iterator)


class _StreamStream(_Sending, grpc.aio.StreamStreamClientInterceptor):
    async def intercept_stream_stream(
        self, continuation: Continuation, client_call_details: Any, request_iterator: Any
    ) -> Any:
        return await self._send(continuation, client_call_details, request_iterator)
