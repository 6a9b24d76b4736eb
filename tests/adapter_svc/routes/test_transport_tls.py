"""TLS: without a trusted session nothing is sent, and an end that nobody signed for is no end."""

import asyncio
import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from adapter_svc.routes import FailureCategory, HttpProvider, ProviderAnswer, RequestProgress, Timeouts
from adapter_svc.routes.transport_wire import tls_context
from tests.adapter_svc.routes.raw_server import (
    Peer,
    Script,
    answering,
    chunked_answer,
    cutting,
    flooding,
    holding,
    plain_answer,
    pushing_back,
    reset,
    resetting,
    serving,
    stay,
)
from tests.adapter_svc.routes.transport_attempts import (
    BRIEF,
    LARGE_REQUEST,
    Failure,
    in_one,
    keyed_route,
    observe,
    observed_by,
    outcome_of,
)
from tools.make_ca import Authority, Pair

NOTHING_SENT: Failure = (RequestProgress.NOT_CONNECTED, FailureCategory.TLS_FAILED)
BROKEN_AFTER_SENT: Failure = (RequestProgress.SENT, FailureCategory.CONNECTION_BROKEN)
BROKEN_IN_ANSWER: Failure = (RequestProgress.RESPONSE_STARTED, FailureCategory.CONNECTION_BROKEN)
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
HOST = "127.0.0.1"
UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Trust:
    """An authority, the file that names it, and servers that show what it signed."""

    folder: Path
    authority: Authority

    @property
    def authority_file(self) -> str:
        return str(self.folder / "ca.pem")

    def server(self, pair: Pair | None = None) -> ssl.SSLContext:
        certificate, key = (pair or self.authority.server([HOST])).write(self.folder, "server")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        return context


@pytest.fixture
def trust(tmp_path: Path) -> Trust:
    authority = Authority()
    (tmp_path / "ca.pem").write_bytes(authority.certificate)
    return Trust(tmp_path, authority)


