"""Refuses a mutation without a deadline (design/architecture.md, Contracts)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc

from countersign.kit.errors import CountersignError
from countersign.kit.interceptors.around import AroundInterceptor, Context


class DeadlineRequired(CountersignError):
    """A mutation came without a deadline."""

    reason = "DEADLINE_REQUIRED"
    status = grpc.StatusCode.INVALID_ARGUMENT


class DeadlineInterceptor(AroundInterceptor):
    """Lets the named methods through only with a deadline."""

    def __init__(self, mutations: frozenset[str]) -> None:
        self._mutations = mutations

    @asynccontextmanager
    async def around(self, method: str, context: Context) -> AsyncIterator[None]:
        """Check before the call runs."""
        if method in self._mutations and context.time_remaining() is None:
            raise DeadlineRequired("set a deadline on this call", method=method)
        yield
