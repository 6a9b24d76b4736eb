"""`countersign ledger verify`, `checkpoint-key` and `checkpoint`: is history still what it was (design/ledger.md)."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from countersign.cli.ledger_inputs import LedgerAddress, OnlyAccount, Store, with_ledger
from countersign.cli.ledger_words import difference_of
from countersign.cli.output import AsJson, emit
from countersign.ledger.v1 import ledger_pb2 as ledger
from countersign.study.checkpoints import (
    Checkpoint,
    private_key_pem,
    public_key_pem,
    read_checkpoint,
    read_private_key,
    read_public_key,
    sign_checkpoint,
)
from countersign.study.errors import BadInput
from countersign.study.files import create_atomically, read_bytes
from countersign.study.services import VERIFY_JOURNAL_SECONDS, ask

CheckpointFile = Annotated[
    Path | None, typer.Option("--checkpoint", help="A checkpoint that the history must still contain.")
]
PublicKeyFile = Annotated[
    Path | None, typer.Option("--public-key", help="The key that must have signed the checkpoint, PEM.")
]


def verify(
    account: OnlyAccount = "",
    checkpoint_file: CheckpointFile = None,
    public_key_file: PublicKeyFile = None,
    address: LedgerAddress = None,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Recompute the journal's chain and every balance; status 1 where anything differs."""
    kept = kept_checkpoint(checkpoint_file, public_key_file)
    request = ledger.VerifyJournalRequest(account_id=account)
    if kept is not None:
        request.expected_heads.extend(head for head in kept.heads if account in ("", head.account_id))
        if not request.expected_heads:
            raise BadInput(f"{checkpoint_file} says nothing about account {account}")
    found = _found(_verified(request, address, store))
    found["checkpoint"] = None if kept is None else kept_of(kept, public_key_file is not None)
    if as_json:
        emit(found)
    else:
        _say(found)
    raise typer.Exit(0 if found["intact"] else 1)


def checkpoint_key(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="Where the private key goes, mode 600.")],
    as_json: AsJson = False,
) -> None:
    """Make an Ed25519 key pair for checkpoints: the private key in FILE, the public key in FILE.pub."""
    key = Ed25519PrivateKey.generate()
    public_path = path.with_name(path.name + ".pub")
    if public_path.exists():
        raise BadInput(f"{public_path} exists and is not overwritten: choose another name")
    create_atomically(path, private_key_pem(key))
    create_atomically(public_path, public_key_pem(key))
    public_key = key.public_key().public_bytes_raw().hex()
    if as_json:
        emit({"private_key_file": str(path), "public_key_file": str(public_path), "public_key": public_key})
    else:
        typer.echo(f"{path} holds the private key: keep it away from the ledger's machine")
        typer.echo(f"{public_path} holds the public key {public_key}")


def checkpoint(
    key_file: Annotated[Path, typer.Option("--key", help="The private key, as 'checkpoint-key' made it.")],
    out: Annotated[Path, typer.Option(help="Where the checkpoint goes; never over a file that exists.")],
    account: OnlyAccount = "",
    address: LedgerAddress = None,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Verify the journal and sign where it stands; status 1, and nothing signed, where anything differs."""
    key = read_private_key(read_bytes(key_file), str(key_file))
    if out.exists():
        raise BadInput(f"{out} exists and is not overwritten: choose another name")
    answer = _verified(ledger.VerifyJournalRequest(account_id=account), address, store)
    found = _found(answer)
    if not answer.intact:
        if as_json:
            emit({**found, "checkpoint": None})
        else:
            _say({**found, "checkpoint": None})
        raise typer.Exit(1)
    at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    content = sign_checkpoint(answer.heads, at, key)
    create_atomically(out, content)
    kept = read_checkpoint(content, str(out))
    if as_json:
        emit({**kept_of(kept, True), "file": str(out)})
    else:
        typer.echo(f"{out} is signed: {len(kept.heads)} accounts as of {kept.at}, key {kept.public_key.hex()}")


def kept_checkpoint(path: Path | None, public_key_path: Path | None) -> Checkpoint | None:
    """The checkpoint of the options, its signature checked. Raises BadInput and NotGenuine."""
    if path is None:
        if public_key_path is not None:
            raise BadInput("--public-key goes with --checkpoint FILE")
        return None
    public_key = None
    if public_key_path is not None:
        public_key = read_public_key(read_bytes(public_key_path), str(public_key_path))
    return read_checkpoint(read_bytes(path), str(path), public_key)


def _verified(
    request: ledger.VerifyJournalRequest, address: str | None, store: Path | None
) -> ledger.VerifyJournalResponse:
    return with_ledger(address, store, lambda stub: ask("ledger", stub.VerifyJournal, request, VERIFY_JOURNAL_SECONDS))


def _found(answer: ledger.VerifyJournalResponse) -> dict[str, Any]:
    lasts = {head.account_id: head.sequence for head in answer.heads}
    return {
        "intact": answer.intact,
        "entries": answer.entries_count,
        "accounts": answer.accounts_count,
        "differences": [difference_of(one, lasts) for one in answer.differences],
        "heads": _heads_of(answer.heads),
    }


def _heads_of(heads: Any) -> list[dict[str, Any]]:
    return [{"account": head.account_id, "sequence": head.sequence, "chain": head.chain_digest.hex()} for head in heads]


def kept_of(kept: Checkpoint, key_compared: bool) -> dict[str, Any]:
    """A checkpoint as a plain value; `key_compared` says whether its key was one that the caller named."""
    return {
        "at": kept.at,
        "public_key": kept.public_key.hex(),
        "key_compared": key_compared,
        "heads": _heads_of(kept.heads),
    }


def _say(found: Mapping[str, Any]) -> None:
    state = "intact" if found["intact"] else "NOT INTACT"
    typer.echo(f"the journal is {state}: {found['entries']} entries of {found['accounts']} accounts")
    for one in found["differences"]:
        typer.echo(one["words"])
    if found["checkpoint"] is not None:
        typer.echo(kept_words(found["checkpoint"], found["intact"]))


def kept_words(kept: Mapping[str, Any], intact: bool) -> str:
    """What came of comparing with a checkpoint, as `kept_of` gives it."""
    compared = "as asked for" if kept["key_compared"] else "not compared: give --public-key FILE"
    held = "is contained in it" if intact else "was compared with it"
    return f"the checkpoint of {kept['at']} {held}; its key is {kept['public_key']} ({compared})"
