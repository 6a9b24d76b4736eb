"""The services that a run needs: the adapter, given or started, and the ledger where a study pays for the run."""

import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from countersign.adapter.v1 import adapter_pb2_grpc
from countersign.ledger.v1 import ledger_pb2_grpc
from countersign.prose.codes import Code, ProseError
from countersign.study.children import adapter_spec
from countersign.study.errors import StudyError
from countersign.study.processes import Household
from countersign.study.services import channel_to


def private_folder() -> "tempfile.TemporaryDirectory[str]":
    """A folder for this user alone, removed with whatever a harness wrote into it."""
    return tempfile.TemporaryDirectory(prefix="prose-", ignore_cleanup_errors=True)


@asynccontextmanager
async def reach_adapter(address: str | None) -> AsyncIterator[adapter_pb2_grpc.AdapterServiceStub]:
    """The adapter at `address`, or one that is started and stopped again.

    Raises ProseError: CONFIG_INVALID where none answers at the address, INTERNAL_ERROR where none can be started.
    """
    try:
        async with AsyncExitStack() as stack:
            logs = Path(stack.enter_context(private_folder()))
            household = await stack.enter_async_context(Household(logs, lambda _: None))
            where = address or (await household.start(adapter_spec(""))).address
            yield adapter_pb2_grpc.AdapterServiceStub(await stack.enter_async_context(channel_to("adapter", where)))
    except StudyError as error:
        raise ProseError(Code.INTERNAL_ERROR if address is None else Code.CONFIG_INVALID, error.message) from None


@asynccontextmanager
async def reach_ledger(address: str) -> AsyncIterator[ledger_pb2_grpc.LedgerServiceStub]:
    """The ledger at `address`. Raises ProseError, CONFIG_INVALID, where none answers."""
    try:
        async with channel_to("ledger", address) as channel:
            yield ledger_pb2_grpc.LedgerServiceStub(channel)
    except StudyError as error:
        raise ProseError(Code.CONFIG_INVALID, error.message) from None
