"""One attempt on the wire, and where a failed one got to (design/admission.md, Routes; design/ledger.md, Hold)."""

import asyncio
import gzip
import logging

import pytest

from adapter_svc.routes import (
    FailureCategory,
    HttpProvider,
    MissingKey,
    ProviderAnswer,
    RequestProgress,
    TransportFailure,
    check_key,
)
from tests.adapter_svc.routes.helpers import a_route
from tests.adapter_svc.routes.raw_server import (
    RawServer,
    Script,
    answering,
    holding,
    plain_answer,
    serving,
)
from tests.adapter_svc.routes.transport_attempts import CONNECT_SOON, KEY, REQUEST


async def attempt(server: RawServer, provider: HttpProvider | None = None) -> ProviderAnswer:
    return await (provider or HttpProvider({})).send(a_route(base_url=server.base_url), REQUEST)


async def failure_of(script: Script, provider: HttpProvider | None = None) -> tuple[RequestProgress, FailureCategory]:
    """How an attempt fails; asserts that it was one connection and one request, closed again."""
    async with serving(script) as server:
        with pytest.raises(TransportFailure) as caught:
            await attempt(server, provider)
        await server.closed.wait()
        assert (server.connections, len(server.bodies)) == (1, 1)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    return caught.value.progress, caught.value.category


async def test_an_answer_is_its_status_and_bytes() -> None:
    async with serving(answering(plain_answer(b'{"a": 1}\n'))) as server:
        assert await attempt(server) == ProviderAnswer(200, b'{"a": 1}\n')
        assert server.bodies == [REQUEST]
        head = server.heads[0].decode().lower()
    assert head.startswith("post /v1/chat/completions http/1.1\r\n")
    assert "accept-encoding: identity\r\n" in head
    assert "connection: close\r\n" in head
    assert "content-type: application/json\r\n" in head
    assert "authorization" not in head
    assert "cookie" not in head


@pytest.mark.parametrize(
    "status",
    ["300 Multiple Choices", "301 Moved", "302 Found", "303 See Other", "307 Temporary Redirect", "308 Permanent"],
)
async def test_a_redirect_is_not_followed(status: str) -> None:
    async with serving(answering(plain_answer(b"{}"))) as elsewhere:
        headers = f"Location: {elsewhere.base_url}/chat/completions\r\n"
        async with serving(answering(plain_answer(b"", status=status, headers=headers))) as server:
            assert await attempt(server) == ProviderAnswer(int(status[:3]), b"")
            await server.settled()
            assert (server.connections, len(server.bodies), server.beyond) == (1, 1, b"")
        await elsewhere.settled()
        assert elsewhere.connections == 0


async def test_a_refused_connection_sent_nothing() -> None:
    async with serving(answering()) as server:
        base_url = server.base_url
    with pytest.raises(TransportFailure) as caught:
        await HttpProvider({}).send(a_route(base_url=base_url), REQUEST)
    assert caught.value.progress is RequestProgress.NOT_CONNECTED
    assert caught.value.category is FailureCategory.CONNECT_FAILED
    assert str(caught.value) == "CONNECT_FAILED after NOT_CONNECTED"


async def test_a_server_that_never_answers_the_handshake_sent_nothing_and_is_left() -> None:
    async with serving(answering()) as server:
        address = server.base_url.replace("http://", "https://")
        with pytest.raises(TransportFailure) as caught:
            await HttpProvider({}).send(a_route(base_url=address, timeouts=CONNECT_SOON), REQUEST)
        await server.closed.wait()
        assert (server.connections, server.bodies) == (1, [])
    assert caught.value.progress is RequestProgress.NOT_CONNECTED
    assert caught.value.category is FailureCategory.CONNECT_TIMEOUT


async def test_an_attempt_cancelled_during_the_handshake_closes_its_connection() -> None:
    async with serving(answering()) as server:
        route = a_route(base_url=server.base_url.replace("http://", "https://"))
        sending = asyncio.create_task(HttpProvider({}).send(route, REQUEST))
        await server.connected.wait()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        await server.closed.wait()
        assert (server.connections, server.bodies) == (1, [])


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"


