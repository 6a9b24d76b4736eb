"""Opening studies (design/ledger.md, Objects)."""

from dataclasses import dataclass
from typing import Any

from countersign.kit.money import Money
from ledger_svc import errors, limits
from ledger_svc.budgets import Account, Study
from ledger_svc.commands import checks
from ledger_svc.commands.accounts import Opened
from ledger_svc.commands.base import earlier_answer, inputs_digest
from ledger_svc.journal import EntryKind
from ledger_svc.workspace import RequestRecord, Wanted, Workspace


@dataclass(frozen=True, slots=True)
class OpenStudy:
    """Opens a study under an account; without a ceiling of its own, one call may reserve the whole cap.

    Raises UnknownAccountError, CurrencyMismatchError, or AlreadyExistsError where the study is open with other
    properties.
    """

    request_id: str
    account_id: str
    study_id: str
    cap: Money
    manifest_digest: bytes
    opened_by: str
    call_ceiling: Money | None = None
    max_in_flight: int = 1

    def __post_init__(self) -> None:
        checks.check_id("request_id", self.request_id)
        checks.check_id("account_id", self.account_id)
        checks.check_id("study_id", self.study_id)
        checks.check_amount("cap", self.cap, least_nanos=0)
        if self.call_ceiling is not None:
            checks.check_amount("call_ceiling", self.call_ceiling, least_nanos=0)
        checks.check_range("max_in_flight", self.max_in_flight, 1, limits.MAX_UINT32)
        checks.check_digest("manifest_digest", self.manifest_digest)
        checks.check_id("opened_by", self.opened_by)

    def wanted(self) -> Wanted:
        """The account, the study and the request id."""
        return Wanted(
            account_ids=frozenset({self.account_id}),
            study_ids=frozenset({self.study_id}),
            request_ids=frozenset({self.request_id}),
        )

    def decide(self, book: Workspace) -> Opened:
        """Open the study, or answer as before."""
        account = book.account(self.account_id)
        study = self._study(account)
        inputs = self._inputs(study)
        digest = inputs_digest(EntryKind.STUDY_OPENED, inputs)
        if earlier_answer(book, self.request_id, digest) is not None:
            return Opened(replayed=True)
        existing = book.find_study(self.study_id)
        if existing is not None and not existing.same_properties(study):
            raise errors.AlreadyExistsError("the study is open with other properties", study_id=self.study_id)
        if existing is not None:
            return Opened(replayed=True)
        book.put_study(study)
        book.post(account, EntryKind.STUDY_OPENED, {**inputs, "request_id": self.request_id})
        book.remember(RequestRecord(self.request_id, digest, 0))
        return Opened(replayed=False)

    def _study(self, account: Account) -> Study:
        return Study(
            study_id=self.study_id,
            account_id=self.account_id,
            cap_nanos=account.nanos_of(self.cap),
            call_ceiling_nanos=account.nanos_of(self.cap if self.call_ceiling is None else self.call_ceiling),
            max_in_flight=self.max_in_flight,
            manifest_digest=self.manifest_digest,
            opened_sequence=account.head_sequence + 1,
        )

    def _inputs(self, study: Study) -> dict[str, Any]:
        return {
            "account_id": study.account_id,
            "call_ceiling_nanos": study.call_ceiling_nanos,
            "cap_nanos": study.cap_nanos,
            "manifest_digest": study.manifest_digest.hex(),
            "max_in_flight": study.max_in_flight,
            "opened_by": self.opened_by,
            "study_id": study.study_id,
        }
