"""Before a request: where an attempt connects to, what of the environment it heeds (nothing), and what it keeps."""

import asyncio
import errno
import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from adapter_svc.routes import FailureCategory, HttpProvider, ProviderAnswer, RequestProgress, Timeouts
from tests.adapter_svc.routes.helpers import a_route
from tests.adapter_svc.routes.raw_server import Peer, answering, plain_answer, reset, serving
from tests.adapter_svc.routes.transport_attempts import (
    CONNECT_SOON,
    KEY,
    REQUEST,
    Failure,
    Observed,
    everything_logged,
    in_one,
    keyed_route,
    observe,
    observed_by,
    outcome_of,
)

ANSWER = ProviderAnswer(200, b"{}")
ANSWERING = answering(plain_answer(b"{}"))
CONNECT_FAILED: Failure = (RequestProgress.NOT_CONNECTED, FailureCategory.CONNECT_FAILED)
TLS_FAILED: Failure = (RequestProgress.NOT_CONNECTED, FailureCategory.TLS_FAILED)
BROKEN_WHILE_SENDING: Failure = (RequestProgress.SENDING, FailureCategory.CONNECTION_BROKEN)
BROKEN_AFTER_SENT: Failure = (RequestProgress.SENT, FailureCategory.CONNECTION_BROKEN)
SHORT_CONNECT = Timeouts(connect_millis=400)
PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


@pytest.fixture
def refusing_port() -> Iterator[int]:
    """A port that is taken and that nobody listens at."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


async def hang_up(peer: Peer) -> None:
    """Close at the first bytes."""
    await peer.reader.read(65_536)


def resolve_to(monkeypatch: pytest.MonkeyPatch, *ports: int) -> None:
    """Let every host be found at these ports of this machine, in this order."""
    found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port)) for port in ports]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: found)


async def test_a_refused_connection_sent_nothing(refusing_port: int) -> None:
    assert await outcome_of(keyed_route(f"http://127.0.0.1:{refusing_port}/v1")) == CONNECT_FAILED


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 64 + ".example", "a..example"])
async def test_a_host_that_is_not_found_sent_nothing(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    def not_found(*args: Any, **kwargs: Any) -> None:
        host.encode("idna")
        raise socket.gaierror(socket.EAI_NONAME, "not known")

    monkeypatch.setattr(socket, "getaddrinfo", not_found)
    assert await outcome_of(keyed_route(f"https://{host}/v1")) == CONNECT_FAILED


async def test_a_connection_that_the_system_gives_up_is_no_deadline_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    async def give_up(*args: Any) -> None:
        raise TimeoutError(errno.ETIMEDOUT, "timed out")

    monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", give_up)
    assert await outcome_of(keyed_route("http://127.0.0.1:1/v1")) == CONNECT_FAILED


async def test_a_connection_that_does_not_come_about_runs_into_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*args: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", never)
    outcome = await outcome_of(keyed_route("http://127.0.0.1:1/v1", CONNECT_SOON))
    assert outcome == (RequestProgress.NOT_CONNECTED, FailureCategory.CONNECT_TIMEOUT)


async def test_a_hosts_next_address_is_tried_where_one_cannot_be_reached(
    monkeypatch: pytest.MonkeyPatch, refusing_port: int
) -> None:
    async with serving(ANSWERING) as server:
        resolve_to(monkeypatch, refusing_port, server.port)
        outcome = await outcome_of(a_route(base_url="http://provider.example/v1"))
        assert await observed_by(server, outcome) == in_one(ANSWER)


async def test_an_address_that_keeps_silent_has_its_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    connect = loop.sock_connect

    async def silent_at_1(connection: socket.socket, address: Any) -> None:
        await (asyncio.Event().wait() if address[1] == 1 else connect(connection, address))

    async with serving(ANSWERING) as server:
        resolve_to(monkeypatch, 1, server.port)
        monkeypatch.setattr(loop, "sock_connect", silent_at_1)
        outcome = await outcome_of(a_route(base_url="http://provider.example/v1", timeouts=SHORT_CONNECT))
        monkeypatch.undo()
        assert await observed_by(server, outcome) == in_one(ANSWER)


async def test_no_other_address_is_tried_once_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken connection may have carried the request: its twin at another address is a second request."""
    async with serving(answering()) as first, serving(ANSWERING) as second:
        resolve_to(monkeypatch, first.port, second.port)
        outcome = await outcome_of(a_route(base_url="http://provider.example/v1"))
        assert await observed_by(first, outcome) == in_one(BROKEN_AFTER_SENT)
        assert await observed_by(second, outcome) == Observed(BROKEN_AFTER_SENT, 0, 0)


