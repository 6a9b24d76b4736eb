"""What comes before the first request: cases, audits, the manifest, the ledger's objects (design/study.md)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from countersign.kit.channel import call
from countersign.kit.money import Money
from countersign.kit.rpc_errors import ServiceError
from countersign.ledger.v1 import ledger_pb2, ledger_pb2_grpc
from countersign.study.cases import Builders, BuiltCase, build_cases
from countersign.study.errors import PacketRefused
from countersign.study.frozen_plan import plan_of
from countersign.study.identities import CaseKey, Identity, planned_identities, world_index
from countersign.study.ledger_objects import (
    account_available,
    open_account,
    open_study,
    study_calls,
    study_standing,
)
from countersign.study.manifest import Manifest, freeze, frozen_episodes, keep, load, load_if_any, require_same
from countersign.study.money_report import LedgerMoney
from countersign.study.plan_model import PlanFile
from countersign.study.prices import study_bound_nanos
from countersign.study.routes import wire_route
from countersign.study.runner import EpisodeOrder
from countersign.study.services import VERIFY_JOURNAL_SECONDS, Services, service_trouble


@dataclass(frozen=True, slots=True)
class BuiltStudy:
    """A frozen study with its cases built and audited; `is_new` where its manifest is not kept yet."""

    plan: PlanFile
    manifest: Manifest
    cases: Mapping[CaseKey, BuiltCase]
    identities: Sequence[Identity]
    is_new: bool

    @property
    def bound(self) -> Money:
        """The most that the study can cost."""
        return Money(self.plan.account.currency, study_bound_nanos(self.plan, self.cases, self.identities))

    def orders(self, base_urls: Mapping[str, str]) -> list[EpisodeOrder]:
        """Every planned episode in frozen order, its route at its address in `base_urls`."""
        routes = {route.name: wire_route(route, base_urls[route.name]) for route in self.plan.routes}
        templates = {template.name: template for template in self.plan.templates}
        return [
            EpisodeOrder(
                study_id=self.manifest.study_id,
                manifest_digest=self.manifest.digest.hex(),
                currency=self.plan.account.currency,
                identity=identity,
                environment=templates[identity.template].environment,
                case=self.cases[identity.case],
                world_index=world_index(templates[identity.template], identity.world),
                route=routes[identity.route],
            )
            for identity in self.identities
        ]


@dataclass(frozen=True, slots=True)
class PreparedStudy(BuiltStudy):
    """A frozen study that may be collected. `available` is what the account has."""

    available: Money


async def build(services: Builders, plan: PlanFile, folder: Path | None) -> BuiltStudy:
    """Build and audit every case of `plan` and freeze it; nothing is written. `folder` is where it is or will be kept.

    Raises StudyError, ManifestMismatch where `folder` keeps another study.
    """
    kept = None if folder is None else load_if_any(folder)
    identities = planned_identities(plan)
    cases = await build_cases(services, plan, identities)
    manifest = freeze(plan, cases, identities)
    if kept is not None:
        require_same(manifest, kept)
        manifest = kept
    return BuiltStudy(plan, manifest, cases, identities, kept is None)


async def rebuild(services: Builders, manifest: Manifest) -> BuiltStudy:
    """Build and audit every case of a frozen study again, from its manifest and amendments alone.

    Raises StudyError, PacketRefused where a packet or an episode is not as frozen.
    """
    plan = plan_of(manifest.document)
    identities = planned_identities(plan)
    cases = await build_cases(services, plan, identities)
    found, frozen = frozen_episodes(cases, identities), manifest.document["episodes"]
    for identity, one, other in zip(identities, found, frozen, strict=False):
        if one != other:
            raise PacketRefused(f"{identity} is not as frozen: its packet or its place in the order is another one now")
    if len(found) != len(frozen):
        raise PacketRefused(f"the manifest lists {len(frozen)} episodes, its plan has {len(found)}")
    return BuiltStudy(plan, manifest, cases, identities, is_new=False)


async def prepare(services: Services, plan: PlanFile, folder: Path) -> PreparedStudy:
    """Build and audit every case, keep the manifest in `folder`, open the ledger's objects. Nothing is sent.

    Raises StudyError where anything does not hold; the folder and the ledger are then as a later try needs them.
    """
    return await _open(services, await build(services, plan, folder), folder)


async def prepare_frozen(services: Services, folder: Path) -> PreparedStudy:
    """As `prepare`, for the study that `folder` keeps: no plan is needed."""
    return await _open(services, await rebuild(services, load(folder)), folder)


async def _open(services: Services, built: BuiltStudy, folder: Path) -> PreparedStudy:
    await open_account(services.ledger, built.plan)
    available = await account_available(services.ledger, built.plan.account.id)
    await open_study(services.ledger, built.plan, built.manifest)
    if built.is_new:
        keep(built.manifest, folder)
    return PreparedStudy(built.plan, built.manifest, built.cases, built.identities, built.is_new, available)


async def ledger_money(stub: ledger_pb2_grpc.LedgerServiceStub, manifest: Manifest) -> LedgerMoney:
    """What the ledger says of the manifest's study, its journal verified. Raises ServiceFailed and ServiceRefused."""
    account_id, study_id = manifest.document["account"]["id"], manifest.study_id
    standing = await study_standing(stub, account_id, study_id)
    calls = [call async for call in study_calls(stub, study_id)]
    return LedgerMoney(standing, calls, await _verified_journal(stub, account_id))


async def _verified_journal(
    stub: ledger_pb2_grpc.LedgerServiceStub, account_id: str
) -> ledger_pb2.VerifyJournalResponse | None:
    """The account's journal, recomputed by the ledger; None where this caller's role may not ask for that."""
    request = ledger_pb2.VerifyJournalRequest(account_id=account_id)
    try:
        return await call(stub.VerifyJournal, request, VERIFY_JOURNAL_SECONDS)
    except ServiceError as error:
        if error.reason == "PERMISSION_DENIED":
            return None
        raise service_trouble("ledger", error) from None