def self_signed() -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = (
        builder.serial_number(1).not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    )
    signed = builder.sign(key, SHA256()).public_bytes(Encoding.PEM)
    return Pair(signed, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


async def test_a_trusted_server_is_asked_once(trust: Trust) -> None:
    script = answering(plain_answer(b"{}"))
    observed = await observe(script, tls=trust.server(), authority_file=trust.authority_file)
    assert observed == in_one(ProviderAnswer(200, b"{}"))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_much_goes_and_comes_under_either_version(trust: Trust, version: ssl.TLSVersion) -> None:
    server = trust.server()
    server.minimum_version = server.maximum_version = version
    body = bytes(range(256)) * 16_384
    async with serving(answering(plain_answer(body)), server) as raw:
        route = keyed_route(raw.base_url)
        outcome = await outcome_of(route, LARGE_REQUEST, authority_file=trust.authority_file)
        assert await observed_by(raw, outcome) == in_one(ProviderAnswer(200, body))
        assert raw.bodies == [LARGE_REQUEST]


SHOWN: dict[str, Callable[[Authority], Pair]] = {
    "self-signed": lambda _: self_signed(),
    "another authority's": lambda _: Authority().server([HOST]),
    "another host's": lambda authority: authority.server(["provider.example"]),
    "another address's": lambda authority: authority.server(["127.0.0.2"]),
    "expired": lambda authority: authority.server([HOST], LONG_AGO),
    "not for servers": lambda authority: authority.client(HOST),
}


@pytest.mark.parametrize("shown", SHOWN.values(), ids=SHOWN)
async def test_a_certificate_that_is_not_to_be_trusted(trust: Trust, shown: Callable[[Authority], Pair]) -> None:
    server = trust.server(shown(trust.authority))
    observed = await observe(answering(plain_answer(b"{}")), tls=server, authority_file=trust.authority_file)
    assert observed == in_one(NOTHING_SENT, requests=0)


async def test_only_public_authorities_are_trusted_by_default(trust: Trust) -> None:
    observed = await observe(answering(plain_answer(b"{}")), tls=trust.server())
    assert observed == in_one(NOTHING_SENT, requests=0)


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
async def test_the_environment_names_no_authority(trust: Trust, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, trust.authority_file)
    tls_context.cache_clear()
    observed = await observe(answering(plain_answer(b"{}")), tls=trust.server())
    assert observed == in_one(NOTHING_SENT, requests=0)


async def test_the_environment_does_not_get_the_session_keys(trust: Trust, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = trust.folder / "session-keys"
    monkeypatch.setenv("SSLKEYLOGFILE", str(keys))
    observed = await observe(answering(plain_answer(b"{}")), tls=trust.server(), authority_file=trust.authority_file)
    assert observed == in_one(ProviderAnswer(200, b"{}"))
    assert not keys.exists()


def test_an_authority_file_that_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        HttpProvider({}, authority_file=str(tmp_path / "none.pem"))


async def half_a_hello(peer: Peer, trust: Trust) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = trust.server().wrap_bio(incoming, outgoing, server_side=True)
    incoming.write(await peer.reader.read(65_536))
    with pytest.raises(ssl.SSLWantReadError):
        session.do_handshake()
    await peer.write(outgoing.read()[:200])


async def hello(peer: Peer) -> None:
    """The client's first bytes, whole: nothing unread turns a close into a reset."""
    await peer.reader.read(65_536)


async def hello_then_reset(peer: Peer) -> None:
    await hello(peer)
    await peer.reset()


async def hello_then_plain_http(peer: Peer) -> None:
    await hello(peer)
    await peer.write(plain_answer(b"use http", status="400 Bad Request"))


async def hello_then_flood(peer: Peer) -> None:
    await hello(peer)
    while True:
        await peer.write(b"\x16\x03\x03\x40\x00" + bytes(0x4000))


@pytest.mark.parametrize("script", [hello, hello_then_reset, hello_then_plain_http, hello_then_flood])
async def test_a_handshake_that_breaks_sent_nothing(trust: Trust, script: Script) -> None:
    async with serving(script) as server:
        route = keyed_route(server.base_url.replace("http://", "https://"))
        outcome = await outcome_of(route, authority_file=trust.authority_file)
        assert await observed_by(server, outcome) == in_one(NOTHING_SENT, requests=0)


async def test_a_handshake_that_is_cut_in_the_servers_part_sent_nothing(trust: Trust) -> None:
    async def script(peer: Peer) -> None:
        await half_a_hello(peer, trust)

    async with serving(script) as server:
        route = keyed_route(server.base_url.replace("http://", "https://"))
        outcome = await outcome_of(route, authority_file=trust.authority_file)
        assert await observed_by(server, outcome) == in_one(NOTHING_SENT, requests=0)


@pytest.mark.parametrize(
    ("version", "failure"),
    [(ssl.TLSVersion.TLSv1_2, NOTHING_SENT), (ssl.TLSVersion.TLSv1_3, BROKEN_AFTER_SENT)],
)
async def test_a_server_that_wants_a_certificate(trust: Trust, version: ssl.TLSVersion, failure: Failure) -> None:
    """TLS 1.3 tells a client only after the client may send: in doubt, though this server reads nothing."""
    server = trust.server()
    server.minimum_version = server.maximum_version = version
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_verify_locations(trust.authority_file)
    observed = await observe(answering(plain_answer(b"{}")), tls=server, authority_file=trust.authority_file)
    assert observed == in_one(failure, requests=0)


async def test_http_2_is_neither_offered_nor_taken_for_an_answer(trust: Trust) -> None:
    server = trust.server()
    server.set_alpn_protocols(["h2"])
    script = holding(
        bytes.fromhex("000006040000000000000300000064"), bytes.fromhex("0000080700000000000000000000000001")
    )
    observed = await observe(script, tls=server, authority_file=trust.authority_file)
    assert observed == in_one((RequestProgress.SENT, FailureCategory.PROTOCOL_VIOLATION))


async def test_http_1_1_is_chosen_where_both_are_there(trust: Trust) -> None:
    chosen: list[str | None] = []

    async def script(peer: Peer) -> None:
        chosen.append(peer.writer.get_extra_info("ssl_object").selected_alpn_protocol())
        await answering(plain_answer(b"{}"))(peer)

    server = trust.server()
    server.set_alpn_protocols(["h2", "http/1.1"])
    observed = await observe(script, tls=server, authority_file=trust.authority_file)
    assert observed == in_one(ProviderAnswer(200, b"{}"))
    assert chosen == ["http/1.1"]


async def garbage_for_a_record(peer: Peer) -> None:
    await peer.read_request()
    os.write(peer.writer.get_extra_info("socket").fileno(), b"no record at all")
    await peer.gone()


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        pytest.param(cutting(), BROKEN_AFTER_SENT, id="cut before a head"),
        pytest.param(answering(), BROKEN_AFTER_SENT, id="closed before a head"),
        pytest.param(resetting(), BROKEN_AFTER_SENT, id="reset before a head"),
        pytest.param(garbage_for_a_record, BROKEN_AFTER_SENT, id="no record"),
        pytest.param(answering(UNTIL_CLOSE + b"{}"), ProviderAnswer(200, b"{}"), id="no length, closed"),
        pytest.param(cutting(UNTIL_CLOSE + b"{}"), BROKEN_IN_ANSWER, id="no length, cut"),
        pytest.param(cutting(plain_answer(b"{}")), ProviderAnswer(200, b"{}"), id="whole by its length, cut"),
        pytest.param(cutting(chunked_answer(b"{}")), ProviderAnswer(200, b"{}"), id="whole by its chunks, cut"),
        pytest.param(cutting(plain_answer(b"{}", length=3)), BROKEN_IN_ANSWER, id="short, cut"),
        pytest.param(answering(plain_answer(b"{}", length=3)), BROKEN_IN_ANSWER, id="short, closed"),
        pytest.param(cutting(chunked_answer(b"{}", last=b"")), BROKEN_IN_ANSWER, id="last chunk missing, cut"),
        pytest.param(answering(chunked_answer(b"{}", last=b"")), BROKEN_IN_ANSWER, id="last chunk missing, closed"),
        pytest.param(resetting(plain_answer(b"{}", length=3)), BROKEN_IN_ANSWER, id="short, reset"),
        pytest.param(
            flooding(UNTIL_CLOSE, b"a" * 65_536),
            (RequestProgress.RESPONSE_STARTED, FailureCategory.BODY_TOO_LARGE),
            id="without end",
        ),
    ],
)
async def test_how_an_answer_ends_under_tls(trust: Trust, script: Script, outcome: ProviderAnswer | Failure) -> None:
    observed = await observe(script, tls=trust.server(), authority_file=trust.authority_file)
    assert observed == in_one(outcome)


@pytest.mark.parametrize(
    ("script", "timeouts", "category"),
    [
        pytest.param(pushing_back(then=reset), Timeouts(), FailureCategory.CONNECTION_BROKEN, id="reset"),
        pytest.param(pushing_back(then=stay), BRIEF, FailureCategory.TOTAL_TIMEOUT, id="not read on"),
    ],
)
async def test_a_request_that_is_not_taken_is_not_called_sent(
    trust: Trust, script: Script, timeouts: Timeouts, category: FailureCategory
) -> None:
    observed = await observe(
        script, request=LARGE_REQUEST, timeouts=timeouts, tls=trust.server(), authority_file=trust.authority_file
    )
    assert observed == in_one((RequestProgress.SENDING, category), requests=0)


async def test_an_attempt_cancelled_under_tls_closes_its_connection(trust: Trust) -> None:
    async with serving(holding(), trust.server()) as server:
        provider = HttpProvider({"ROUTE_KEY": "k"}, authority_file=trust.authority_file)
        sending = asyncio.create_task(provider.send(keyed_route(server.base_url), b"{}"))
        await server.requested.wait()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        await server.closed.wait()
        assert server.connections == 1
