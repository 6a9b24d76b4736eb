"""Leases that ended without a receipt or a hold (design/ledger.md, RecordReceipt, Hold, leases)."""

from dataclasses import dataclass

from ledger_svc import limits
from ledger_svc.calls import expire
from ledger_svc.workspace import Wanted, Workspace


def expire_overdue(book: Workspace, study_id: str | None) -> int:
    """Turn the loaded overdue reservations of one study, or of all, into holds; returns how many there were."""
    overdue = book.overdue(study_id)
    for call in overdue:
        book.post_call(call, expire(call, book.now))
    return len(overdue)


@dataclass(frozen=True, slots=True)
class ExpireOverdue:
    """The ledger's own sweep: at most `limits.MAX_SWEEP` overdue reservations become holds."""

    def wanted(self) -> Wanted:
        """A bounded number of overdue reservations of any study."""
        return Wanted(overdue_count=limits.MAX_SWEEP)

    def decide(self, book: Workspace) -> int:
        """Expire what is loaded; returns how many reservations became holds."""
        return expire_overdue(book, None)
