"""What the ledger's commands have in common: their options, the ledger they ask, and the form of their arguments."""

import hashlib
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from countersign.cli.output import say
from countersign.cli.running import run
from countersign.kit.canonical import canonical_json
from countersign.kit.money import MoneyError, text_to_nanos_exact
from countersign.ledger.v1 import ledger_pb2_grpc
from countersign.study.children import ledger_spec
from countersign.study.errors import BadInput
from countersign.study.processes import Household
from countersign.study.services import channel_to

T = TypeVar("T")

Stub = ledger_pb2_grpc.LedgerServiceStub

LedgerAddress = Annotated[
    str | None, typer.Option("--ledger", envvar="COUNTERSIGN_LEDGER", help="The ledger's address.")
]
Store = Annotated[
    Path | None, typer.Option(help="A ledger's store: a ledger is started on it for the duration of the command.")
]
AccountId = Annotated[str, typer.Argument(metavar="ACCOUNT", help="The account's id.")]
OptionalAccountId = Annotated[str, typer.Argument(metavar="ACCOUNT", help="The account's id; all if not given.")]
StudyId = Annotated[str, typer.Argument(metavar="STUDY", help="The study's id.")]
OnlyAccount = Annotated[str, typer.Option("--account", help="Only this account.")]
Amount = Annotated[str, typer.Argument(metavar="AMOUNT", help="In units of the account's currency.")]
RequestId = Annotated[
    str | None, typer.Option(help="The mutation's id; derived from its inputs if not given, so that it happens once.")
]
By = Annotated[str, typer.Option("--by", help="Who decides; kept in the journal.")]


def with_ledger(address: str | None, store: Path | None, body: Callable[[Stub], Awaitable[T]]) -> T:
    """Run `body` against the ledger at `address`, or one started on `store`. Raises BadInput where neither will do."""
    if (address is None) == (store is None):
        raise BadInput("name one ledger: either --ledger ADDRESS (or COUNTERSIGN_LEDGER) or --store FILE")
    if store is not None and not store.is_file():
        raise BadInput(f"--store {store}: no such file; a ledger makes one when it is started by 'countersign up'")

    async def main() -> T:
        async with _stub(address, store) as stub:
            return await body(stub)

    return run(lambda _: main())


@asynccontextmanager
async def _stub(address: str | None, store: Path | None) -> AsyncIterator[Stub]:
    with tempfile.TemporaryDirectory(prefix="countersign-") as logs:
        async with Household(Path(logs), say) as household:
            if store is not None:
                address = (await household.start(ledger_spec(store))).address
            async with channel_to("ledger", address or "") as channel:
                yield Stub(channel)


def read_nanos(text: str, name: str) -> int:
    """An amount in units as whole nano-units. Raises BadInput, which calls it `name`."""
    try:
        return text_to_nanos_exact(text)
    except MoneyError as error:
        raise BadInput(f"{name} {text}: {error}; write decimal units such as 12.50") from None


def read_digest(text: str, name: str, origin: str) -> bytes:
    """32 bytes in hexadecimal. Raises BadInput, which calls them `name` and says where they come from."""
    try:
        digest = bytes.fromhex(text)
    except ValueError:
        digest = b""
    if len(digest) != 32:
        raise BadInput(f"{name} {text}: must be 64 hexadecimal digits, {origin}")
    return digest


def derived_id(kind: str, *inputs: str) -> str:
    """A mutation's id that is the same for the same inputs."""
    return f"{kind}:{hashlib.sha256(canonical_json(list(inputs))).hexdigest()}"
