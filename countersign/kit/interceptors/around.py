"""The one interceptor of every server: names, watches, admits, logs and checks each call, and ends it with its error.

All of it is one interceptor and not one for each concern, because gRPC asks every interceptor of its own at every call.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import grpc

from countersign.kit.access import AccessPolicy
from countersign.kit.interceptors.access import admitted
from countersign.kit.interceptors.context import Context
from countersign.kit.interceptors.deadline import check_deadline
from countersign.kit.interceptors.error_boundary import end_with
from countersign.kit.interceptors.logging import logged
from countersign.kit.interceptors.request_id import name_call
from countersign.kit.observability.rpc import observed_call

if TYPE_CHECKING:
    Handler = grpc.RpcMethodHandler[Any, Any]
else:
    # Generic in the type stubs only.
    Handler = grpc.RpcMethodHandler

OUR_PACKAGES = "/countersign."


class AroundInterceptor(grpc.aio.ServerInterceptor):
    """Stands around each call of Countersign's own services; health and reflection pass.

    Without a policy everybody may do everything. `mutations` are the paths of the methods that need a deadline.
    """

    def __init__(self, policy: AccessPolicy | None, mutations: frozenset[str]) -> None:
        self._policy = policy
        self._mutations = mutations
        self._wrapped: dict[str, tuple[Handler, Handler]] = {}

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        """The handler of the method with everything around it; made once, since every call asks for it."""
        handler = await continuation(handler_call_details)
        method = _text(handler_call_details.method)
        if handler is None or not method.startswith(OUR_PACKAGES):
            return handler
        known = self._wrapped.get(method)
        if known is None or known[0] is not handler:
            known = self._wrapped[method] = (handler, self._wrap(handler, method))
        return known[1]

    def _wrap(self, handler: Any, method: str) -> Handler:
        async def unary(request: Any, context: Context) -> Any:
            name_call(context)
            try:
                with seen(method, context), admitted(self._policy, method, context), logged(method):
                    self._check(method, context)
                    return await behaviour(request, context)
            except Exception as error:  # noqa: BLE001 - the boundary is where every exception ends
                await end_with(error, method, context)

        async def streaming(request: Any, context: Context) -> None:
            name_call(context)
            try:
                with seen(method, context), admitted(self._policy, method, context), logged(method):
                    self._check(method, context)
                    await _stream(behaviour(request, context), context)
            except Exception as error:  # noqa: BLE001 - the boundary is where every exception ends
                await end_with(error, method, context)

        seen = partial(observed_call, is_duplex=bool(handler.request_streaming and handler.response_streaming))
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

    def _check(self, method: str, context: Context) -> None:
        if method in self._mutations:
            check_deadline(method, context)


async def _stream(result: Any, context: Context) -> None:
    """Send what the behaviour yields, or wait for one that writes by itself."""
    if not hasattr(result, "__aiter__"):
        await result
        return
    async for message in result:
        await context.write(message)


def _text(method: str | bytes) -> str:
    return method.decode("ascii") if isinstance(method, bytes) else method