async def test_a_connection_reset_as_it_is_accepted_reached_nobody() -> None:
    """How far the client comes before the reset is the kernel's to say; nothing is tried again in any case."""
    observed = await observe(reset)
    assert observed.outcome in (CONNECT_FAILED, BROKEN_WHILE_SENDING, BROKEN_AFTER_SENT)
    assert (observed.connections, observed.requests, observed.beyond) == (1, 0, b"")


async def test_a_connection_that_nobody_accepts_before_the_listener_goes() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        loop = asyncio.get_running_loop()
        port = listener.getsockname()[1]

        def leave() -> None:
            loop.remove_reader(listener)
            listener.close()

        loop.add_reader(listener, leave)
        outcome = await outcome_of(keyed_route(f"http://127.0.0.1:{port}/v1"))
    assert outcome in (CONNECT_FAILED, BROKEN_WHILE_SENDING, BROKEN_AFTER_SENT)


@pytest.mark.parametrize("no_proxy", ["", "nowhere.example"])
@pytest.mark.parametrize("scheme", ["http", "https", "socks5"])
async def test_proxies_of_the_environment_are_not_used(
    monkeypatch: pytest.MonkeyPatch, scheme: str, no_proxy: str
) -> None:
    async with serving(answering(plain_answer(b'"proxy"'))) as proxy, serving(ANSWERING) as server:
        for name in PROXY_VARIABLES:
            monkeypatch.setenv(name, f"{scheme}://user:secret@127.0.0.1:{proxy.port}")
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.setenv(name, no_proxy)
        outcome = await outcome_of(keyed_route(server.base_url))
        assert await observed_by(server, outcome) == in_one(ANSWER)
        async with serving(hang_up) as secure:
            # No TLS is spoken there: that it was asked, and not the proxy, is what counts.
            outcome = await outcome_of(keyed_route(secure.base_url.replace("http://", "https://")))
            assert await observed_by(secure, outcome) == in_one(TLS_FAILED, requests=0)
        await proxy.settled()
        assert proxy.connections == 0


async def test_a_netrc_gives_no_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    netrc = tmp_path / ".netrc"
    netrc.write_text("default login someone password netrc-secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(netrc))
    async with serving(ANSWERING) as server:
        await HttpProvider({}).send(a_route(base_url=server.base_url), REQUEST)
        assert b"authorization" not in server.heads[0].lower()


async def test_nothing_is_kept_from_one_attempt_to_the_next() -> None:
    kept = 'Set-Cookie: a=b; Path=/\r\nConnection: keep-alive\r\nKeep-Alive: timeout=600\r\nAlt-Svc: h2=":443"\r\n'
    provider = HttpProvider({})
    async with serving(answering(plain_answer(b"{}", headers=kept))) as server:
        for _ in range(3):
            assert await provider.send(a_route(base_url=server.base_url), REQUEST) == ANSWER
        assert server.connections == 3
        assert len({bytes(head) for head in server.heads}) == 1
        assert b"cookie" not in server.heads[0].lower()


async def test_attempts_at_the_same_time_have_connections_of_their_own() -> None:
    provider = HttpProvider({})
    async with serving(ANSWERING) as server:
        route = a_route(base_url=server.base_url)
        assert await asyncio.gather(*(provider.send(route, REQUEST) for _ in range(20))) == [ANSWER] * 20
        await server.settled()
        assert (server.connections, len(server.bodies), server.beyond) == (20, 20, b"")


@pytest.mark.parametrize("logger", ["", "asyncio", "h11._connection", "httpcore.http11", "httpx", "adapter_svc"])
async def test_a_key_that_is_logged_anywhere_would_be_heard(logger: str) -> None:
    with everything_logged() as heard:
        logging.getLogger(logger).debug("headers=%r", [(b"Authorization", f"Bearer {KEY}".encode())])
    assert any(KEY in text for text in heard)
