"""Tokens and certificates over real channels: who gets through, who does not, and that nothing is told on the way."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
import structlog
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from countersign.kit.access import Role, current_caller, require
from countersign.kit.address import BadAddress
from countersign.kit.channel import call, open_channel
from countersign.kit.errors import CountersignError
from countersign.kit.identity import ANONYMOUS, Identity, load_identity
from countersign.kit.rpc_errors import ServiceError
from countersign.kit.secret_files import BadSecretFile
from countersign.kit.security import OPEN, Security, load_security, log_security
from countersign.kit.server import RunningServer, ServiceSpec, start_server
from countersign.kit.settings import BadSettings
from countersign.kit.tls import BadTls, channel_credentials, server_credentials
from countersign.ledger.v1 import ledger_pb2 as pb
from countersign.ledger.v1 import ledger_pb2_grpc as stubs
from tests.access import LONG_AGO, Keyring
from tools.make_ca import Authority

FULL_NAME = "countersign.ledger.v1.LedgerService"
COUNT = f"/{FULL_NAME}/Count"
TABLE = {
    "Summarize": frozenset({Role.READER}),
    "ExportJournal": frozenset({Role.AUDITOR}),
    "Transact": frozenset({Role.ADAPTER, Role.OPERATOR}),
    "Reserve": frozenset({Role.ADAPTER}),
    "OpenAccount": frozenset({Role.OPERATOR}),
    "Count": frozenset({Role.ADAPTER}),
}


class Servicer(stubs.LedgerServiceServicer):
    """Answers with the caller's name; a transaction's mutations are each checked."""

    async def Summarize(self, request: pb.SummarizeRequest, context: Any) -> pb.SummarizeResponse:
        return pb.SummarizeResponse(account_id=current_caller() or "nobody asked")

    async def GetReceipt(self, request: pb.GetReceiptRequest, context: Any) -> pb.GetReceiptResponse:
        return pb.GetReceiptResponse()

    async def ExportJournal(
        self, request: pb.ExportJournalRequest, context: Any
    ) -> AsyncIterator[pb.ExportJournalResponse]:
        yield pb.ExportJournalResponse(entries=[pb.JournalEntry(account_id=current_caller() or "")])

    async def Transact(self, requests: AsyncIterator[pb.TransactRequest], context: Any) -> AsyncIterator[Any]:
        async for request in requests:
            yield pb.TransactResponse(replies=[self._reply(one) for one in request.mutations])

    def _reply(self, mutation: pb.Mutation) -> pb.MutationReply:
        which = "Reserve" if mutation.WhichOneof("request") == "reserve" else "OpenAccount"
        reply = pb.MutationReply(correlation_id=mutation.correlation_id)
        try:
            require(which)
        except CountersignError as error:
            reply.refusal.reason = error.reason
        return reply


async def count(requests: AsyncIterator[pb.SummarizeRequest], context: Any) -> pb.SummarizeResponse:
    """A call of the one kind that no contract has: a stream in, one message out."""
    got = [request.account_id async for request in requests]
    return pb.SummarizeResponse(account_id=f"{current_caller()} {' '.join(got)}")


def register(server: grpc.aio.Server) -> None:
    stubs.add_LedgerServiceServicer_to_server(Servicer(), server)
    handler = grpc.stream_unary_rpc_method_handler(
        count, pb.SummarizeRequest.FromString, pb.SummarizeResponse.SerializeToString
    )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(FULL_NAME, {"Count": handler}),))


@asynccontextmanager
async def served(security: Security = OPEN, listen: str = "127.0.0.1:0") -> AsyncIterator[RunningServer]:
    running = await start_server(ServiceSpec("ledger", FULL_NAME, register), listen, security=security)
    try:
        yield running
    finally:
        await running.stop(0)


@pytest.fixture
def keyring(tmp_path: Path) -> Keyring:
    return Keyring(tmp_path)


async def summarize(address: str, identity: Identity = ANONYMOUS) -> str:
    """Who the service says is calling."""
    async with open_channel(address, identity) as channel:
        return (await call(stubs.LedgerServiceStub(channel).Summarize, pb.SummarizeRequest(), 10)).account_id


async def refusal(address: str, identity: Identity = ANONYMOUS, method: str = "Summarize") -> ServiceError:
    async with open_channel(address, identity) as channel:
        stub = stubs.LedgerServiceStub(channel)
        request = getattr(pb, f"{method}Request")()
        with pytest.raises(ServiceError) as refused:
            await call(getattr(stub, method), request, 10)
    return refused.value


async def test_without_an_access_file_everybody_may_do_everything() -> None:
    async with served() as running:
        assert await summarize(running.address) == "nobody asked"


async def test_a_token_names_its_bearer_in_every_kind_of_call(keyring: Keyring) -> None:
    identity = keyring.bearing(*(role for role in Role), name="ann")
    async with (
        served(keyring.security(FULL_NAME, TABLE)) as running,
        open_channel(running.address, identity) as channel,
    ):
        stub = stubs.LedgerServiceStub(channel)
        assert (await call(stub.Summarize, pb.SummarizeRequest(), 10)).account_id == "ann"
        pages = [page async for page in stub.ExportJournal(pb.ExportJournalRequest(), timeout=10)]
        assert [page.entries[0].account_id for page in pages] == ["ann"]
        request = pb.TransactRequest(mutations=[pb.Mutation(correlation_id=7)])
        batches = [batch async for batch in stub.Transact(iter([request]), timeout=10)]
        assert [batch.replies[0].correlation_id for batch in batches] == [7]
        written = stub.Transact(timeout=10)
        await written.write(request)
        answer = await written.read()
        assert isinstance(answer, pb.TransactResponse)
        assert answer.replies[0].correlation_id == 7
        await written.done_writing()
        assert await written.read() is grpc.aio.EOF
        make = channel.stream_unary(COUNT, pb.SummarizeRequest.SerializeToString, pb.SummarizeResponse.FromString)
        counted = await make(iter([pb.SummarizeRequest(account_id=name) for name in "xy"]), timeout=10)
        assert counted.account_id == "ann x y"


async def test_each_mutation_of_a_stream_is_checked_as_its_own_call(keyring: Keyring) -> None:
    mutations = [
        pb.Mutation(correlation_id=1, reserve=pb.ReserveRequest()),
        pb.Mutation(correlation_id=2, open_account=pb.OpenAccountRequest()),
    ]
    expected = {Role.ADAPTER: ["", "PERMISSION_DENIED"], Role.OPERATOR: ["PERMISSION_DENIED", ""]}
    identities = {role: keyring.bearing(role) for role in expected}
    async with served(keyring.security(FULL_NAME, TABLE)) as running:
        for role, identity in identities.items():
            async with open_channel(running.address, identity) as channel:
                stream = stubs.LedgerServiceStub(channel).Transact(
                    iter([pb.TransactRequest(mutations=mutations)]), timeout=10
                )
                batches = [batch async for batch in stream]
            assert [reply.refusal.reason for reply in batches[0].replies] == expected[role]


async def test_no_token_and_a_wrong_one_are_unauthenticated(keyring: Keyring) -> None:
    keyring.mint(Role.READER)
    stranger = Identity("z" * 43)
    async with served(keyring.security(FULL_NAME, TABLE)) as running:
        for identity in (ANONYMOUS, stranger):
            refused = await refusal(running.address, identity)
            assert (refused.status, refused.reason) == (grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED")
            assert refused.metadata == {"method": f"/{FULL_NAME}/Summarize"}


@pytest.mark.parametrize(
    "headers",
    [
        ["{token}"],
        ["Basic {token}"],
        ["Bearer"],
        ["Bearer {token} {token}"],
        ["Bearer {token}", "Bearer {token}"],
        ["Bearer {token}", "Basic {token}"],
    ],
)
async def test_only_one_bearer_token_is_one(keyring: Keyring, headers: list[str]) -> None:
    keyring.mint(Role.READER)
    metadata = [("authorization", header.format(token=keyring.tokens[0])) for header in headers]
    async with served(keyring.security(FULL_NAME, TABLE)) as running, open_channel(running.address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stubs.LedgerServiceStub(channel).Summarize(pb.SummarizeRequest(), timeout=10, metadata=metadata)
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_a_wrong_role_and_a_method_out_of_the_table_are_denied(keyring: Keyring) -> None:
    auditor, everybody = keyring.bearing(Role.AUDITOR), keyring.bearing(*Role, name="everybody")
    async with served(keyring.security(FULL_NAME, TABLE)) as running:
        refused = await refusal(running.address, auditor)
        assert (refused.status, refused.reason) == (grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_DENIED")
        assert refused.metadata == {"role": "auditor", "method": f"/{FULL_NAME}/Summarize"}
        refused = await refusal(running.address, everybody, "GetReceipt")
        assert refused.reason == "PERMISSION_DENIED"


async def test_health_and_reflection_ask_for_no_token(keyring: Keyring) -> None:
    keyring.mint(Role.READER)
    async with served(keyring.security(FULL_NAME, TABLE)) as running, open_channel(running.address) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        answer = await health.Check(health_pb2.HealthCheckRequest(service=FULL_NAME), timeout=10)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        reflection = reflection_pb2_grpc.ServerReflectionStub(channel)
        asked = reflection_pb2.ServerReflectionRequest(list_services="")
        async for reply in reflection.ServerReflectionInfo(iter([asked]), timeout=10):
            assert FULL_NAME in {service.name for service in reply.list_services_response.service}


async def test_a_token_that_is_taken_out_is_refused_from_then_on(keyring: Keyring) -> None:
    identity = keyring.bearing(Role.READER)
    security = keyring.security(FULL_NAME, TABLE)
    assert security.access_file is not None
    async with served(security) as running:
        assert await summarize(running.address, identity) == "reader"
        keyring.access_file.write_text("")
        security.access_file.reload()
        assert (await refusal(running.address, identity)).reason == "UNAUTHENTICATED"


async def test_tokens_pass_over_tls_and_over_a_unix_socket(keyring: Keyring) -> None:
    token_file = keyring.mint(Role.READER)
    async with served(keyring.security(FULL_NAME, TABLE, tls=True)) as running:
        assert re.fullmatch(r"tls:127\.0\.0\.1:\d+", running.address)
        assert await summarize(running.address, load_identity(token_file=token_file, ca=keyring.ca)) == "reader"
        assert (await refusal(running.address, load_identity(ca=keyring.ca))).reason == "UNAUTHENTICATED"
    listen = f"unix:{keyring.folder}/s"
    async with served(keyring.security(FULL_NAME, TABLE), listen) as running:
        assert await summarize(running.address, load_identity(token_file=token_file)) == "reader"


async def test_a_certificates_common_name_is_a_caller(keyring: Keyring) -> None:
    keyring.certify("Reader One", Role.READER)
    keyring.certify("Adapter One", Role.ADAPTER)
    async with served(keyring.security(FULL_NAME, TABLE, mutual=True)) as running:
        assert await summarize(running.address, keyring.showing("Reader One")) == "Reader One"
        assert (await refusal(running.address, keyring.showing("Adapter One"))).metadata["role"] == "adapter"
        assert (await refusal(running.address, keyring.showing("Nobody"))).reason == "UNAUTHENTICATED"


async def test_a_token_over_mutual_tls_goes_before_the_certificate(keyring: Keyring) -> None:
    keyring.certify("Reader One", Role.READER)
    token_file = keyring.mint(Role.READER, name="by-token")
    certificate, key = keyring.authority.client("Reader One").write(keyring.folder, "one")
    both = load_identity(token_file=token_file, ca=keyring.ca, certificate=certificate, key=key)
    stranger = keyring.write_token("z" * 43, "stranger")
    wrong = load_identity(token_file=stranger, ca=keyring.ca, certificate=certificate, key=key)
    async with served(keyring.security(FULL_NAME, TABLE, mutual=True)) as running:
        assert await summarize(running.address, both) == "by-token"
        assert (await refusal(running.address, wrong)).reason == "UNAUTHENTICATED"


async def test_certificates_that_prove_nothing_do_not_connect(keyring: Keyring) -> None:
    keyring.certify("Reader One", Role.READER)
    certificate, key = keyring.server
    identities = {
        "none": load_identity(ca=keyring.ca),
        "another authority's": keyring.showing("Reader One", authority=Authority()),
        "expired": keyring.showing("Reader One", until=LONG_AGO),
        "a server's": load_identity(ca=keyring.ca, certificate=certificate, key=key),
    }
    async with served(keyring.security(FULL_NAME, TABLE, mutual=True)) as running:
        for what, identity in identities.items():
            refused = await refusal(running.address, identity)
            assert (refused.status, refused.reason) == (grpc.StatusCode.UNAVAILABLE, ""), what
        assert await summarize(running.address, keyring.showing("Reader One")) == "Reader One"


async def test_a_server_that_cannot_prove_itself_gets_no_token(keyring: Keyring) -> None:
    token_file = keyring.mint(Role.READER)
    other = keyring.folder / "other.pem"
    other.write_bytes(Authority().certificate)
    pairs = {
        "expired": keyring.authority.server(["127.0.0.1"], LONG_AGO),
        "another host's": keyring.authority.server(["ledger.example"]),
        "a client's": keyring.authority.client("127.0.0.1"),
    }
    async with served(keyring.security(FULL_NAME, TABLE, tls=True)) as running:
        for ca in (other, None):
            refused = await refusal(running.address, load_identity(token_file=token_file, ca=ca))
            assert (refused.status, refused.reason) == (grpc.StatusCode.UNAVAILABLE, "")
    for what, pair in pairs.items():
        keyring.server = pair.write(keyring.folder, "server")
        async with served(keyring.security(FULL_NAME, TABLE, tls=True)) as running:
            refused = await refusal(running.address, load_identity(token_file=token_file, ca=keyring.ca))
            assert (refused.status, refused.reason) == (grpc.StatusCode.UNAVAILABLE, ""), what


async def test_plaintext_and_tls_do_not_meet(keyring: Keyring) -> None:
    keyring.mint(Role.READER)
    async with served(keyring.security(FULL_NAME, TABLE, tls=True)) as running:
        assert (await refusal(running.address.removeprefix("tls:"))).is_unreachable
    async with served() as running:
        assert (await refusal(f"tls:{running.address}", load_identity(ca=keyring.ca))).is_unreachable


async def test_beyond_loopback_only_tls_with_an_access_file_listens_or_what_says_insecure(keyring: Keyring) -> None:
    identity = load_identity(token_file=keyring.mint(Role.READER), ca=keyring.ca)
    open_to_all = {
        "nothing": OPEN,
        "no TLS": keyring.security(FULL_NAME, TABLE),
        "no access file": keyring.security(FULL_NAME, TABLE, tls=True, access=False),
        "no access file, mutual": keyring.security(FULL_NAME, TABLE, mutual=True, access=False),
    }
    for what, security in open_to_all.items():
        with pytest.raises(BadAddress, match="is not on loopback"):
            async with served(security, "0.0.0.0:0"):
                pytest.fail(what)
    async with served(keyring.security(FULL_NAME, TABLE, tls=True), "0.0.0.0:0") as running:
        port = running.address.rpartition(":")[2]
        assert await summarize(f"tls:127.0.0.1:{port}", identity) == "reader"
    async with served(Security(insecure=True), "0.0.0.0:0") as running:
        assert await summarize(f"127.0.0.1:{running.address.rpartition(':')[2]}") == "nobody asked"


async def test_a_unix_socket_takes_no_tls(keyring: Keyring) -> None:
    keyring.mint(Role.READER)
    with pytest.raises(BadAddress, match="takes no TLS"):
        async with served(keyring.security(FULL_NAME, TABLE, tls=True), f"unix:{keyring.folder}/s"):
            pytest.fail("it listens")


@pytest.mark.parametrize("address", ["ledger.example:80", "192.0.2.1:80", "[2001:db8::1]:80", "0.0.0.0:80"])
async def test_plaintext_beyond_loopback_is_not_connected_to(address: str) -> None:
    with pytest.raises(BadAddress, match=re.escape(f"write tls:{address}, or say --insecure")):
        open_channel(address)
    await open_channel(address, Identity(insecure=True)).close()
    await open_channel(f"tls:{address}").close()


@pytest.mark.parametrize("address", ["tls:", "tls:host", "tls:unix:/x", "tls:tls:127.0.0.1:1", "tls::1"])
def test_a_malformed_tls_address_is_refused(address: str) -> None:
    with pytest.raises(BadAddress):
        open_channel(address)


def test_tls_files_that_cannot_be_used_are_named(keyring: Keyring) -> None:
    certificate, key = keyring.server
    other_certificate, _ = keyring.authority.client("x").write(keyring.folder, "x")
    text = keyring.folder / "text"
    text.write_text("no certificate\n")
    for bad in (other_certificate, text):
        with pytest.raises(BadTls, match="are not a PEM pair"):
            server_credentials(bad, key, None)
    with pytest.raises(BadTls, match="holds no PEM certificates"):
        server_credentials(certificate, key, text)
    with pytest.raises(BadTls, match="cannot be read: No such file"):
        channel_credentials(keyring.folder / "none")
    with pytest.raises(BadTls, match="go together"):
        channel_credentials(keyring.ca, certificate)
    key.chmod(0o644)
    with pytest.raises(BadSecretFile, match=r"the key .* can be read or changed by others"):
        server_credentials(certificate, key, None)


def test_half_of_the_tls_settings_is_refused(keyring: Keyring) -> None:
    certificate, key = keyring.server
    for update in ({"tls_certificate": certificate}, {"tls_key": key}, {"tls_client_ca": keyring.ca}):
        settings = keyring.settings(access=False).model_copy(update=update)
        with pytest.raises(BadSettings, match="go together"):
            load_security(settings, FULL_NAME, TABLE)


async def test_the_log_names_callers_and_refusals_and_no_token(keyring: Keyring) -> None:
    reader, auditor = keyring.bearing(Role.READER), keyring.bearing(Role.AUDITOR)
    stranger = Identity("z" * 43)
    merge = structlog.contextvars.merge_contextvars
    with structlog.testing.capture_logs(processors=[merge]) as logs:
        async with served(keyring.security(FULL_NAME, TABLE)) as running:
            await summarize(running.address, reader)
            answers = [await refusal(running.address, one) for one in (auditor, stranger)]
    seen = [(line["event"], line.get("caller"), line["ended"]) for line in logs]
    assert seen == [
        ("rpc", "reader", "ok"),
        ("refused", None, "PERMISSION_DENIED"),
        ("refused", None, "UNAUTHENTICATED"),
    ]
    assert all(line["request_id"] for line in logs)
    said = json.dumps(logs) + "".join(f"{answer} {answer.metadata}" for answer in answers)
    hashes = re.findall(r'sha256 = "(\w+)"', keyring.access_file.read_text())
    assert len(hashes) == 2
    for secret in (*keyring.tokens, "z" * 43, *hashes):
        assert secret not in said


def test_the_log_says_how_open_a_service_is(keyring: Keyring) -> None:
    keyring.mint(Role.READER)
    keyring.certify("Reader One", Role.READER)
    with structlog.testing.capture_logs() as logs:
        log_security(OPEN, "a")
        log_security(Security(insecure=True), "b")
        log_security(keyring.security(FULL_NAME, TABLE, tls=True), "c")
    assert [(line["event"], line["log_level"]) for line in logs] == [
        ("access_open", "warning"),
        ("INSECURE", "warning"),
        ("access_open", "warning"),
        ("access_by_role", "info"),
    ]
    assert {key: logs[3][key] for key in ("address", "tls", "tokens", "certificates")} == {
        "address": "c",
        "tls": True,
        "tokens": 1,
        "certificates": 1,
    }
