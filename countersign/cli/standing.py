"""The services that a command judges with: given by address, or started for it."""

import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Annotated

import typer

from countersign.adapter.v1 import adapter_pb2_grpc
from countersign.cli.output import say
from countersign.study.children import adapter_spec, verifier_spec
from countersign.study.processes import Household
from countersign.study.services import channel_to
from countersign.verifier.v1 import verifier_pb2_grpc

AdapterAddress = Annotated[str | None, typer.Option("--adapter", help="Its address; started if not given.")]
VerifierAddress = Annotated[str | None, typer.Option("--verifier", help="Its address; started if not given.")]


@asynccontextmanager
async def standing_services(
    adapter: str | None, verifier: str | None
) -> AsyncIterator[tuple[adapter_pb2_grpc.AdapterServiceStub, verifier_pb2_grpc.VerifierServiceStub]]:
    """Stubs of both; `adapter` None and `verifier` empty are started, `verifier` None is not needed at all."""
    async with AsyncExitStack() as stack:
        logs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="countersign-")))
        household = await stack.enter_async_context(Household(logs, say))
        player = adapter or (await household.start(adapter_spec(""))).address
        judge = (await household.start(verifier_spec(""))).address if verifier == "" else verifier or player
        player_channel = await stack.enter_async_context(channel_to("adapter", player))
        judge_channel = await stack.enter_async_context(
            channel_to("verifier" if verifier is not None else "adapter", judge)
        )
        yield adapter_pb2_grpc.AdapterServiceStub(player_channel), verifier_pb2_grpc.VerifierServiceStub(judge_channel)
