"""A ledger's process killed under load, over and over, on one file: a checker outside keeps the list (I2, I3)."""

import asyncio
import random
from pathlib import Path
from typing import Any

from countersign.kit.channel import open_channel
from countersign.ledger.v1 import ledger_pb2 as pb
from countersign.ledger.v1.ledger_pb2_grpc import LedgerServiceStub
from tests.ledger_svc.attack import wire
from tests.ledger_svc.attack.rounds import FIRST_SEED, rounds
from tests.ledger_svc.attack.witness import Line, Witness

CLIENTS = 16
STUDIES = [f"study-{number}" for number in range(CLIENTS)]
CAP = 150 * rounds(10)


class Killer:
    """Kills the ledger once so many requests have been sent."""

    def __init__(self, process: asyncio.subprocess.Process, after_count: int) -> None:
        self.process = process
        self.left_count = after_count
        self.done = asyncio.Event()

    def sending(self) -> None:
        """Another request is about to leave."""
        self.left_count -= 1
        if self.left_count == 0:
            asyncio.get_running_loop().call_soon(self._kill)

    def _kill(self) -> None:
        self.process.kill()
        self.done.set()


class Client:
    """Drives the slots of one study with seeded choices until the ledger is gone."""

    def __init__(self, witness: Witness, study_id: str, stub: Any, killer: Killer, seed: str) -> None:
        self.witness = witness
        self.study_id = study_id
        self.stub = stub
        self.killer = killer
        self.random = random.Random(seed)

    async def run(self) -> None:
        """Until the kill, and until the last reply has come or failed."""
        turn = sum(line.at.study_id == self.study_id for line in self.witness.lines.values())
        while not self.killer.done.is_set():
            turn += 1
            if self.random.random() < 0.06:
                self.killer.sending()
                request_id = f"{self.study_id}-grant-{turn}-{self.random.getrandbits(64):x}"
                await self.witness.grant(self.stub, wire.grant(self.random.randrange(1, 200), request_id))
            await self.one_call(Line(wire.slot(turn, self.study_id)))

    async def send(self, line: Line, request: Any) -> bool:
        """Whether the request was acknowledged."""
        self.killer.sending()
        return await self.witness.mutate(self.stub, line, request) == "done"

    async def one_call(self, line: Line) -> None:
        """Reserve, then charge, leave open, or hold and resolve; a resolution may open a second attempt."""
        token, amount = wire.token(self.random), self.random.randrange(1, 40)
        if not await self.send(line, wire.reserve(amount, line.at, token, self.random.randbytes(20))):
            return
        call_id = line.attempts[-1].call_id
        choice = self.random.random()
        if choice < 0.6:
            await self.charge(line, call_id, token, amount)
        elif choice < 0.9 and await self.send(line, wire.hold(call_id, token)):
            await self.resolve(line, call_id, amount)

    async def charge(self, line: Line, call_id: bytes, token: bytes, amount: int) -> None:
        cost, length = self.random.randrange(0, amount + 1), self.random.choice([10, 500, 20_000])
        await self.send(line, wire.receipt(call_id, token, cost, self.random.randbytes(length)))

    async def resolve(self, line: Line, call_id: bytes, amount: int) -> None:
        again = self.random.random() < 0.5
        charged = None if self.random.random() < 0.5 else self.random.randrange(0, amount + 1)
        request_id = f"resolve-{self.random.getrandbits(64):x}"
        await self.send(line, wire.resolve(call_id, 1, charged, request_id, again))


async def unblock(witness: Witness, stub: Any) -> None:
    """Resolve what is still held, so that every study goes on in the next round."""
    for call_id, line in list(witness.lines.items()):
        if line.attempts and line.attempts[-1].state == pb.CALL_STATE_HELD:
            request = wire.resolve(call_id, len(line.attempts), 1, f"unblock-{call_id.hex()}", False)
            assert await witness.mutate(stub, line, request) == "done"


async def furnish(stub: Any) -> Witness:
    """An account with a budget that runs out now and then, and a study for every client."""
    witness = Witness("lab", dict.fromkeys(STUDIES, CAP))
    await wire.ask(stub, wire.open_account())
    await witness.grant(stub, wire.grant(1_000))
    for study_id in STUDIES:
        await wire.ask(stub, wire.open_study(CAP, study_id))
    witness.mutations_count += 1 + len(STUDIES)
    return witness


async def load_until_killed(witness: Witness, process: Any, address: str, seed: str) -> None:
    """All clients at once, each on a channel of its own, until the kill."""
    source = random.Random(seed)
    killer = Killer(process, source.randrange(1, 400))
    async with asyncio.TaskGroup() as tasks:
        for study_id in STUDIES:
            tasks.create_task(_drive(witness, study_id, address, killer, f"{seed} {study_id}"))
    await process.wait()


async def _drive(witness: Witness, study_id: str, address: str, killer: Killer, seed: str) -> None:
    async with open_channel(address) as channel:
        await Client(witness, study_id, LedgerServiceStub(channel), killer, seed).run()


async def kill_while_starting(database: Path, source: random.Random) -> None:
    """A kill somewhere between the start of the process and its first words; recovery must survive that as well."""
    process = await wire.spawn(database)
    try:
        async with asyncio.timeout(source.uniform(0.2, 1.2)):
            await wire.address_of(process)
    except TimeoutError:
        pass
    finally:
        process.kill()
        await process.wait()


async def test_killed_ledger_keeps_every_acknowledged_reply(database: Path) -> None:
    async with wire.ledger_process(database) as (_, address), open_channel(address) as channel:
        witness = await furnish(LedgerServiceStub(channel))
    for number in range(rounds(10)):
        seed = f"{FIRST_SEED}-{number}"
        async with wire.ledger_process(database) as (process, address):
            await check(witness, address)
            await load_until_killed(witness, process, address, seed)
        if number % 4 == 3:
            await kill_while_starting(database, random.Random(seed))
    async with wire.ledger_process(database) as (_, address):
        await check(witness, address)
    print(
        f"kills under load: {rounds(10)}; acknowledged {witness.acknowledged_count}, refused {witness.refused_count}, "
        f"in doubt {witness.doubts_count}, of these landed {witness.landed_count}"
    )
    assert witness.acknowledged_count > 20 * rounds(10)
    assert witness.refused_count > 0
    assert witness.doubts_count > rounds(10)


async def check(witness: Witness, address: str) -> None:
    """Let the witness compare, then resolve what is held, so that every study goes on."""
    async with open_channel(address) as channel:
        await witness.check(LedgerServiceStub(channel))
        await unblock(witness, LedgerServiceStub(channel))
