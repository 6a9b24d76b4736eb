"""A provider without latency: each turn's answer is ready, and the number of turns so far chooses it.

It is the scripted agent's `act-well` in one situation, where a need is verified, met and reported (4 turns).
Counting is all that it does with a request, so that a measurement of a study measures the study.
"""

import argparse
import asyncio
import json

ROUNDS = ("request_verification", "wait", "transfer", "finish")
MODEL = "canned"
_ASSISTANT = b'"role":"assistant"'
_LENGTH = b"content-length:"


def answer(turn: int) -> bytes:
    """The whole HTTP response of a turn, counted from 0."""
    tool = ROUNDS[turn]
    arguments = '{"claim":"saved"}' if tool == "finish" else "{}"
    call = {"id": f"call_{turn}", "type": "function", "function": {"name": tool, "arguments": arguments}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    body = json.dumps(
        {
            "id": f"c{turn}",
            "object": "chat.completion",
            "model": MODEL,
            "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
            "usage": {"prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020},
        },
        separators=(",", ":"),
    ).encode()
    head = (
        f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


ANSWERS = tuple(answer(turn) for turn in range(len(ROUNDS)))


class Canned(asyncio.Protocol):
    """One connection: one request, one answer."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer once the whole request is here."""
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        if not found:
            return
        lower = head.lower()
        length = int(lower[lower.index(_LENGTH) + len(_LENGTH) :].split(b"\r\n", 1)[0])
        if len(body) >= length and isinstance(self._transport, asyncio.WriteTransport):
            self._transport.write(ANSWERS[body.count(_ASSISTANT)])
            self._transport.close()


async def serve() -> None:
    """Serve on a free port of loopback, say where, and go on until killed."""
    server = await asyncio.get_running_loop().create_server(Canned, "127.0.0.1", 0, backlog=1024)
    host, port = server.sockets[0].getsockname()[:2]
    print(json.dumps({"address": f"{host}:{port}"}), flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    asyncio.run(serve())
