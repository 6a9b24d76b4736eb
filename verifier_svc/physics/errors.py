"""What the physics refuses, one class a reason."""

from typing import ClassVar

import grpc

from countersign.kit.errors import CountersignError


class UnsupportedEnvironment(CountersignError):
    """An environment that this version of the verifier cannot recompute; its metadata names it."""

    reason: ClassVar[str] = "UNSUPPORTED_ENVIRONMENT"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.UNIMPLEMENTED


class InvalidCase(CountersignError):
    """A world, contract, prefix or message outside the rules; its metadata names the field."""

    reason: ClassVar[str] = "INVALID_CASE"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.INVALID_ARGUMENT


class InvalidAction(CountersignError):
    """A tool call that costs nothing and changes nothing: an unknown tool or claim, or one after the end."""

    reason: ClassVar[str] = "INVALID_ACTION"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.INVALID_ARGUMENT
