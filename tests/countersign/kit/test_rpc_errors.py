"""What ended a call: a decision of the service, or the way to it."""

import grpc
import pytest

from countersign.kit.rpc_errors import ServiceError, forwarded_status

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


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (grpc.StatusCode.UNAVAILABLE, "cannot be reached: try again when it is up"),
        (grpc.StatusCode.UNIMPLEMENTED, "is older than it: upgrade that one first"),
    ],
)
def test_what_another_service_could_not_do_says_what_to_do(status: grpc.StatusCode, said: str) -> None:
    forwarded = forwarded_status(ServiceError(status, "", "whatever that one said", {}))
    assert forwarded.code == grpc.StatusCode.UNAVAILABLE.value[0]
    assert forwarded.message == f"a service that this one needs {said}"
