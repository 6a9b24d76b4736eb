"""Opening accounts and changing what is authorised (design/ledger.md, Objects)."""

import abc
from dataclasses import dataclass
from typing import Any, ClassVar

from msgspec.structs import replace

from countersign.kit.money import MAX_NANOS, Money
from ledger_svc import errors
from ledger_svc.budgets import Account
from ledger_svc.commands import checks
from ledger_svc.commands.base import earlier_answer, inputs_digest
from ledger_svc.journal import EntryKind
from ledger_svc.workspace import RequestRecord, Wanted, Workspace


@dataclass(frozen=True, slots=True)
class Opened:
    """An account or a study is open."""

    replayed: bool


@dataclass(frozen=True, slots=True)
class Recorded:
    """A grant or prior spend is recorded; `total` is the sum of its kind when it was."""

    replayed: bool
    total: Money


@dataclass(frozen=True, slots=True)
class OpenAccount:
    """Opens an account with no budget. Raises AlreadyExistsError where it is open in another currency."""

    request_id: str
    account_id: str
    currency: str
    opened_by: str

    def __post_init__(self) -> None:
        checks.check_id("request_id", self.request_id)
        checks.check_id("account_id", self.account_id)
        checks.check_currency("currency_code", self.currency)
        checks.check_id("opened_by", self.opened_by)

    def wanted(self) -> Wanted:
        """The account and the request id."""
        return Wanted(account_ids=frozenset({self.account_id}), request_ids=frozenset({self.request_id}))

    def decide(self, book: Workspace) -> Opened:
        """Open the account, or answer as before."""
        inputs = {"account_id": self.account_id, "currency": self.currency, "opened_by": self.opened_by}
        digest = inputs_digest(EntryKind.ACCOUNT_OPENED, inputs)
        if earlier_answer(book, self.request_id, digest) is not None:
            return Opened(replayed=True)
        existing = book.find_account(self.account_id)
        if existing is not None and existing.currency != self.currency:
            raise errors.AlreadyExistsError("the account is open in another currency", account_id=self.account_id)
        if existing is not None:
            return Opened(replayed=True)
        account = Account(self.account_id, self.currency)
        book.post(account, EntryKind.ACCOUNT_OPENED, {**inputs, "request_id": self.request_id})
        book.remember(RequestRecord(self.request_id, digest, 0))
        return Opened(replayed=False)


@dataclass(frozen=True, slots=True)
class _Recording(abc.ABC):
    """What granting and prior spend have in common: an amount, who and why, under a request id."""

    request_id: str
    account_id: str
    amount: Money
    by: str
    reason: str

    by_field: ClassVar[str] = "by"

    def __post_init__(self) -> None:
        checks.check_id("request_id", self.request_id)
        checks.check_id("account_id", self.account_id)
        checks.check_amount("amount", self.amount, least_nanos=1)
        checks.check_id(self.by_field, self.by)
        checks.check_text("reason", self.reason)

    def wanted(self) -> Wanted:
        """The account and the request id."""
        return Wanted(account_ids=frozenset({self.account_id}), request_ids=frozenset({self.request_id}))

    def _inputs(self) -> dict[str, Any]:
        return {
            "account_id": self.account_id,
            "amount_nanos": self.amount.nanos,
            "by": self.by,
            "currency": self.amount.currency,
            "reason": self.reason,
        }

    def _decide(self, book: Workspace, kind: EntryKind) -> Recorded:
        inputs = self._inputs()
        digest = inputs_digest(kind, inputs)
        earlier = earlier_answer(book, self.request_id, digest)
        if earlier is not None:
            return Recorded(True, Money(self.amount.currency, earlier.answer_nanos))
        before = book.account(self.account_id)
        account, total_nanos = self._added(before, before.nanos_of(self.amount))
        book.post(account, kind, {**inputs, "request_id": self.request_id})
        book.remember(RequestRecord(self.request_id, digest, total_nanos))
        return Recorded(False, Money(account.currency, total_nanos))

    @abc.abstractmethod
    def _added(self, account: Account, nanos: int) -> tuple[Account, int]:
        """The account with the amount added, and the new sum of its kind."""


@dataclass(frozen=True, slots=True)
class GrantBudget(_Recording):
    """Adds a grant to what is authorised. Raises UnknownAccountError, CurrencyMismatchError or InvalidAmountError."""

    by_field: ClassVar[str] = "granted_by"

    def decide(self, book: Workspace) -> Recorded:
        """Add the grant, or answer as before."""
        return self._decide(book, EntryKind.BUDGET_GRANTED)

    def _added(self, account: Account, nanos: int) -> tuple[Account, int]:
        total_nanos = account.granted_nanos + nanos
        if total_nanos > MAX_NANOS:
            raise errors.InvalidAmountError("the grants would be beyond 9.2 billion units", field="amount")
        return replace(account, granted_nanos=total_nanos), total_nanos


@dataclass(frozen=True, slots=True)
class RecordPriorSpend(_Recording):
    """Records spend from before the ledger, in full even where it is above the grants.

    Raises UnknownAccountError, CurrencyMismatchError or InvalidAmountError.
    """

    by_field: ClassVar[str] = "recorded_by"

    def decide(self, book: Workspace) -> Recorded:
        """Record the spend, or answer as before."""
        return self._decide(book, EntryKind.PRIOR_SPEND_RECORDED)

    def _added(self, account: Account, nanos: int) -> tuple[Account, int]:
        if not account.can_record(nanos):
            raise errors.InvalidAmountError("the spend would be beyond 9.2 billion units", field="amount")
        total_nanos = account.prior_spend_nanos + nanos
        return replace(account, prior_spend_nanos=total_nanos), total_nanos
