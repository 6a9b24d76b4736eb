"""Who may call the adapter."""

from adapter_svc.access import METHOD_ROLES
from countersign.adapter.v1 import adapter_pb2 as pb
from countersign.kit.access import Role


def test_the_table_covers_the_contract_and_nothing_else() -> None:
    assert set(METHOD_ROLES) == {method.name for method in pb.DESCRIPTOR.services_by_name["AdapterService"].methods}


def test_every_call_is_for_the_same_roles() -> None:
    assert set(METHOD_ROLES.values()) == {frozenset({Role.COLLECTOR})}
