"""Errors across the wire: `google.rpc.Status` with `ErrorInfo`, out of a service and into a client."""

from collections.abc import Mapping

import grpc
from google.protobuf import any_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from countersign.kit.errors import CountersignError

DOMAIN = "countersign.dev"
_TRANSPORT_STATUSES = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    # What gRPC itself makes of a stream that broke in the middle; a service of ours always gives its reason.
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
)


class ServiceError(Exception):
    """What a service answered instead of a result.

    `reason` is a name of ErrorReason without its prefix, or empty where the error came from the transport and not from
    a service; `status` is gRPC's.
    """

    def __init__(self, status: grpc.StatusCode, reason: str, message: str, metadata: Mapping[str, str]) -> None:
        super().__init__(f"{reason or status.name}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.metadata = metadata

    @property
    def is_unreachable(self) -> bool:
        """Whether the transport, not a decision of the service, ended the call. It may have been executed."""
        return not self.reason and self.status in _TRANSPORT_STATUSES


def forwarded_status(error: ServiceError) -> status_pb2.Status:
    """The wire form of an error that another service answered with: its own refusal, or that it cannot be used."""
    if error.reason:
        return _status(error.status, error.reason, error.message, error.metadata)
    message = "a service that this one needs cannot be reached: try again when it is up"
    if error.status is grpc.StatusCode.UNIMPLEMENTED:
        message = "a service that this one needs is older than it: upgrade that one first"
    return _status(grpc.StatusCode.UNAVAILABLE, "SERVICE_UNAVAILABLE", message, {})


def to_status(error: CountersignError) -> status_pb2.Status:
    """The wire form of a domain error."""
    return _status(error.status, error.reason, error.message, error.metadata)


def _status(code: grpc.StatusCode, reason: str, message: str, metadata: Mapping[str, str]) -> status_pb2.Status:
    detail = any_pb2.Any()
    detail.Pack(error_details_pb2.ErrorInfo(reason=reason, domain=DOMAIN, metadata=dict(metadata)))
    return status_pb2.Status(code=code_pb2.Code.Value(code.name), message=message, details=[detail])


def from_rpc_error(error: grpc.aio.AioRpcError) -> ServiceError:
    """What a client makes of a failed call."""
    status = _rich_status(error)
    for detail in status.details if status is not None else ():
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info) and info.domain == DOMAIN:
            return ServiceError(error.code(), info.reason, error.details() or "", dict(info.metadata))
    return ServiceError(error.code(), "", error.details() or "", {})


def _rich_status(error: grpc.aio.AioRpcError) -> status_pb2.Status | None:
    for key, value in error.trailing_metadata() or ():
        if key == rpc_status.GRPC_DETAILS_METADATA_KEY and isinstance(value, bytes):
            return status_pb2.Status.FromString(value)
    return None