async def test_a_body_of_exactly_the_limit_is_read() -> None:
    async with serving(answering(plain_answer(b"x" * 100))) as server:
        assert await attempt(server, HttpProvider({}, max_body_bytes=100)) == ProviderAnswer(200, b"x" * 100)


@pytest.mark.parametrize(
    "script",
    [
        answering(plain_answer(b"x" * 101)),
        holding(plain_answer(b"x" * 101, length=10**9)),
        holding(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n", b"x" * 101),
    ],
)
async def test_a_body_over_the_limit_is_not_read_on(script: Script) -> None:
    failure = await failure_of(script, HttpProvider({}, max_body_bytes=100))
    assert failure == (RequestProgress.RESPONSE_STARTED, FailureCategory.BODY_TOO_LARGE)


def encoded(body: bytes, encoding: str) -> bytes:
    return plain_answer(body, headers=f"Content-Encoding: {encoding}\r\n")


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", " GZIP "])
async def test_gzip_that_nobody_asked_for_is_undone(encoding: str) -> None:
    async with serving(answering(encoded(gzip.compress(b'{"a":1}'), encoding))) as server:
        assert await attempt(server) == ProviderAnswer(200, b'{"a":1}')


async def test_a_gzip_bomb_stops_at_the_limit() -> None:
    bomb = gzip.compress(bytes(64 * 1024 * 1024))
    failure = await failure_of(holding(encoded(bomb, "gzip")))
    assert failure == (RequestProgress.RESPONSE_STARTED, FailureCategory.BODY_TOO_LARGE)


async def test_gzip_of_exactly_the_limit_is_read() -> None:
    async with serving(answering(encoded(gzip.compress(b"x" * 100), "gzip"))) as server:
        assert await attempt(server, HttpProvider({}, max_body_bytes=100)) == ProviderAnswer(200, b"x" * 100)


@pytest.mark.parametrize("script", [holding(), holding(HEAD, b"123")])
async def test_a_cancelled_attempt_closes_its_connection(script: Script) -> None:
    async with serving(script) as server:
        sending = asyncio.create_task(attempt(server))
        await server.requested.wait()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        await server.closed.wait()
        assert server.connections == 1


async def test_the_key_is_read_when_sending_and_goes_into_one_header(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    environment: dict[str, str] = {}
    provider = HttpProvider(environment)
    async with serving(answering(plain_answer(b"{}"))) as server:
        route = a_route(base_url=server.base_url, api_key_variable="ROUTE_KEY")
        environment["ROUTE_KEY"] = KEY
        check_key(route, environment)
        await provider.send(route, REQUEST)
        assert f"authorization: bearer {KEY}\r\n" in server.heads[0].decode().lower()
        assert server.heads[0].count(KEY.encode()) == 1
    assert KEY not in caplog.text
    assert KEY not in repr(route) + repr(provider)


@pytest.mark.parametrize("key", [None, "", "two words", "line\nbreak", "line\r\nX: y", "schlüssel"])
async def test_a_key_that_is_not_there_or_no_header_stops_before_a_connection(key: str | None) -> None:
    environment = {} if key is None else {"ROUTE_KEY": key}
    async with serving(answering(plain_answer(b"{}"))) as server:
        route = a_route(base_url=server.base_url, api_key_variable="ROUTE_KEY")
        with pytest.raises(MissingKey) as missing:
            check_key(route, environment)
        with pytest.raises(TransportFailure) as caught:
            await HttpProvider(environment).send(route, REQUEST)
        assert server.connections == 0
    assert missing.value.metadata == {"variable": "ROUTE_KEY"}
    assert missing.value.reason == "MISSING_KEY"
    assert not key or key not in missing.value.message
    assert caught.value.progress is RequestProgress.NOT_CONNECTED
    assert caught.value.category is FailureCategory.KEY_MISSING


def test_a_route_without_a_key_needs_none() -> None:
    check_key(a_route(), {})


def test_keys_come_from_the_process_environment_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    route = a_route(api_key_variable="COUNTERSIGN_TEST_ROUTE_KEY")
    monkeypatch.delenv("COUNTERSIGN_TEST_ROUTE_KEY", raising=False)
    with pytest.raises(MissingKey):
        check_key(route)
    monkeypatch.setenv("COUNTERSIGN_TEST_ROUTE_KEY", KEY)
    check_key(route)
