"""A TCP relay that delays and cuts: `python -m tests.hosts.relay HOST:PORT TO_HOST:PORT MODE_FILE`.

The mode file holds a JSON object, read anew for each connection: `delay_millis`, which every piece of the answer waits,
and `cut_after`, after how many bytes of an answer the connection is cut off (null: never).
"""

import asyncio
import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

PIECE_BYTES = 4096


async def _serve(listen: str, target: str, mode_file: Path) -> None:
    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        mode = json.loads(mode_file.read_text())
        host, _, port = target.rpartition(":")
        with suppress(OSError):
            answers, requests = await asyncio.open_connection(host, int(port))
            forward = asyncio.create_task(_copy(reader, requests))
            await _answer(answers, writer, mode)
            forward.cancel()
            requests.close()
        writer.close()

    host, _, port = listen.rpartition(":")
    async with await asyncio.start_server(accepted, host, int(port)) as server:
        print("listening", flush=True)
        await server.serve_forever()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(PIECE_BYTES):
            writer.write(piece)
            await writer.drain()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, mode: dict[str, Any]) -> None:
    left = mode["cut_after"]
    while piece := await reader.read(PIECE_BYTES):
        await asyncio.sleep(mode["delay_millis"] / 1_000)
        if left is not None and len(piece) > left:
            writer.write(piece[:left])
            await writer.drain()
            return
        left = None if left is None else left - len(piece)
        writer.write(piece)
        await writer.drain()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
