"""Each fault of a link does what it says, and is over once the link is healed."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from tests.soak.door import Arrival, Door
from tests.soak.links import MID_ANSWER_BYTES, Link, Pipe

ANSWER = b"a" * 500
HEAD = f"HTTP/1.1 200 OK\r\nContent-Length: {len(ANSWER)}\r\n\r\n".encode()
SILENCE_SECONDS = 0.1
"""How long a stalled link is seen to be silent."""

BODY = b'{"model":"m"}'
REQUEST = f"POST /v1/x HTTP/1.1\r\nContent-Length: {len(BODY)}\r\n\r\n".encode() + BODY


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while await reader.read(1_000):
            writer.write(HEAD + ANSWER)
    writer.close()


@asynccontextmanager
async def linked(link: Link) -> AsyncIterator[Link]:
    """The link, leading to a server that answers whatever it reads."""
    async with await asyncio.start_server(_answer, "127.0.0.1", 0) as server:
        await link.start()
        link.target = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield link
        finally:
            link.heal()
            await link.stop()


@asynccontextmanager
async def connected(link: Link) -> AsyncIterator[Pipe]:
    """A connection to the link."""
    host, _, port = link.address.rpartition(":")
    pipe = await asyncio.open_connection(host, int(port))
    try:
        yield pipe
    finally:
        pipe[1].close()
        with suppress(ConnectionError):
            await pipe[1].wait_closed()


async def ask(pipe: Pipe) -> bytes:
    pipe[1].write(REQUEST)
    return await pipe[0].readexactly(len(HEAD + ANSWER))


async def asked_anew(link: Link) -> bytes:
    async with connected(link) as pipe:
        return await ask(pipe)


async def test_an_undisturbed_link_passes_everything() -> None:
    async with linked(Link("a>b")) as link:
        assert await asked_anew(link) == HEAD + ANSWER
        assert link.connections == 1


async def test_a_cut_resets_what_is_open_and_nothing_after() -> None:
    async with linked(Link("a>b")) as link:
        async with connected(link) as pipe:
            assert await ask(pipe)
            link.cut()
            with pytest.raises((OSError, asyncio.IncompleteReadError)):
                await ask(pipe)
        assert await asked_anew(link)


async def test_a_link_that_refuses_takes_no_connection_until_it_is_healed() -> None:
    async with linked(Link("a>b")) as link:
        link.refuses = True
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await asked_anew(link)
        link.heal()
        assert await asked_anew(link)


async def test_a_stalled_link_passes_nothing_until_it_is_healed() -> None:
    async with linked(Link("a>b")) as link, connected(link) as pipe:
        link.passes.clear()
        asking = asyncio.create_task(ask(pipe))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asked_anew(link), SILENCE_SECONDS)
        assert not asking.done()
        link.heal()
        assert await asking


async def test_an_answer_is_cut_in_its_middle() -> None:
    async with linked(Link("a>b")) as link:
        link.cuts_answers = True
        read = b""
        async with connected(link) as pipe:
            pipe[1].write(REQUEST)
            with suppress(ConnectionError):
                while piece := await pipe[0].read(1_000):
                    read += piece
        assert len(read) <= MID_ANSWER_BYTES
        link.heal()
        assert await asked_anew(link)


async def test_a_link_whose_target_is_away_says_so() -> None:
    async with linked(Link("a>b")) as link:
        target, link.target = link.target, "unix:/nowhere/at-all"
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await asked_anew(link)
        link.target = target
        assert await asked_anew(link)


async def test_the_door_tells_of_a_request_before_it_passes_and_notes_its_answer() -> None:
    told: list[tuple[str, str]] = []

    async def tell(arrival: Arrival) -> None:
        told.append((arrival.digest, arrival.answer))

    door = Door(tell)
    async with linked(Link("adapters>provider", serve=door.serve)) as link:
        assert await asked_anew(link) == HEAD + ANSWER
        link.cuts_answers = True
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await asked_anew(link)
    digest = hashlib.sha256(BODY).hexdigest()
    assert told == [(digest, ""), (digest, "")]
    answers = [(one.status, one.answer) for one in door.by_digest[digest]]
    assert answers == [(200, hashlib.sha256(ANSWER).hexdigest()), (0, "")], "what was cut is no answer"
    assert (door.count, door.answered) == (2, 1)
