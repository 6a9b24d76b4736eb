"""Refuses a mutation without a deadline (design/architecture.md, Contracts)."""

import grpc

from countersign.kit.errors import CountersignError
from countersign.kit.interceptors.context import Context


class DeadlineRequired(CountersignError):
    """A mutation came without a deadline."""

    reason = "DEADLINE_REQUIRED"
    status = grpc.StatusCode.INVALID_ARGUMENT


def check_deadline(method: str, context: Context) -> None:
    """Raise DeadlineRequired where the call has no deadline."""
    if context.time_remaining() is None:
        raise DeadlineRequired("set a deadline on this call", method=method)
