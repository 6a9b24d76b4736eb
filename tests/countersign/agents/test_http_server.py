"""The loopback server over real sockets: answers, aborts, limits, counts."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from countersign.agents.errors import ListenError, NotLoopbackError
from countersign.agents.http_server import Abort, Limits, Request, Response, WireLog, serve
from countersign.kit.canonical import sha256


async def echo(request: Request) -> Response | Abort:
    return Response(200, request.method.encode() + b" " + request.path.encode() + b" " + request.body)


async def exchange(address: str, data: bytes) -> bytes:
    """Send `data` on a connection of its own and read to the end."""
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(data)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def test_requests_on_one_connection_are_counted_apart_from_connections() -> None:
    async with await serve(echo) as server, httpx.AsyncClient(base_url=server.url, trust_env=False) as client:
        first = await client.post("/a?b=c", content=b"1")
        second = await client.get("/")
        assert (first.content, second.content) == (b"POST /a?b=c 1", b"GET / ")
        assert first.headers["content-type"] == "application/json"
        assert (server.connections, server.requests) == (1, 2)


async def test_what_is_asked_for_its_head_gets_no_body_and_may_go_on() -> None:
    async with await serve(echo) as server, httpx.AsyncClient(base_url=server.url, trust_env=False) as client:
        head = await client.head("/a")
        assert (head.status_code, head.headers["content-length"], head.content) == (200, "8", b"")
        assert (await client.get("/b")).content == b"GET /b "
        assert server.connections == 1


async def test_a_dropped_request_is_counted_and_gets_no_byte() -> None:
    async def drop(_: Request) -> Response | Abort:
        return Abort()

    async with await serve(drop) as server:
        assert await exchange(server.address, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n") == b""
        assert server.requests == 1


async def test_an_abort_in_the_body_sends_the_full_head_and_just_the_first_bytes() -> None:
    async def cut(_: Request) -> Response | Abort:
        return Abort(Response(200, b"0123456789"), body_bytes=4)

    async with await serve(cut) as server:
        answer = await exchange(server.address, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        head, _, body = answer.partition(b"\r\n\r\n")
        assert b"content-length: 10" in head.lower()
        assert body == b"0123"
        async with httpx.AsyncClient(trust_env=False) as client:
            with pytest.raises(httpx.RemoteProtocolError):
                await client.get(server.url)


@pytest.mark.parametrize("declared", [True, False])
async def test_a_body_over_the_limit_is_refused_and_never_handled(declared: bool) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(11):
            yield b"x" * 10

    body = b"x" * 110 if declared else chunks()
    async with await serve(echo, limits=Limits(body_bytes=100)) as server:
        async with httpx.AsyncClient(trust_env=False) as client:
            assert (await client.post(server.url, content=body)).status_code == 413
            assert (await client.post(server.url, content=b"x" * 100)).status_code == 200
        assert server.requests == 1


async def test_a_head_over_the_limit_and_bytes_that_are_no_http_are_refused() -> None:
    async with await serve(echo, limits=Limits(head_bytes=200)) as server:
        long = await exchange(server.address, b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"x" * 300)
        assert long.startswith(b"HTTP/1.1 431 ")
        assert (await exchange(server.address, b"hello there\r\n\r\n")).startswith(b"HTTP/1.1 400 ")
        assert (server.connections, server.requests) == (2, 0)


async def test_a_client_that_asks_first_is_told_to_continue() -> None:
    head = b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    async with await serve(echo) as server:
        host, port = server.address.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(head)
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 \r\n\r\n"
        writer.write(b"ok")
        assert (await reader.read()).endswith(b"POST / ok")
        writer.close()
        await writer.wait_closed()


async def test_a_handler_that_raises_answers_500_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(_: Request) -> Response | Abort:
        raise ValueError("a secret")

    async with await serve(fail) as server, httpx.AsyncClient(trust_env=False) as client:
        answer = await client.get(server.url)
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert [record.message for record in caplog.records] == ["the handler failed on request 1"]


async def test_stop_cancels_running_handlers_and_frees_the_port() -> None:
    entered, cancelled = asyncio.Event(), asyncio.Event()

    async def hang(_: Request) -> Response | Abort:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        raise AssertionError("unreachable")

    server = await serve(hang)
    pending = asyncio.create_task(exchange(server.address, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
    await entered.wait()
    await server.stop()
    assert cancelled.is_set()
    assert await pending == b""
    port = int(server.address.split(":")[1])
    async with await serve(echo, port=port) as again:
        assert again.address == server.address


async def test_the_wire_log_has_one_line_for_each_request_and_is_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "wire.jsonl"
    for body in (b"one", b"two"):
        wire_log = WireLog(path, lambda request: request.body.decode() if request.path == "/marked" else None)
        async with (
            await serve(echo, wire_log=wire_log) as server,
            httpx.AsyncClient(base_url=server.url, trust_env=False) as client,
        ):
            await client.post("/marked", content=body)
            await client.post("/plain", content=body)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["n"], line["path"], line["episode"]) for line in lines] == [
        (1, "/marked", "one"),
        (2, "/plain", None),
        (1, "/marked", "two"),
        (2, "/plain", None),
    ]
    assert lines[0]["sha256"] == sha256(b"one").hex()
    assert set(lines[0]) == {"n", "path", "episode", "sha256"}


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.1", "localhost", "::", ""])
async def test_only_literal_loopback_addresses_are_listened_on(host: str) -> None:
    with pytest.raises(NotLoopbackError):
        await serve(echo, host=host)


async def test_a_taken_port_is_a_typed_error() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(ListenError, match=r"cannot listen on 127\.0\.0\.1"),
    ):
        await serve(echo, port=taken.getsockname()[1])
