"""Who may call the verifier."""

from countersign.kit.access import Role
from countersign.verifier.v1 import verifier_pb2 as pb
from verifier_svc.access import METHOD_ROLES


def test_the_table_covers_the_contract_and_nothing_else() -> None:
    assert set(METHOD_ROLES) == {method.name for method in pb.DESCRIPTOR.services_by_name["VerifierService"].methods}


def test_every_call_is_for_the_same_roles() -> None:
    assert set(METHOD_ROLES.values()) == {frozenset({Role.AUDITOR, Role.COLLECTOR})}
