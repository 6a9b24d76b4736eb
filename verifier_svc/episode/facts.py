"""What an episode is rebuilt from: the plan's facts and the ledger's stored calls."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from countersign.kit.canonical import sha256
from verifier_svc.packets.build import DeclaredCase
from verifier_svc.receipts.cost import CostBasis, Price
from verifier_svc.receipts.requests import RequestPlan
from verifier_svc.receipts.wire import Expectation

CHARGED = "CHARGED"
RESOLVED = "RESOLVED"
FIRST_TURN = 1


@dataclass(frozen=True, slots=True)
class StoredCall:
    """One attempt of one slot as the ledger has it; the response's parts are None where none is stored.

    `state` is RESERVED, CHARGED, HELD or RESOLVED; `cost_text` the amount in decimal text as handed in;
    `reserved_nanos` None means that the caller does not know what was reserved and it is not compared.
    """

    call_id: bytes
    turn: int
    attempt: int
    state: str
    request: bytes
    accounted_nanos: int
    response: bytes | None = None
    http_status: int | None = None
    cost_basis: CostBasis | None = None
    cost_text: str | None = None
    reserved_nanos: int | None = None

    @property
    def is_answered(self) -> bool:
        """Whether its receipt is what the slot answers with: charged, or resolved by an operator with it stored.

        What is still in doubt is never acted on (design/architecture.md, I3 and I4).
        """
        return self.state in (CHARGED, RESOLVED) and self.response is not None and self.http_status is not None


@dataclass(frozen=True, slots=True)
class RouteFacts:
    """A frozen route as far as evidence shows it; `price` None means that the route costs nothing."""

    request: RequestPlan
    expectation: Expectation
    input_limit_bytes: int = 20_000
    price: Price | None = None
    charges_reported_cost: bool = False


@dataclass(frozen=True, slots=True)
class EpisodeFacts:
    """What the plan fixed and the realised world; `wording_digest` names `wording`, in hexadecimal.

    `manifest_digest` (hexadecimal) None means that the caller does not know it and it is not compared.
    """

    study_id: str
    episode_id: str
    case: DeclaredCase
    world: Mapping[str, Any]
    route: RouteFacts
    wording: Mapping[str, Any]
    wording_digest: str
    manifest_digest: str | None = None


def call_id(study_id: str, episode_id: str, turn: int) -> bytes:
    """The slot's call id: SHA-256 over each part's 8-byte big-endian length and bytes (design/ledger.md, Objects)."""
    parts = [text.encode("utf-8") for text in (study_id, episode_id, str(turn))]
    return sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts))
