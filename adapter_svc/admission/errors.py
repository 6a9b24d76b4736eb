"""The caller's own faults; a provider's are verdicts (design/architecture.md, Contracts)."""

from typing import ClassVar

import grpc

from countersign.kit.errors import CountersignError


class UnsupportedWireFormat(CountersignError):
    """No decoder for this wire format, or not for its streams."""

    reason: ClassVar[str] = "UNSUPPORTED_WIRE_FORMAT"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.UNIMPLEMENTED


class InvalidToolSchema(CountersignError):
    """An offered tool cannot be judged against: its schema is unusable, or its name is given twice."""

    reason: ClassVar[str] = "INVALID_TOOL_SCHEMA"
    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.INVALID_ARGUMENT
