"""Fetching an episode's evidence from the ledger: every attempt of every turn, requests and responses as stored."""

from collections import Counter
from collections.abc import Mapping
from typing import Protocol

import grpc

from countersign.kit.channel import call
from countersign.kit.money_wire import from_wire
from countersign.kit.rpc_errors import from_rpc_error
from countersign.ledger.v1 import ledger_pb2 as pb
from countersign.ledger.v1.ledger_pb2_grpc import LedgerServiceStub
from verifier_svc.episode import StoredCall
from verifier_svc.receipts.cost import CostBasis

READ_TIMEOUT_SECONDS = 30.0
PAGE_SIZE = 1000

Balances = Mapping[str, int]
"""What a study's calls account for by state, in nano-units."""


class Evidence(Protocol):
    """Where stored calls come from."""

    async def of_episode(self, study_id: str, episode_id: str) -> list[StoredCall]:
        """All attempts of all turns of one episode; raises ServiceError where they cannot be read."""

    async def count_calls(self, study_id: str) -> Mapping[str, int]:
        """How many attempts the ledger has of each episode of the study; raises ServiceError."""

    async def balances(self, account_id: str, study_id: str) -> Balances:
        """The ledger's own sums of the study; raises ServiceError."""


class LedgerEvidence:
    """Evidence out of the ledger, over gRPC."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._ledger = LedgerServiceStub(channel)

    async def of_episode(self, study_id: str, episode_id: str) -> list[StoredCall]:
        """All attempts of all turns of one episode, up to the first turn of which the ledger knows none."""
        request = pb.ListReceiptsRequest(study_id=study_id, episode_id=episode_id)
        found: list[StoredCall] = []
        try:
            async for page in self._ledger.ListReceipts(request, timeout=READ_TIMEOUT_SECONDS):
                found += (_stored(one.call, one.receipt) for one in page.attempts)
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error) from None
        return found

    async def count_calls(self, study_id: str) -> Mapping[str, int]:
        """How many attempts the ledger has of each episode of the study, page by page."""
        found: Counter[str] = Counter()
        token = ""
        while True:
            request = pb.ListCallsRequest(study_id=study_id, page_size=PAGE_SIZE, page_token=token)
            page = await call(self._ledger.ListCalls, request, READ_TIMEOUT_SECONDS)
            found.update(one.slot.episode_id for one in page.calls)
            token = page.next_page_token
            if not token:
                return found

    async def balances(self, account_id: str, study_id: str) -> Balances:
        """The ledger's own sums of the study; a study that it does not know has none."""
        request = pb.SummarizeRequest(account_id=account_id, study_id=study_id)
        answer = await call(self._ledger.Summarize, request, READ_TIMEOUT_SECONDS)
        sums = answer.studies[0].balances if answer.studies else pb.Balances()
        by_state = {"CHARGED": sums.charged, "RESERVED": sums.reserved, "HELD": sums.held, "RESOLVED": sums.resolved}
        return {state: from_wire(amount).nanos if answer.studies else 0 for state, amount in by_state.items()}


def _stored(attempt: pb.Call, receipt: pb.Receipt) -> StoredCall:
    answered = bool(receipt.response_digest)
    known_cost = answered and receipt.cost.basis != pb.COST_BASIS_UNSPECIFIED
    basis = pb.CostBasis.Name(receipt.cost.basis).removeprefix("COST_BASIS_")
    return StoredCall(
        call_id=attempt.call_id,
        turn=attempt.slot.turn,
        attempt=attempt.attempt,
        state=pb.CallState.Name(attempt.state).removeprefix("CALL_STATE_"),
        request=receipt.request,
        accounted_nanos=from_wire(attempt.accounted).nanos,
        response=receipt.response if answered else None,
        http_status=receipt.http_status if answered else None,
        cost_basis=CostBasis(basis) if known_cost else None,
        cost_text=receipt.cost.amount_text if known_cost else None,
        reserved_nanos=from_wire(attempt.reserved).nanos if attempt.HasField("reserved") else None,
    )
