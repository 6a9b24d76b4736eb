"""The operator of a soak: looks at what is in doubt and decides some of it, with evidence from the provider's door."""

import random
from dataclasses import dataclass, field

import grpc
from google.type import money_pb2

from countersign.ledger.v1 import ledger_pb2 as pb
from countersign.ledger.v1.ledger_pb2_grpc import LedgerServiceStub
from tests.soak.book import Attempt, Book, Decision
from tests.soak.door import Door

NAME = "soak-operator"
ASK_SECONDS = 10.0
DECIDES = 0.8
"""How often a call in doubt is decided; the others keep their study blocked."""


@dataclass
class Operator:
    """Decides on holds; `decided` counts what the ledger took."""

    seed: int
    decided: int = 0
    left: int = 0
    _tries: int = field(default=0)

    async def decide(self, address: str, book: Book, door: Door, study_id: str) -> int:
        """Decide on what is held in the study; how many were decided now. Raises grpc.aio.AioRpcError."""
        done = 0
        for key, attempt in book.held(study_id):
            self._tries += 1
            # By the call, not by the moment: asked again, the operator decides in the same way.
            dice = random.Random(f"{self.seed} {key}")
            if dice.random() > DECIDES:
                self.left += 1
                continue
            decision = decision_on(dice, attempt, book, door)
            # Before it is asked for: the ledger may carry it out and its answer be lost.
            book.decisions.setdefault(key, decision)
            await _resolve(address, key, attempt, book.decisions[key], len(door.by_digest.get(attempt.digest, ())))
            self.decided += 1
            done += 1
        return done


def decision_on(dice: random.Random, attempt: Attempt, book: Book, door: Door) -> Decision:
    """What the evidence says: never sent where nothing arrived or connected, else at most what was kept."""
    opens = attempt.response is None and dice.random() < 0.6
    arrived = len(door.by_digest.get(attempt.digest, ()))
    if attempt.progress == "NOT_CONNECTED" and arrived < len(book.by_digest[attempt.digest]):
        return Decision(None, opens)
    return Decision(dice.choice((0, attempt.reserved // 2, attempt.reserved)), opens)


async def _resolve(address: str, key: tuple[str, int], attempt: Attempt, decision: Decision, arrived: int) -> None:
    request = pb.ResolveHoldRequest(
        request_id=f"soak {key[0]} {key[1]}",
        call_id=bytes.fromhex(key[0]),
        attempt=key[1],
        evidence=f"the provider's door: {arrived} requests with digest {attempt.digest}",
        resolved_by=NAME,
        open_new_attempt=decision.opens_new_attempt,
    )
    if decision.charged_nanos is None:
        request.never_sent.SetInParent()
    else:
        units, rest = divmod(decision.charged_nanos, 10**9)
        request.charged.CopyFrom(money_pb2.Money(currency_code="USD", units=units, nanos=rest))
    async with grpc.aio.insecure_channel(address) as channel:
        try:
            await LedgerServiceStub(channel).ResolveHold(request, timeout=ASK_SECONDS)
        except grpc.aio.AioRpcError as error:
            # Late evidence may have charged it meanwhile.
            if error.code() is not grpc.StatusCode.FAILED_PRECONDITION:
                raise
