"""What comes before the first request: cases, audits, the manifest, the ledger's objects (design/study.md)."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from countersign.kit.channel import call
from countersign.kit.money import Money
from countersign.kit.rpc_errors import ServiceError
from countersign.ledger.v1 import ledger_pb2, ledger_pb2_grpc
from countersign.study.built import BuiltStudy, build, rebuild
from countersign.study.ledger_objects import (
    account_available,
    open_account,
    open_study,
    study_calls,
    study_standing,
)
from countersign.study.manifest import Manifest, keep, load
from countersign.study.money_report import LedgerMoney
from countersign.study.plan_model import PlanFile
from countersign.study.readiness import load_readiness, needs_readiness, require_ready
from countersign.study.services import VERIFY_JOURNAL_SECONDS, Services, service_trouble


@dataclass(frozen=True, slots=True)
class PreparedStudy(BuiltStudy):
    """A frozen study that may be collected. `available` is what the account has."""

    available: Money


async def prepare(services: Services, plan: PlanFile, folder: Path, now: datetime) -> PreparedStudy:
    """Build and audit every case, keep the manifest in `folder`, open the ledger's objects. Nothing is sent.

    A paid study must be ready, which is checked anew as of `now` (design/study.md, Readiness).
    Raises StudyError where anything does not hold; the folder and the ledger are then as a later try needs them.
    """
    return await _open(services, await build(services, plan, folder), folder, now)


async def prepare_frozen(services: Services, folder: Path, now: datetime) -> PreparedStudy:
    """As `prepare`, for the study that `folder` keeps: no plan is needed."""
    return await _open(services, await rebuild(services, load(folder)), folder, now)


async def _open(services: Services, built: BuiltStudy, folder: Path, now: datetime) -> PreparedStudy:
    claimed = load_readiness(folder, built.manifest) if needs_readiness(built.plan) else None
    await open_account(services.ledger, built.plan)
    if claimed is not None:
        await require_ready(services, built, folder, claimed, now)
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
