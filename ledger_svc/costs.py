"""What a receipt's cost is worth: a known amount, or nothing known (design/ledger.md, RecordReceipt)."""

from decimal import Decimal

from countersign.kit.money import MoneyError, text_to_nanos_rounded_up
from ledger_svc.calls import AmountBasis, Cost, CostBasis


def known_cost_nanos(cost: Cost, reserved_as: AmountBasis) -> int | None:
    """The cost rounded up to the next nano-unit, or None where it is not known.

    Missing, negative, non-finite and non-numeric are not known. Absent is zero only for a route that was reserved as
    free; a priced route does not become free because its receipt says so.
    """
    if cost.basis is CostBasis.UNSPECIFIED:
        return None
    if cost.basis is CostBasis.FREE_ROUTE:
        if reserved_as is not AmountBasis.FREE_ROUTE:
            return None
        if not cost.amount_text:
            return 0
    return _amount_nanos(cost.amount_text)


def _amount_nanos(text: str) -> int | None:
    try:
        nanos = text_to_nanos_rounded_up(text)
    except MoneyError:
        return None
    # Rounding up would turn a negative amount finer than a nano-unit into zero.
    return None if nanos <= 0 and Decimal(text) < 0 else nanos
