"""A ledger that is killed has lost nothing that it answered."""

import subprocess
import sys
from pathlib import Path

from ledger_svc.calls import CallState
from tests.ledger_svc import support
from tests.ledger_svc.support import Clock, make_ledger

PROJECT_ROOT = Path(__file__).resolve().parents[2]

VICTIM = """
import asyncio, pathlib, sys
from tests.ledger_svc import support

async def work():
    ledger = support.make_ledger(pathlib.Path(sys.argv[1]), support.Clock())
    await support.furnish(ledger, 10**9, 10**9, max_in_flight=10**6)
    async def one(number):
        answer = await ledger.reserve(support.reserve(10, at=support.slot(turn=number)))
        print("reserved", number, flush=True)
        if number % 2:
            await ledger.submit(support.receipt(at=support.slot(turn=number), response=b"r%d" % number))
            print("charged", number, flush=True)
    for start in range(1, 10**6, 8):
        await asyncio.gather(*(one(number) for number in range(start, start + 8)))

asyncio.run(work())
"""


async def test_every_acknowledged_reply_survives_sigkill(database: Path) -> None:
    victim = subprocess.Popen(
        [sys.executable, "-c", VICTIM, str(database)], cwd=PROJECT_ROOT, stdout=subprocess.PIPE, text=True
    )
    assert victim.stdout is not None
    lines = [victim.stdout.readline() for _ in range(60)]
    victim.kill()
    lines += [line for line in victim.stdout if line.endswith("\n")]
    victim.stdout.close()
    assert victim.wait() == -9
    heard = [(what, int(number)) for what, number in (line.split() for line in lines)]

    ledger = make_ledger(database, Clock())
    assert (await ledger.verify(None)).differences == []
    for what, number in heard:
        call = (await ledger.attempts(support.slot(turn=number).call_id()))[0]
        if what == "charged":
            assert call.state is CallState.CHARGED
            assert (await ledger.receipt(call.call_id, 1)).response == b"r%d" % number
        else:
            assert call.state in (CallState.RESERVED, CallState.CHARGED)
    await ledger.close()
