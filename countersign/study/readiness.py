"""Readiness: what must hold before a paid collection, each item with its evidence (design/study.md, Readiness).

The file is a claim. Collecting gathers the same evidence again, from the services, and compares the digests: a file
that merely says that all is well opens nothing.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from countersign.kit.canonical import canonical_json, sha256
from countersign.study.built import BuiltStudy
from countersign.study.errors import NotReady
from countersign.study.evidence import ItemEvidence, budget, comparators, manifest, packets, prices, probes, scoring
from countersign.study.files import read_bytes, write_atomically
from countersign.study.manifest import Manifest
from countersign.study.plan_model import PlanFile, TokenPricesPlan
from countersign.study.services import Services

SCHEMA = "countersign.readiness/1"
READINESS_NAME = "readiness.json"


class Item(StrEnum):
    """What must hold."""

    MANIFEST = "manifest"
    PACKETS = "packets"
    COMPARATORS = "comparators"
    PROBES = "probes"
    PRICES = "prices"
    BUDGET = "budget"
    SCORING = "scoring"


CHANGEABLE = frozenset({Item.BUDGET})
"""What may stand otherwise at the next look without any fault: the account is used meanwhile."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """What was found of a study, item by item."""

    study_id: str
    manifest_digest: str
    items: Mapping[Item, ItemEvidence]

    @property
    def is_ready(self) -> bool:
        """Whether every item holds."""
        return all(found.holds for found in self.items.values())

    def document(self) -> dict[str, Any]:
        """The file's content, its own digest included."""
        body = {
            "schema": SCHEMA,
            "study_id": self.study_id,
            "manifest_digest": self.manifest_digest,
            "ready": self.is_ready,
            "items": [
                {
                    "item": item.value,
                    "holds": found.holds,
                    "says": found.says,
                    "evidence": found.evidence,
                    "evidence_digest": found.digest,
                }
                for item, found in self.items.items()
            ],
        }
        return {**body, "readiness_digest": sha256(canonical_json(body)).hex()}

    def keep(self, folder: Path) -> None:
        """Write the file into the frozen study's `folder`, in place of an earlier one. Raises BadInput."""
        write_atomically(folder / READINESS_NAME, canonical_json(self.document()))


def needs_readiness(plan: PlanFile) -> bool:
    """Whether the plan is a paid study: a route with a price to an address of its own, and no waiver.

    An agent that is started for the collection costs nothing: its price is play money.
    """
    paid = any(isinstance(route.price, TokenPricesPlan) and route.base_url is not None for route in plan.routes)
    return paid and plan.study.readiness == "required"


async def assess(services: Services, built: BuiltStudy, folder: Path, now: datetime) -> Readiness:
    """Gather the evidence of every item; `built` is fresh from the services. Nothing is sent to a provider.

    Raises ServiceFailed and ServiceRefused.
    """
    items = {
        Item.MANIFEST: manifest(built),
        Item.PACKETS: packets(built),
        Item.COMPARATORS: await comparators(services, built),
        Item.PROBES: await probes(services, built, folder),
        Item.PRICES: prices(built, now),
        Item.BUDGET: await budget(services, built),
        Item.SCORING: scoring(built),
    }
    return Readiness(built.manifest.study_id, built.manifest.digest.hex(), items)


def load_readiness(folder: Path, of: Manifest) -> Mapping[str, Any]:
    """What the folder's readiness file claims of the study `of`.

    Raises NotReady where there is none, where it was altered, and where it is another study's.
    """
    path = folder / READINESS_NAME
    remedy = f"run 'countersign study check {folder}', or freeze study.readiness = \"waived\""
    if not path.is_file():
        raise NotReady(f"a paid study needs its readiness, and {path} does not exist: {remedy}")
    try:
        claimed: dict[str, Any] = json.loads(read_bytes(path))
        body = {key: value for key, value in claimed.items() if key != "readiness_digest"}
        intact = claimed["readiness_digest"] == sha256(canonical_json(body)).hex() and claimed["schema"] == SCHEMA
        intact = intact and _digests_hold(claimed["items"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise NotReady(f"{path} is not a readiness file: {remedy}") from None
    if not intact:
        raise NotReady(f"{path} does not have the digests that it states: {remedy}")
    if claimed["manifest_digest"] != of.digest.hex():
        raise NotReady(f"{path} is of study {claimed['study_id']}, this is {of.study_id}: {remedy}")
    return claimed


async def require_ready(
    services: Services, built: BuiltStudy, folder: Path, claimed: Mapping[str, Any], now: datetime
) -> None:
    """Require that every item holds now, on the evidence that the file claims.

    Raises NotReady, which names the first item that does not.
    """
    found = await assess(services, built, folder, now)
    digests = {one["item"]: one["evidence_digest"] for one in claimed["items"]}
    for item, evidence in found.items.items():
        if not evidence.holds:
            raise NotReady(f"not ready: {item.value}: {evidence.says}: see 'countersign study check {folder}'")
        if item not in CHANGEABLE and digests.get(item.value) != evidence.digest:
            raise NotReady(
                f"not ready: {item.value}: the evidence is not what readiness.json claims: run"
                f" 'countersign study check {folder}' again"
            )


def _digests_hold(items: Sequence[Mapping[str, Any]]) -> bool:
    return all(sha256(canonical_json(one["evidence"])).hex() == one["evidence_digest"] for one in items)
