"""The provider's door: every request that an adapter sends passes here, is noted down, and only then goes on."""

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from tests.soak.links import MID_ANSWER_BYTES, Link, Pipe, reset

HEAD_BYTES = 65_536


@dataclass(slots=True)
class Arrival:
    """One whole request at the door: its number, when it came (nanoseconds since the epoch), and the answer, if it
    left the door whole."""

    number: int
    at: int
    digest: str
    path: str
    status: int = 0
    answer: str = ""


@dataclass
class Door:
    """Notes every request; `ask` is told of each before it goes on to the provider."""

    ask: Callable[[Arrival], Awaitable[None]]
    think_seconds: float = 0.0
    by_digest: dict[str, list[Arrival]] = field(default_factory=dict)
    count: int = 0
    answered: int = 0

    async def serve(self, link: Link, client: Pipe) -> None:
        """Take one connection: one request, one answer."""
        head, body = await _message(client[0])
        arrival = self.note(head, body)
        await self.ask(arrival)
        await asyncio.sleep(self.think_seconds)
        await link.hold_up()
        try:
            target = await link.connect()
        except OSError:
            reset(client[1])
            return
        try:
            target[1].write(head + body)
            await target[1].drain()
            await self._answer(link, arrival, target, client)
        finally:
            reset(target[1])

    def note(self, head: bytes, body: bytes) -> Arrival:
        """Write the request down."""
        self.count += 1
        path = head.split(b" ", 2)[1].decode("latin-1")
        arrival = Arrival(self.count, time.time_ns(), hashlib.sha256(body).hexdigest(), path)
        self.by_digest.setdefault(arrival.digest, []).append(arrival)
        return arrival

    async def _answer(self, link: Link, arrival: Arrival, target: Pipe, client: Pipe) -> None:
        head, body = await _message(target[0])
        await link.hold_up()
        if link.cuts_answers:
            client[1].write((head + body)[: len(head) + MID_ANSWER_BYTES])
            await client[1].drain()
            reset(client[1])
            return
        arrival.status, arrival.answer = int(head.split(b" ", 2)[1]), hashlib.sha256(body).hexdigest()
        client[1].write(head + body)
        await client[1].drain()
        self.answered += 1


async def _message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """One HTTP message whose body has a Content-Length. Raises IncompleteReadError where it is cut off."""
    head = await reader.readuntil(b"\r\n\r\n")
    fields = dict(line.split(b":", 1) for line in head.lower().split(b"\r\n")[1:] if b":" in line)
    return head, await reader.readexactly(int(fields[b"content-length"]))
