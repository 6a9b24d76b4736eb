"""Every refusal names a reason of the contract."""

import inspect

import grpc
import pytest

from countersign.errordetails.v1 import error_reason_pb2
from ledger_svc import errors

CLASSES = [
    value
    for _, value in inspect.getmembers(errors, inspect.isclass)
    if issubclass(value, errors.LedgerError) and value is not errors.LedgerError
]


@pytest.mark.parametrize("refusal", CLASSES)
def test_reason_is_in_the_contract(refusal: type[errors.LedgerError]) -> None:
    assert f"ERROR_REASON_{refusal.reason}" in error_reason_pb2.ErrorReason.DESCRIPTOR.values_by_name
    assert refusal.status is not grpc.StatusCode.INTERNAL


def test_each_reason_has_one_class() -> None:
    assert len({refusal.reason for refusal in CLASSES}) == len(CLASSES) == 26
