"""`countersign ledger export` and `check-export`: the journal as a file that needs no ledger (docs/ledger.md)."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from countersign.cli.ledger_inputs import AccountId, LedgerAddress, Store, Stub, with_ledger
from countersign.cli.ledger_journal import CheckpointFile, PublicKeyFile, kept_checkpoint, kept_of, kept_words
from countersign.cli.output import AsJson, emit
from countersign.ledger.v1 import ledger_pb2 as ledger
from countersign.study.files import atomic_file
from countersign.study.journal_files import check_lines, entry_line, exported_entries
from countersign.study.lines import read_lines


def export(
    account: AccountId,
    first: Annotated[int, typer.Option("--from", help="The first entry's sequence.", min=1)] = 1,
    out: Annotated[
        Path | None, typer.Option(help="A file to write, all of it or nothing; standard output if not given.")
    ] = None,
    address: LedgerAddress = None,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Write an account's journal as JSON lines, with every digest."""
    if out is None:
        with_ledger(address, store, lambda stub: _export(stub, account, first, _print))
        return
    with atomic_file(out) as file:
        count, last = with_ledger(address, store, lambda stub: _export(stub, account, first, file.write))
    chain = None if last is None else last.chain_digest.hex()
    if as_json:
        emit({"file": str(out), "account": account, "entries": count, "chain": chain})
    else:
        stands = "" if last is None else f"; the chain stands at entry {last.sequence}, {chain}"
        typer.echo(f"{out} has {count} entries of account {account}{stands}")


def check_export(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="An export, gzip or plain.")],
    checkpoint_file: CheckpointFile = None,
    public_key_file: PublicKeyFile = None,
    as_json: AsJson = False,
) -> None:
    """Recompute every digest of an export, without a ledger; status 1 where one differs."""
    kept = kept_checkpoint(checkpoint_file, public_key_file)
    found = check_lines(read_lines(path), str(path), () if kept is None else kept.heads)
    if as_json:
        emit(
            {
                "intact": found.difference is None,
                "account": found.account_id,
                "first": found.first,
                "last": found.last,
                "chain": found.chain,
                "difference": found.difference,
                "checkpoint": None if kept is None else kept_of(kept, public_key_file is not None),
            }
        )
    elif found.difference is None:
        typer.echo(
            f"{path}: entries {found.first} to {found.last} of account {found.account_id} follow from one another; "
            f"the chain stands at {found.chain}"
        )
    else:
        typer.echo(f"{path} is NOT INTACT: {found.difference}")
    if kept is not None and not as_json:
        typer.echo(kept_words(kept_of(kept, public_key_file is not None), found.difference is None))
    raise typer.Exit(0 if found.difference is None else 1)


async def _export(
    stub: Stub, account_id: str, first: int, write: Callable[[bytes], object]
) -> tuple[int, ledger.JournalEntry | None]:
    """Write every entry; how many there were, and the last."""
    count, last = 0, None
    async for entry in exported_entries(stub, account_id, first):
        write(entry_line(entry))
        count, last = count + 1, entry
    return count, last


def _print(line: bytes) -> None:
    sys.stdout.write(line.decode("utf-8"))
