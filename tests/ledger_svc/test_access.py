"""Who may call the ledger: the whole table, and receipts for auditors only, over a real channel."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from countersign.kit.access import Role
from countersign.kit.channel import call, open_channel
from countersign.kit.identity import Identity
from countersign.kit.money_wire import to_wire
from countersign.kit.rpc_errors import ServiceError
from countersign.kit.server import RunningServer, start_server
from countersign.ledger.v1 import ledger_pb2 as pb
from countersign.ledger.v1.ledger_pb2_grpc import LedgerServiceStub
from ledger_svc.access import METHOD_ROLES
from ledger_svc.ledger import Ledger
from ledger_svc.service import FULL_NAME, LedgerServicer, service_spec
from tests.access import Keyring
from tests.ledger_svc import support

SERVICE = pb.DESCRIPTOR.services_by_name["LedgerService"]
BY_ROLE: Mapping[Role, set[str]] = {
    Role.OPERATOR: {
        *("OpenAccount", "GrantBudget", "RecordPriorSpend", "OpenStudy", "ResolveHold"),
        *("GetCall", "ListCalls", "Summarize", "ListAccounts", "Transact"),
    },
    Role.ADAPTER: {"Reserve", "RecordReceipt", "Hold", "GetCall", "ListCalls", "Transact"},
    Role.AUDITOR: {
        *("GetCall", "ListCalls", "GetReceipt", "ListReceipts", "Summarize", "ListAccounts"),
        *("VerifyJournal", "ExportJournal"),
    },
    Role.READER: {"Summarize", "ListAccounts"},
    Role.COLLECTOR: set(),
}
UNARY = [one.name for one in SERVICE.methods if not one.client_streaming and not one.server_streaming]


def test_the_table_covers_the_contract_and_nothing_else() -> None:
    assert set(METHOD_ROLES) == {method.name for method in SERVICE.methods}


def test_each_role_may_do_what_the_design_says() -> None:
    found = {role: {method for method, roles in METHOD_ROLES.items() if role in roles} for role in Role}
    assert found == BY_ROLE


def test_receipts_are_for_auditors_only() -> None:
    assert METHOD_ROLES["GetReceipt"] == METHOD_ROLES["ListReceipts"] == {Role.AUDITOR}


@pytest.fixture
def keyring(tmp_path: Path) -> Keyring:
    return Keyring(tmp_path)


@pytest.fixture
def identities(keyring: Keyring) -> Mapping[Role, Identity]:
    """A client of each role."""
    return {role: keyring.bearing(role) for role in Role}


@pytest.fixture
async def server(ledger: Ledger, keyring: Keyring, identities: Mapping[Role, Identity]) -> AsyncIterator[RunningServer]:
    """A ledger that knows one caller of each role."""
    security = keyring.security(FULL_NAME, METHOD_ROLES)
    running = await start_server(service_spec(LedgerServicer(ledger)), "127.0.0.1:0", security=security)
    yield running
    await running.stop(0)


@pytest.mark.parametrize("role", Role)
async def test_every_unary_call_is_let_through_or_denied_by_the_table(
    server: RunningServer, identities: Mapping[Role, Identity], role: Role
) -> None:
    let_through = set()
    async with open_channel(server.address, identities[role]) as channel:
        stub = LedgerServiceStub(channel)
        for name in UNARY:
            try:
                await call(getattr(stub, name), getattr(pb, f"{name}Request")(), 10)
                reason = ""
            except ServiceError as error:
                reason = error.reason
            assert reason != "UNAUTHENTICATED"
            if reason != "PERMISSION_DENIED":
                let_through.add(name)
    assert let_through == BY_ROLE[role] & set(UNARY)


async def test_an_adapter_gets_an_answer_back_only_for_the_request_that_was_answered(
    server: RunningServer, ledger: Ledger, identities: Mapping[Role, Identity]
) -> None:
    await ledger.reserve(support.reserve(request=b"a private question"))
    await ledger.submit(support.receipt(response=b"a private answer"))
    call_id = support.slot().call_id()
    asked = pb.ReserveRequest(
        slot=pb.Slot(study_id="study", episode_id="episode", turn=1),
        attempt_token=support.OTHER_TOKEN,
        basis=pb.AMOUNT_BASIS_FLAT,
        request=b"a private question",
    )
    asked.amount.CopyFrom(to_wire(support.usd(10)))
    asked.lease.FromSeconds(60)
    receipt = pb.GetReceiptRequest(call_id=call_id, attempt=1)
    async with open_channel(server.address, identities[Role.ADAPTER]) as channel:
        adapter = LedgerServiceStub(channel)
        assert (await call(adapter.Reserve, asked, 10)).receipt.response == b"a private answer"
        asked.request = b"another question"
        for method, request, reason in (
            (adapter.Reserve, asked, "PAYLOAD_MISMATCH"),
            (adapter.GetReceipt, receipt, "PERMISSION_DENIED"),
        ):
            with pytest.raises(ServiceError) as refused:
                await call(method, request, 10)
            assert refused.value.reason == reason
    async with open_channel(server.address, identities[Role.AUDITOR]) as channel:
        got = await call(LedgerServiceStub(channel).GetReceipt, receipt, 10)
    assert got.receipt.response == b"a private answer"
