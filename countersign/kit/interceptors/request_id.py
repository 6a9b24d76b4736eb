"""Names every call, so that a client, a log line and an error can be brought together."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from countersign.kit.interceptors.around import AroundInterceptor, Context
from countersign.kit.limits import MAX_ID_CHARACTERS

REQUEST_ID_KEY = "x-request-id"


class RequestIdInterceptor(AroundInterceptor):
    """Takes the caller's `x-request-id`, or makes one; binds it to the logs and sends it back with the trailer."""

    @asynccontextmanager
    async def around(self, method: str, context: Context) -> AsyncIterator[None]:
        """Bind the id while the call runs."""
        request_id = given_request_id(context) or uuid.uuid4().hex
        context.set_trailing_metadata(((REQUEST_ID_KEY, request_id),))
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            yield


def given_request_id(context: Context) -> str:
    """The id that the caller sent, or an empty text where it sent none that is printable and short."""
    for key, value in context.invocation_metadata() or ():
        if key == REQUEST_ID_KEY and isinstance(value, str) and value.isprintable():
            return value[:MAX_ID_CHARACTERS]
    return ""
