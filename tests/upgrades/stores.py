"""Where books are kept, file or database: the ledger's options for it, and what is in it without asking a ledger."""

import sqlite3
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol, cast

import grpc

from countersign.ledger.v1 import ledger_pb2 as pb
from countersign.ledger.v1.ledger_pb2_grpc import LedgerServiceStub
from tests.integration.stack import Process
from tests.ledger_svc.postgres_cluster import Cluster, find_programs
from tests.upgrades.books import Books

Heads = Mapping[str, tuple[int, bytes]]
"""The sequence and the chain digest at which each account's journal stands."""

_HEADS = "SELECT account_id, head_sequence, head_chain FROM accounts"


class Stored(Protocol):
    """Books that no ledger is working on."""

    @property
    def options(self) -> list[str]:
        """What names them to a ledger."""

    def heads(self) -> Heads:
        """Where their journals stand."""

    def version(self) -> int:
        """The version of their schema."""

    def contents(self) -> object:
        """All of them, to see whether they were changed."""

    def back_up(self, folder: Path) -> "Stored":
        """Take a back-up as docs/ledger.md says, whoever works on the books, and restore it elsewhere."""


class File:
    """Books in a SQLite file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def options(self) -> list[str]:
        return ["--database", str(self.path)]

    def _read(self, query: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)) as db:
            return db.execute(query).fetchall()

    def heads(self) -> Heads:
        return {row[0]: (row[1], row[2]) for row in self._read(_HEADS)}

    def version(self) -> int:
        return int(self._read("PRAGMA user_version")[0][0])

    def contents(self) -> object:
        return self.path.read_bytes()

    def back_up(self, folder: Path) -> "File":
        copy = folder / "backup.sqlite"
        with closing(sqlite3.connect(self.path)) as db:
            db.execute(f'VACUUM INTO "{copy}"')
        return File(copy)


class Database:
    """Books in a PostgreSQL database."""

    def __init__(self, cluster: Cluster, dsn: str, folder: Path) -> None:
        self.dsn = dsn
        self._cluster = cluster
        self._file = folder / "dsn"
        self._file.touch(mode=0o600)
        self._file.write_text(dsn)

    @property
    def options(self) -> list[str]:
        return ["--postgres-file", str(self._file)]

    def heads(self) -> Heads:
        return {row[0]: (row[1], bytes(row[2])) for row in self._cluster.execute(self.dsn, _HEADS)}

    def version(self) -> int:
        return int(self._cluster.execute(self.dsn, "SELECT version FROM ledger_schema")[0][0])

    def contents(self) -> object:
        tables = ("accounts", "studies", "calls", "payloads", "requests", "journal", "probe", "ledger_schema")
        return {table: sorted(map(repr, self._cluster.execute(self.dsn, f"SELECT * FROM {table}"))) for table in tables}

    def back_up(self, folder: Path) -> "Database":
        programs = find_programs()
        assert programs is not None
        dump = folder / "ledger.dump"
        restored = self._cluster.new_database()
        subprocess.run([programs / "pg_dump", "-Fc", "-d", self.dsn, "-f", dump], check=True)
        subprocess.run([programs / "pg_restore", "--exit-on-error", "-d", restored, dump], check=True)
        target = folder / "restored"
        target.mkdir()
        return Database(self._cluster, restored, target)


@contextmanager
def opened(
    stored: Stored, folder: Path, root: Path | None = None, *, process: Process | None = None
) -> Iterator[Books]:
    """The books asked through a ledger of the code in `root`, or `process`, which is stopped at the end."""
    process = process or ledger_process(stored, folder, root)
    process.start()
    try:
        with asked(process) as books:
            yield books
    finally:
        assert process.stop() == 0


@contextmanager
def asked(process: Process) -> Iterator[Books]:
    """The books of a ledger that runs."""
    with grpc.insecure_channel(process.address) as channel:
        yield Books(LedgerServiceStub(cast(Any, channel)))


def ledger_process(stored: Stored, folder: Path, root: Path | None = None) -> Process:
    """A ledger on the books; it is not started."""
    arguments = ["--listen", "127.0.0.1:0", "--exit-with-stdin", *stored.options]
    return Process("ledger", "ledger_svc", arguments, folder / "ledger.log", root)


def require_verified(books: Books, heads: Heads) -> None:
    """The journal is intact, and stands where it was noted to stand."""
    expected = [pb.JournalHead(account_id=name, sequence=one[0], chain_digest=one[1]) for name, one in heads.items()]
    answer = books.call("VerifyJournal", pb.VerifyJournalRequest(expected_heads=expected))
    assert answer.intact, answer.differences
    assert {head.account_id: (head.sequence, head.chain_digest) for head in answer.heads} == heads
