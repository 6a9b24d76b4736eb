"""What all interceptors share: run something around a handler, whatever its streaming."""

import abc
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import grpc

if TYPE_CHECKING:
    Handler = grpc.RpcMethodHandler[Any, Any]
    Context = grpc.aio.ServicerContext[Any, Any]
else:
    # Generic in the type stubs only.
    Handler = grpc.RpcMethodHandler
    Context = grpc.aio.ServicerContext


class AroundInterceptor(grpc.aio.ServerInterceptor, metaclass=abc.ABCMeta):
    """An interceptor that wraps each call of Countersign's own services in an async context manager."""

    @abc.abstractmethod
    def around(self, method: str, context: Context) -> AbstractAsyncContextManager[None]:
        """What to run around one call of `method` (`/package.Service/Method`)."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        """Wrap the handler that the rest of the chain gives."""
        handler = await continuation(handler_call_details)
        method = _text(handler_call_details.method)
        if handler is None or not method.startswith("/countersign."):
            return handler
        return self._wrap(handler, method)

    def _wrap(self, handler: Any, method: str) -> Handler:
        async def unary(request: Any, context: Context) -> Any:
            async with self.around(method, context):
                return await behaviour(request, context)

        async def streaming(request: Any, context: Context) -> None:
            async with self.around(method, context):
                result = behaviour(request, context)
                if not hasattr(result, "__aiter__"):
                    await result
                    return
                async for message in result:
                    await context.write(message)

        behaviour = handler.unary_unary or handler.unary_stream or handler.stream_unary or handler.stream_stream
        wrapped: Any = streaming if handler.response_streaming else unary
        makers: dict[tuple[bool, bool], Any] = {
            (False, False): grpc.unary_unary_rpc_method_handler,
            (False, True): grpc.unary_stream_rpc_method_handler,
            (True, False): grpc.stream_unary_rpc_method_handler,
            (True, True): grpc.stream_stream_rpc_method_handler,
        }
        make = makers[bool(handler.request_streaming), bool(handler.response_streaming)]
        result: Handler = make(
            wrapped,
            request_deserializer=handler.request_deserializer,
            response_serializer=handler.response_serializer,
        )
        return result


def _text(method: str | bytes) -> str:
    return method.decode("ascii") if isinstance(method, bytes) else method
