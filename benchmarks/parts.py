"""Where the ledger's CPU time for a coalesced reservation goes, part by part, in one thread and without gRPC.

    python -m benchmarks.parts [COUNT]

COUNT mutations a message, 32 unless given. The parts are those that `ledger_svc.transact`, `ledger_svc.writer` and the
SQLite store put together; each reply is checked.
"""

import asyncio
import gc
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import load
from benchmarks.prefill import prefill
from countersign.kit.access import standing
from countersign.ledger.v1 import ledger_pb2 as pb
from ledger_svc import transact, writer
from ledger_svc.__main__ import COLLECTOR_THRESHOLD
from ledger_svc.storage import sqlite_rows
from ledger_svc.storage.sqlite import SqliteStore
from ledger_svc.workspace import Wanted, Workspace

MESSAGES = 400


class Laps:
    """CPU seconds of this thread by part."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Add what runs inside to a part."""
        start = time.thread_time()
        yield
        self.seconds[name] += time.thread_time() - start


def message(first: int, count: int) -> bytes:
    """A stream's message with the run's reservations from `first` on."""
    requests = (load.request_of(number) for number in range(first, first + count))
    mutations = [pb.Mutation(correlation_id=number, reserve=each) for number, each in enumerate(requests, first)]
    return pb.TransactRequest(mutations=mutations).SerializeToString()


def carry_out(store: SqliteStore, data: bytes, laps: Laps) -> None:
    """One message from its bytes to its reply's; raises AssertionError where a reservation is not admitted."""
    with laps.part("read the message, make commands"):
        taken = transact._read(pb.TransactRequest.FromString(data))
    with laps.part("gather what they want"):
        wanted = Wanted.union(command.wanted() for command in taken.commands)
    before = time.thread_time()
    with store._transaction():
        db = store._writing
        store._keys.refresh(db)
        laps.seconds["begin"] += time.thread_time() - before
        with laps.part("load"):
            now = time.time_ns() // 1_000
            loaded, row_ids = sqlite_rows.load(db, store._keys, wanted, now)
        with laps.part("decide; journal entries and their digests"):
            book = Workspace(loaded, now)
            outcomes = writer._outcomes(taken.commands, book)
        with laps.part("write rows"):
            new = sqlite_rows.save(db, book.changes, row_ids)
        before = time.thread_time()
    laps.seconds["commit: write-ahead log, flush"] += time.thread_time() - before
    store._keys.add(new)
    with laps.part("reply"):
        response = pb.TransactResponse()
        for number, kind, outcome in zip(taken.ids, taken.kinds, outcomes, strict=True):
            transact._reply(response, number, kind, outcome)
        response.SerializeToString()
    if any(reply.reserve.admission.attempt != 1 for reply in response.replies):
        raise AssertionError("a reservation was not admitted")


def main(count: int) -> None:
    """Print the table."""
    gc.freeze()
    gc.set_threshold(COLLECTOR_THRESHOLD)
    laps = Laps()
    with tempfile.TemporaryDirectory(prefix="countersign-bench-") as folder, standing(None, None):
        path = Path(folder) / "ledger.db"
        asyncio.run(prefill(path, 0))
        store = SqliteStore.open(path)
        for first in range(1, MESSAGES * count + 1, count):
            carry_out(store, message(first, count), laps)
        asyncio.run(store.close())
    done = MESSAGES * count
    for name, seconds in laps.seconds.items():
        print(f"{name:44} {seconds / done * 1e6:6.1f} us")
    print(f"{'together':44} {sum(laps.seconds.values()) / done * 1e6:6.1f} us")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 32)
