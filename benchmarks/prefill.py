"""Fills a ledger's file with reserved calls, through the ledger's own commands and store but without flushing each.

The study, and the slots numbered from 1, are those of `benchmarks.load`.
"""

import asyncio
import sys
import time
from pathlib import Path

from benchmarks import load
from countersign.kit.money import Money
from ledger_svc.calls import AmountBasis, Slot
from ledger_svc.commands.accounts import GrantBudget, OpenAccount
from ledger_svc.commands.reservations import Admitted, Reserve
from ledger_svc.commands.studies import OpenStudy
from ledger_svc.storage.sqlite import SqliteStore
from ledger_svc.writer import Writer

BATCH = 1_000


def _reserve(number: int) -> Reserve:
    slot = load.slot_of(number)
    amount = Money("USD", load.PRICE.nanos)
    request = b"%0*d" % (load.REQUEST_BYTES, number)
    lease_micros = load.LEASE.seconds * 1_000_000
    of = Slot(slot.study_id, slot.episode_id, slot.turn)
    return Reserve(of, load.token_of(number), amount, AmountBasis.FLAT, b"", request, lease_micros)


async def prefill(path: Path, count: int) -> None:
    """Reserve the slots 1 to `count` in a new file; raises AssertionError where one is not admitted."""
    store = SqliteStore.open(path)
    # The file is thrown away if this fails; it is flushed once, when it is closed.
    store._writing.execute("PRAGMA synchronous = OFF")
    writer = Writer(store, lambda: time.time_ns() // 1_000)
    writer.start()
    budget = Money("USD", load.BUDGET.units * 10**9)
    await writer.submit(OpenAccount("o", load.ACCOUNT, "USD", "b"))
    await writer.submit(GrantBudget("g", load.ACCOUNT, budget, "b", "b"))
    await writer.submit(OpenStudy("s", load.ACCOUNT, load.STUDY, budget, bytes(32), "b", None, 2**31))
    for start in range(1, count + 1, BATCH):
        numbers = range(start, min(start + BATCH, count + 1))
        parts = writer.submit_parts([_reserve(number) for number in numbers])
        outcomes = [outcome async for part in parts for outcome in part]
        if not all(isinstance(outcome, Admitted) and not outcome.replayed for outcome in outcomes):
            raise AssertionError("a reservation was not admitted")
    await writer.close()
    await store.close()


if __name__ == "__main__":
    asyncio.run(prefill(Path(sys.argv[1]), int(sys.argv[2])))
