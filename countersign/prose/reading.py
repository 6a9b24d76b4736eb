"""The adapter's reading of one stream, over gRPC: output in as it comes, events out, and one verdict."""

import asyncio
from collections.abc import AsyncIterator, Callable

import grpc

from countersign.adapter.v1 import adapter_pb2 as pb
from countersign.adapter.v1 import adapter_pb2_grpc
from countersign.kit.rpc_errors import from_rpc_error
from countersign.prose.codes import Code, ProseError

QUEUED_PARTS = 32
"""Of at most 64 KiB each: beyond that the child waits, as it does for any reader of its pipe."""
VERDICT_SECONDS = 60.0
"""How long the adapter may take to judge, once it has everything."""


class Reading:
    """One call of ReadNativeStream. `on_event` sees each event, `on_stop` that there will be no completion.

    `on_broken` is called once where the call fails before its verdict.
    """

    def __init__(
        self,
        stub: adapter_pb2_grpc.AdapterServiceStub,
        opening: pb.NativeStreamOpening,
        on_event: Callable[[pb.NativeEvent], None],
        on_stop: Callable[[], None],
        on_broken: Callable[[], None],
    ) -> None:
        self._stub = stub
        self._on_event = on_event
        self._on_stop = on_stop
        self._on_broken = on_broken
        self._parts: asyncio.Queue[pb.ReadNativeStreamRequest] = asyncio.Queue(QUEUED_PARTS)
        self._parts.put_nowait(pb.ReadNativeStreamRequest(opening=opening))
        self._task = asyncio.create_task(self._read())

    async def feed(self, data: bytes) -> None:
        """Hand over output; waits while much is on its way, and drops it where the call has failed."""
        await self._put(pb.ReadNativeStreamRequest(output=data))

    async def finish(self, end: pb.NativeProcessEnd) -> pb.ReadNativeStreamResponse:
        """The verdict. Raises ProseError, INTERNAL_ERROR, where the adapter gives none."""
        await self._put(pb.ReadNativeStreamRequest(process_end=end))
        try:
            return await asyncio.wait_for(asyncio.shield(self._task), VERDICT_SECONDS)
        except TimeoutError:
            raise ProseError(Code.INTERNAL_ERROR, "the adapter gave no verdict in time") from None

    async def close(self) -> None:
        """End the call, whatever its state."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _put(self, part: pb.ReadNativeStreamRequest) -> None:
        putting = asyncio.ensure_future(self._parts.put(part))
        await asyncio.wait({putting, self._task}, return_when=asyncio.FIRST_COMPLETED)
        if not putting.done():
            putting.cancel()

    async def _read(self) -> pb.ReadNativeStreamResponse:
        try:
            return await self._converse()
        except ProseError:
            self._on_broken()
            raise

    async def _converse(self) -> pb.ReadNativeStreamResponse:
        try:
            async for answer in self._stub.ReadNativeStream(self._requests()):
                match answer.WhichOneof("part"):
                    case "event":
                        self._on_event(answer.event)
                    case "stop":
                        self._on_stop()
                    case "completion" | "failure":
                        return answer
        except grpc.aio.AioRpcError as error:
            failure = from_rpc_error(error)
            raise ProseError(
                Code.INTERNAL_ERROR, f"the adapter did not read the stream: {failure.reason or failure.status.name}"
            ) from None
        raise ProseError(Code.INTERNAL_ERROR, "the adapter ended without a verdict")

    async def _requests(self) -> AsyncIterator[pb.ReadNativeStreamRequest]:
        while True:
            part = await self._parts.get()
            yield part
            if part.WhichOneof("part") == "process_end":
                return
