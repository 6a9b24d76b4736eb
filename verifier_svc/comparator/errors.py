"""What the comparators refuse."""

from typing import ClassVar

import grpc

from countersign.kit.errors import CountersignError


class StateLimitExceeded(CountersignError):
    """More belief states than the caller allows; nothing is approximated instead. Its metadata has the limit."""

    reason: ClassVar[str] = "STATE_LIMIT_EXCEEDED"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.RESOURCE_EXHAUSTED


class SolverFault(Exception):
    """The solver's statistics contradict the physics: no answer may be given. A defect of this program."""


class Stopped(Exception):
    """Nobody waits for the answer any more."""
