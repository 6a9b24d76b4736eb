"""The services that a run needs: the adapter, given or started, and the ledger where a study pays for the run."""

import os
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from countersign.adapter.v1 import adapter_pb2_grpc
from countersign.ledger.v1 import ledger_pb2_grpc
from countersign.prose.codes import Code, ProseError
from countersign.study.children import adapter_spec
from countersign.study.errors import StudyError
from countersign.study.processes import Household
from countersign.study.services import channel_to


def private_folder(parent: Path | None = None) -> "tempfile.TemporaryDirectory[str]":
    """A folder for this user alone, removed with whatever a harness wrote into it; in `parent`, else a temporary one.

    Raises ProseError, CONFIG_INVALID, where `parent` cannot be written.
    """
    try:
        if parent is not None:
            parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return tempfile.TemporaryDirectory(prefix="prose-", dir=parent, ignore_cleanup_errors=True)
    except OSError as error:
        raise ProseError(Code.CONFIG_INVALID, f"the run's folder cannot be made: {error.strerror}") from None


def cache_folder(environ: Mapping[str, str]) -> Path:
    """The user's folder for what may be lost, by the XDG Base Directory Specification: a relative path there is void.

    Raises ProseError, CONFIG_INVALID, where it lies among temporary files.
    """
    named = environ.get("XDG_CACHE_HOME", "")
    cache = Path(named) if os.path.isabs(named) else Path(environ.get("HOME") or Path.home()) / ".cache"
    if cache.resolve().is_relative_to(Path(environ.get("TMPDIR") or tempfile.gettempdir()).resolve()):
        detail = "this harness runs no command from a folder among temporary files: set XDG_CACHE_HOME to one elsewhere"
        raise ProseError(Code.CONFIG_INVALID, detail)
    return cache / "prose"


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
