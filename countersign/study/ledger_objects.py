"""A study's objects in the ledger: opened once, asked for again without effect (design/ledger.md, Objects)."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from countersign.kit.channel import call
from countersign.kit.money import Money, text_to_nanos_exact
from countersign.kit.money_wire import from_wire, to_wire
from countersign.kit.rpc_errors import ServiceError
from countersign.ledger.v1 import ledger_pb2 as ledger
from countersign.ledger.v1 import ledger_pb2_grpc
from countersign.study.errors import GrantConflict, ServiceRefused, StudyError
from countersign.study.manifest import Manifest
from countersign.study.plan_model import PlanFile
from countersign.study.services import CALL_SECONDS, ask, service_trouble

ACTOR = "countersign collect"
"""Who opens and grants, in the ledger's journal."""

PAGE_SIZE = 1000


@dataclass(frozen=True, slots=True)
class StudyStanding:
    """Where a study stands: whether a hold blocks it, how many calls are under way, and its balances."""

    blocked: bool
    reserved_count: int
    max_in_flight: int
    balances: ledger.Balances
    account: ledger.Balances


async def open_account(stub: ledger_pb2_grpc.LedgerServiceStub, plan: PlanFile) -> None:
    """Open the plan's account and make its grant, once: the request ids derive from the plan.

    Raises GrantConflict where the ledger knows them otherwise, ServiceFailed and ServiceRefused.
    """
    account = plan.account
    try:
        await call(
            stub.OpenAccount,
            ledger.OpenAccountRequest(
                request_id=f"open-account:{account.id}",
                account_id=account.id,
                currency_code=account.currency,
                opened_by=ACTOR,
            ),
            CALL_SECONDS,
        )
        nanos = text_to_nanos_exact(account.grant)
        if nanos:
            await call(stub.GrantBudget, _grant(plan, nanos), CALL_SECONDS)
    except ServiceError as error:
        raise _conflict(plan, error) from None


async def open_study(stub: ledger_pb2_grpc.LedgerServiceStub, plan: PlanFile, manifest: Manifest) -> None:
    """Open the study under its manifest's digest, once. Raises as open_account does."""
    currency = plan.account.currency
    try:
        await call(
            stub.OpenStudy,
            ledger.OpenStudyRequest(
                request_id=f"open-study:{manifest.study_id}",
                account_id=plan.account.id,
                study_id=manifest.study_id,
                cap=to_wire(Money(currency, text_to_nanos_exact(plan.study.cap))),
                call_ceiling=to_wire(Money(currency, text_to_nanos_exact(plan.study.call_ceiling))),
                max_in_flight=plan.study.max_in_flight,
                manifest_digest=manifest.digest,
                opened_by=ACTOR,
            ),
            CALL_SECONDS,
        )
    except ServiceError as error:
        raise _conflict(plan, error) from None


async def account_available(stub: ledger_pb2_grpc.LedgerServiceStub, account_id: str) -> Money:
    """What the account may still reserve. Raises ServiceFailed and ServiceRefused."""
    request = ledger.SummarizeRequest(account_id=account_id, page_size=1)
    return from_wire((await ask("ledger", stub.Summarize, request)).balances.available)


async def study_standing(stub: ledger_pb2_grpc.LedgerServiceStub, account_id: str, study_id: str) -> StudyStanding:
    """Where the study stands now. Raises ServiceFailed and ServiceRefused."""
    answer = await ask("ledger", stub.Summarize, ledger.SummarizeRequest(account_id=account_id, study_id=study_id))
    if not answer.studies:
        raise ServiceRefused(f"the ledger does not know study {study_id}: name the ledger that it was collected with")
    study = answer.studies[0]
    return StudyStanding(
        study.blocked, study.balances.reserved_count, study.max_in_flight, study.balances, answer.balances
    )


async def study_calls(stub: ledger_pb2_grpc.LedgerServiceStub, study_id: str) -> AsyncIterator[ledger.Call]:
    """Every attempt of the study in the order of its reservation. Raises ServiceFailed and ServiceRefused."""
    token = ""
    while True:
        request = ledger.ListCallsRequest(study_id=study_id, page_size=PAGE_SIZE, page_token=token)
        page = await ask("ledger", stub.ListCalls, request)
        for one in page.calls:
            yield one
        token = page.next_page_token
        if not token:
            return


def _grant(plan: PlanFile, nanos: int) -> ledger.GrantBudgetRequest:
    return ledger.GrantBudgetRequest(
        request_id=f"grant:{plan.account.id}:{plan.name}",
        account_id=plan.account.id,
        amount=to_wire(Money(plan.account.currency, nanos)),
        granted_by=ACTOR,
        reason=f"the grant of plan {plan.name}",
    )


def _conflict(plan: PlanFile, error: ServiceError) -> StudyError:
    account = plan.account
    if error.reason in ("ALREADY_EXISTS", "CURRENCY_MISMATCH"):
        return GrantConflict(
            f"the ledger knows account {account.id} or the study with other properties ({error.message}):"
            " use its currency, or another account.id"
        )
    if error.reason == "REQUEST_ID_CONFLICT":
        return GrantConflict(
            f"the ledger has granted plan {plan.name} another amount than {account.grant} {account.currency}: restore"
            f" account.grant, and grant more with 'countersign ledger grant {account.id} AMOUNT'"
        )
    return service_trouble("ledger", error)
