"""Lets a call through only for a caller whose roles allow it (design/ledger.md, Access).

Health and reflection pass, as they do through every interceptor of ours: a probe has no token, and the contract is
public.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from countersign.kit.access import AccessPolicy, Caller, Presented, standing
from countersign.kit.errors import CountersignError
from countersign.kit.interceptors.context import Context

AUTHORIZATION_KEY = "authorization"
BEARER_SCHEME = "bearer"

log = structlog.get_logger()


@contextmanager
def admitted(policy: AccessPolicy | None, method: str, context: Context) -> Iterator[None]:
    """Decide by the policy before the call runs; the caller's name is in every log line of the call.

    Without a policy everybody may do everything. Raises Unauthenticated or PermissionDenied.
    """
    if policy is None:
        with standing(None, None):
            yield
        return
    caller = _caller(policy, method, context)
    with standing(policy, caller), structlog.contextvars.bound_contextvars(caller=caller.name):
        yield


def _caller(policy: AccessPolicy, method: str, context: Context) -> Caller:
    try:
        return policy.admit(method, presented(context))
    except CountersignError as error:
        log.warning("refused", ended=error.reason, **error.metadata)
        raise


def presented(context: Context) -> Presented:
    """The token and the certificate's name that came with a call."""
    return Presented(_token(context), _common_name(context))


def _token(context: Context) -> str | None:
    """The bearer token; an empty one, which nobody has, where the header is there but holds not one bearer token."""
    headers = [value for key, value in context.invocation_metadata() or () if key == AUTHORIZATION_KEY]
    if not headers:
        return None
    if len(headers) > 1 or not isinstance(headers[0], str):
        return ""
    scheme, _, token = headers[0].partition(" ")
    return token.strip() if scheme.lower() == BEARER_SCHEME else ""


def _common_name(context: Context) -> str | None:
    """The common name of the client's certificate, which the handshake has verified."""
    names = list((context.auth_context() or {}).get("x509_common_name", ()))
    return names[0].decode("utf-8", "replace") if len(names) == 1 else None
