"""Lets a call through only for a caller whose roles allow it (design/ledger.md, Access).

Health and reflection pass, as they do through every interceptor of ours: a probe has no token, and the contract is
public.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from countersign.kit.access import AccessPolicy, Caller, Presented, standing
from countersign.kit.errors import CountersignError
from countersign.kit.interceptors.around import AroundInterceptor, Context

AUTHORIZATION_KEY = "authorization"
BEARER_SCHEME = "bearer"

log = structlog.get_logger()


class AccessInterceptor(AroundInterceptor):
    """Decides on every call by one policy; without a policy everybody may do everything."""

    def __init__(self, policy: AccessPolicy | None) -> None:
        self._policy = policy

    @asynccontextmanager
    async def around(self, method: str, context: Context) -> AsyncIterator[None]:
        """Decide before the call runs; the caller's name is in every log line of the call."""
        if self._policy is None:
            with standing(None, None):
                yield
            return
        caller = self._admitted(self._policy, method, context)
        with standing(self._policy, caller), structlog.contextvars.bound_contextvars(caller=caller.name):
            yield

    def _admitted(self, policy: AccessPolicy, method: str, context: Context) -> Caller:
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
