"""What ended a call: a decision of the service, or the way to it."""

import grpc
import pytest

from countersign.kit.rpc_errors import ServiceError

TRANSPORT = {"UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", "INTERNAL", "UNKNOWN"}


@pytest.mark.parametrize("status", list(grpc.StatusCode))
def test_only_a_status_of_the_transport_without_a_reason_is_unreachable(status: grpc.StatusCode) -> None:
    assert ServiceError(status, "", "", {}).is_unreachable is (status.name in TRANSPORT)
    assert not ServiceError(status, "STORE_UNAVAILABLE", "", {}).is_unreachable


def test_it_says_its_reason_or_else_its_status() -> None:
    assert (
        str(ServiceError(grpc.StatusCode.NOT_FOUND, "UNKNOWN_CALL", "no such call", {})) == "UNKNOWN_CALL: no such call"
    )
    assert str(ServiceError(grpc.StatusCode.UNAVAILABLE, "", "gone", {})) == "UNAVAILABLE: gone"
