"""What somebody who owns the ledger's file can do: a history that is another one, and consistent in itself."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from ledger_svc.commands.base import inputs_digest
from ledger_svc.journal import GENESIS_CHAIN, Entry, EntryKind, next_entry
from ledger_svc.storage import sqlite_rows as rows
from ledger_svc.storage.head import SUFFIX
from ledger_svc.storage.rows import entry_from_row


def rewrite_first_grant(path: Path, account_id: str, amount_nanos: int) -> None:
    """Change the amount of an account's first grant, and everything that follows from it."""
    with _unguarded(path) as db:
        entries = _entries(db, account_id)
        first = next(entry for entry in entries if entry.kind == EntryKind.BUDGET_GRANTED)
        body = json.loads(first.body)
        added_nanos = amount_nanos - body["amount_nanos"]
        body["amount_nanos"] = amount_nanos
        db.execute(
            "UPDATE requests SET inputs_digest = ? WHERE request_id = ?", (_inputs_digest(body), body["request_id"])
        )
        # Each grant is answered with the sum of all grants up to it.
        db.executemany(
            "UPDATE requests SET answer_nanos = answer_nanos + ? WHERE request_id = ?",
            [
                (added_nanos, json.loads(entry.body)["request_id"])
                for entry in entries
                if entry.kind == EntryKind.BUDGET_GRANTED
            ],
        )
        db.execute("DELETE FROM journal WHERE account_id = ?", (account_id,))
        chain = GENESIS_CHAIN
        for entry in entries:
            said = body if entry is first else json.loads(entry.body)
            new = next_entry(account_id, entry.sequence, chain, EntryKind(entry.kind), said, entry.at)
            _insert(db, new)
            chain = new.chain
        db.execute(
            "UPDATE accounts SET granted_nanos = granted_nanos + ?, head_chain = ? WHERE account_id = ?",
            (added_nanos, chain, account_id),
        )


def erase_last_grant(path: Path, account_id: str) -> None:
    """Cut the journal before its last entry, a grant, as if it had never been made."""
    with _unguarded(path) as db:
        *kept, last = _entries(db, account_id)
        assert last.kind == EntryKind.BUDGET_GRANTED
        body = json.loads(last.body)
        db.execute("DELETE FROM journal WHERE account_id = ? AND sequence = ?", (account_id, last.sequence))
        db.execute("DELETE FROM requests WHERE request_id = ?", (body["request_id"],))
        db.execute(
            "UPDATE accounts SET granted_nanos = granted_nanos - ?, head_sequence = ?, head_chain = ? "
            "WHERE account_id = ?",
            (body["amount_nanos"], kept[-1].sequence, kept[-1].chain, account_id),
        )


def erase_account(path: Path, account_id: str) -> None:
    """Take out an account that has no studies, entries and all."""
    with _unguarded(path) as db:
        db.execute("DELETE FROM journal WHERE account_id = ?", (account_id,))
        db.execute("DELETE FROM accounts WHERE account_id = ?", (account_id,))


def damage_balances(path: Path, account_id: str) -> None:
    """Change an account's stored grants and nothing else."""
    with _unguarded(path) as db:
        db.execute("UPDATE accounts SET granted_nanos = granted_nanos + 1 WHERE account_id = ?", (account_id,))


def damage_body(path: Path, account_id: str, sequence: int) -> None:
    """Cut an entry's body short, so that it is no JSON."""
    with _unguarded(path) as db:
        change = "UPDATE journal SET body = substr(body, 1, 9) WHERE account_id = ? AND sequence = ?"
        db.execute(change, (account_id, sequence))


@contextmanager
def _unguarded(path: Path) -> Iterator[sqlite3.Connection]:
    """The file without the triggers that keep its journal append-only; they are put back. Its head mark is removed."""
    with closing(sqlite3.connect(path)) as db, db:
        triggers = db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            db.execute(f"DROP TRIGGER {name}")
        yield db
        for _, sql in triggers:
            db.execute(sql)
    path.with_name(path.name + SUFFIX).unlink(missing_ok=True)


def _entries(db: sqlite3.Connection, account_id: str) -> list[Entry]:
    query = f"SELECT {rows.READ_ENTRY_COLUMNS} FROM journal WHERE account_id = ? ORDER BY sequence"
    return [entry_from_row(row) for row in db.execute(query, (account_id,))]


def _insert(db: sqlite3.Connection, entry: Entry) -> None:
    db.execute(
        "INSERT INTO journal (account_id, sequence, kind, body, body_digest, previous_chain, chain, at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            entry.account_id,
            entry.sequence,
            entry.kind,
            entry.body.decode(),
            entry.body_digest,
            entry.previous_chain,
            entry.chain,
            entry.at,
        ),
    )


def _inputs_digest(body: dict[str, Any]) -> bytes:
    inputs = {name: value for name, value in body.items() if name != "request_id"}
    return inputs_digest(EntryKind.BUDGET_GRANTED, inputs)
