"""Handshakes: one short episode per route, a study of its own in the ledger (design/study.md, Readiness).

An episode of one call shows that a route answers, as whom it said it would, in the form that is admitted, and with a
bill that can be recorded. The case is the route's first planned one, cut to one call.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from countersign.environment.v1 import environment_pb2 as env
from countersign.kit.canonical import canonical_json, sha256
from countersign.kit.money import Money, nanos_to_text
from countersign.kit.money_wire import to_wire
from countersign.ledger.v1 import ledger_pb2 as ledger
from countersign.study.built import BuiltStudy
from countersign.study.cases import Builders, build_case
from countersign.study.collection import belongs
from countersign.study.errors import BadRecord
from countersign.study.identities import Identity, world_index
from countersign.study.prices import call_bound_nanos
from countersign.study.records import COMPLETED, RECORDS_FOLDER, STOPPED, RecordStore
from countersign.study.routes import wire_route
from countersign.study.runner import EpisodeOrder, verify_record
from countersign.study.services import Services, ask

SCHEMA = "countersign.probe/1"
PROBE_FOLDER = "probe"
ACTOR = "countersign study check"
"""Who opens the probes' study, in the ledger's journal."""


@dataclass(frozen=True, slots=True)
class ProbeStudy:
    """The handshakes of a study: one order for each route, and the most that all of them can cost."""

    account_id: str
    study_id: str
    digest: bytes
    cap: Money
    call_ceiling: Money
    orders: tuple[EpisodeOrder, ...]

    def store(self, folder: Path) -> RecordStore:
        """Their records; `folder` is the frozen study's."""
        return RecordStore(folder / PROBE_FOLDER / RECORDS_FOLDER)


async def build_probes(services: Builders, built: BuiltStudy, base_urls: Mapping[str, str]) -> ProbeStudy:
    """The handshakes of `built`, each packet audited. Raises as building a case does."""
    first: dict[str, Identity] = {}
    for identity in built.identities:
        first.setdefault(identity.route, identity)
    cases = {
        route.name: await build_case(
            services,
            first[route.name].case,
            one_call(built.cases[first[route.name].case].definition),
            [route.input_limit_bytes],
        )
        for route in built.plan.routes
        if route.name in first
    }
    bounds = [call_bound_nanos(route) for route in built.plan.routes if route.name in cases]
    study_id = f"{built.manifest.study_id}-probe"
    digest = sha256(
        canonical_json(
            {
                "schema": SCHEMA,
                "study_id": study_id,
                "manifest_digest": built.manifest.digest.hex(),
                "cap": nanos_to_text(sum(bounds)),
                "packets": {name: case.packet_digest.hex() for name, case in cases.items()},
            }
        )
    )
    currency = built.plan.account.currency
    templates = {template.name: template for template in built.plan.templates}
    orders = tuple(
        EpisodeOrder(
            study_id=study_id,
            manifest_digest=digest.hex(),
            currency=currency,
            identity=first[route.name],
            environment=templates[first[route.name].template].environment,
            case=cases[route.name],
            world_index=world_index(templates[first[route.name].template], first[route.name].world),
            route=wire_route(route, base_urls[route.name]),
        )
        for route in built.plan.routes
        if route.name in cases
    )
    ceiling = Money(currency, max(bounds, default=0))
    return ProbeStudy(built.plan.account.id, study_id, digest, Money(currency, sum(bounds)), ceiling, orders)


def one_call(definition: env.CaseDefinition) -> env.CaseDefinition:
    """The case cut to one call of the model after the operator's prefix."""
    cut = env.CaseDefinition()
    cut.CopyFrom(definition)
    contract = getattr(cut.contract, str(cut.contract.WhichOneof("kind")))
    contract.max_calls = len(definition.operator_prefix) + 1
    return cut


async def open_probes(services: Services, probes: ProbeStudy) -> None:
    """Open the probes' study in the ledger, once, capped at what they can cost. Raises as `ask` does."""
    request = ledger.OpenStudyRequest(
        request_id=f"open-study:{probes.study_id}",
        account_id=probes.account_id,
        study_id=probes.study_id,
        cap=to_wire(probes.cap),
        call_ceiling=to_wire(probes.call_ceiling),
        max_in_flight=1,
        manifest_digest=probes.digest,
        opened_by=ACTOR,
    )
    await ask("ledger", services.ledger.OpenStudy, request)


async def probe_evidence(services: Services, probes: ProbeStudy, folder: Path) -> list[dict[str, Any]]:
    """For each route what its handshake shows, its record verified anew against the ledger's receipts.

    `state` is `verified` where the route passed, else one line about what is missing.
    """
    store = probes.store(folder)
    return [await _evidence(services, order, store) for order in probes.orders]


async def _evidence(services: Services, order: EpisodeOrder, store: RecordStore) -> dict[str, Any]:
    answer: dict[str, Any] = {"route": order.identity.route, "study_id": order.study_id}
    try:
        record = store.read(order.identity.episode_id)
    except BadRecord as error:
        return {**answer, "state": error.message}
    if record is None or not belongs(record, order):
        return {**answer, "state": "not probed"}
    receipts = [
        {name: call[name] for name in ("call_id", "attempt", "request_digest", "response_digest", "accounted")}
        for call in record["calls"]
    ]
    return {**answer, "receipts": receipts, "state": await _state(services, order, record)}


async def _state(services: Services, order: EpisodeOrder, record: Mapping[str, Any]) -> str:
    if record["status"] == STOPPED:
        return f"stopped ({record['stop_category']})"
    verification = await verify_record(services, order, record)
    if not verification["agrees"]:
        return f"its record differs from its receipts in {verification['differences'][0]['field']}"
    return "verified" if record["status"] == COMPLETED else f"answers, but inadmissibly ({record['reason']})"
