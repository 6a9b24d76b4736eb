"""Names every call, so that a client, a log line and an error can be brought together."""

import secrets

import structlog

from countersign.kit.interceptors.context import Context
from countersign.kit.limits import MAX_ID_CHARACTERS

REQUEST_ID_KEY = "x-request-id"


def name_call(context: Context) -> None:
    """Take the caller's `x-request-id`, or make one; bind it to the call's logs and send it back with the trailer."""
    request_id = given_request_id(context) or secrets.token_hex(16)
    context.set_trailing_metadata(((REQUEST_ID_KEY, request_id),))
    # Each call runs in a task, and so in a context, of its own: nothing has to be taken back.
    structlog.contextvars.bind_contextvars(request_id=request_id)


def given_request_id(context: Context) -> str:
    """The id that the caller sent, or an empty text where it sent none that is printable and short."""
    for key, value in context.invocation_metadata() or ():
        if key == REQUEST_ID_KEY and isinstance(value, str) and value.isprintable():
            return value[:MAX_ID_CHARACTERS]
    return ""
