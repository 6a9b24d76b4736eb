"""The context that gRPC gives with each call."""

from typing import TYPE_CHECKING, Any

import grpc

if TYPE_CHECKING:
    Context = grpc.aio.ServicerContext[Any, Any]
else:
    # Generic in the type stubs only.
    Context = grpc.aio.ServicerContext
