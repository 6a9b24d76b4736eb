"""What the environments and the case builder refuse, one class per reason."""

from enum import StrEnum
from typing import ClassVar

import grpc

from countersign.kit.errors import CountersignError


class ActionFault(StrEnum):
    """Why a call is itself invalid (design/environments.md, Shared rules)."""

    AFTER_END = "after_end"
    UNKNOWN_TOOL = "unknown_tool"
    CLAIM_NOT_ALLOWED = "claim_not_allowed"
    MISSING_CLAIM = "missing_claim"
    UNKNOWN_CLAIM = "unknown_claim"


class CaseFault(StrEnum):
    """Which part of a case is refused."""

    WORLD = "world"
    CONTRACT = "contract"
    SUPPORT = "support"
    PRIOR = "prior"
    LOSS_WEIGHTS = "loss_weights"
    UNTRUSTED_MESSAGE = "untrusted_message"
    PROCEDURE_INSTRUCTION = "procedure_instruction"
    OPERATOR_PREFIX = "operator_prefix"
    DISTINGUISHABLE = "distinguishable"
    PACKET = "packet"


class InvalidAction(CountersignError):
    """A call that is itself invalid: it costs nothing and changes nothing (design/environments.md, Shared rules).

    `sequence` is the number that the call would have had.
    """

    reason: ClassVar[str] = "INVALID_ACTION"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.INVALID_ARGUMENT

    def __init__(self, fault: ActionFault, message: str, *, tool: str, sequence: int) -> None:
        super().__init__(message, fault=fault.value, tool=tool, sequence=sequence)
        self.fault = fault


class InvalidCase(CountersignError):
    """A world, contract, packet or other part of a case that breaks the rules of its environment."""

    reason: ClassVar[str] = "INVALID_CASE"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.INVALID_ARGUMENT

    def __init__(self, fault: CaseFault, message: str) -> None:
        super().__init__(message, field=fault.value)
        self.fault = fault


class EpisodeNotEnded(RuntimeError):
    """An outcome was asked for while calls are left: a fault of the code that asked, since only an end settles."""


class UnsupportedEnvironment(CountersignError):
    """An environment that this adapter does not simulate."""

    reason: ClassVar[str] = "UNSUPPORTED_ENVIRONMENT"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.UNIMPLEMENTED

    def __init__(self, environment: str) -> None:
        super().__init__(f"this adapter does not simulate the environment {environment!r}", environment=environment)
        self.environment = environment


class WordingError(ValueError):
    """The wording resource lacks a text that docs/formats.md requires: a fault of the distribution, not the caller."""
