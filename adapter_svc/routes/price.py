"""What a call may cost and what it did cost: integers only (design/ledger.md, Reserve and RecordReceipt).

The bound takes the request's bytes as an upper bound of its input tokens: a conservative heuristic, not a proof
about a provider's tokenizer. A provider that bills more is recorded in full by the ledger.
"""

from dataclasses import dataclass
from decimal import Decimal

from adapter_svc.admission import Usage, read_billing
from adapter_svc.routes.profile import FreePrice, Route, TokenPrices
from countersign.kit.money import NANOS_PER_UNIT, MoneyError, text_to_nanos_rounded_up

PRICED_BOUND = "PRICED_BOUND"
FREE_ROUTE = "FREE_ROUTE"
PROVIDER_REPORTED = "PROVIDER_REPORTED"
PRICED_USAGE = "PRICED_USAGE"

_TOKENS_PER_PRICE = 1_000_000
_FRACTION_DIGITS = 15
"""Nano-units per million tokens: an exact cost has at most nine and six decimal places."""


@dataclass(frozen=True, slots=True)
class Bound:
    """What to reserve, in nano-units; `basis` is a name of the ledger's AmountBasis."""

    nanos: int
    basis: str
    price_table_digest: bytes


@dataclass(frozen=True, slots=True)
class Cost:
    """What an answer cost, as decimal text; `basis` is a name of the ledger's CostBasis, both empty where unknown."""

    basis: str
    amount_text: str

    @property
    def is_known(self) -> bool:
        """Whether there is an amount to charge."""
        return self.basis != ""


UNKNOWN_COST = Cost("", "")


def reservation_bound(route: Route, request: bytes) -> Bound:
    """The most that sending `request` may cost by the route's prices, rounded up to a nano-unit."""
    if isinstance(route.price, FreePrice):
        return Bound(0, FREE_ROUTE, b"")
    bound = len(request) * route.price.dearest_input_nanos + route.output_cap * route.price.output_nanos
    return Bound(-(-bound // _TOKENS_PER_PRICE), PRICED_BOUND, route.price.digest)


def cost_of_answer(route: Route, body: bytes) -> Cost:
    """The charge for a 2xx answer, admitted or not: reported where the route charges that, else usage x price.

    Unknown where the evidence is absent, unreadable or contradicts itself. A free route that is billed all the same
    gives the bill, so that the ledger records it in full.
    """
    billing = read_billing(body, route.wire_format, streamed=route.streamed)
    if "cost" in billing.usage.invalid and (route.charge_reported_cost or isinstance(route.price, FreePrice)):
        return UNKNOWN_COST
    if isinstance(route.price, FreePrice):
        return _cost_of_free_answer(billing.reported_cost)
    if route.charge_reported_cost and billing.reported_cost is not None:
        return _reported(billing.reported_cost)
    return _cost_by_usage(route.price, billing.usage)


def _cost_of_free_answer(reported: str | None) -> Cost:
    cost = _reported("0" if reported is None else reported)
    return Cost(FREE_ROUTE, "0") if cost.is_known and Decimal(cost.amount_text) == 0 else cost


def _reported(text: str) -> Cost:
    """The provider's text as it spelled it, where it is an amount that is not negative."""
    try:
        text_to_nanos_rounded_up(text)
    except MoneyError:
        return UNKNOWN_COST
    return UNKNOWN_COST if Decimal(text) < 0 else Cost(PROVIDER_REPORTED, text)


def _cost_by_usage(prices: TokenPrices, usage: Usage) -> Cost:
    if usage.input_tokens is None or usage.output_tokens is None or not _is_consistent(usage):
        return UNKNOWN_COST
    cached, written = usage.cached_tokens or 0, usage.cache_write_tokens or 0
    exact = (
        (usage.input_tokens - cached - written) * prices.input_nanos
        + cached * prices.cached_input_nanos
        + written * prices.cache_write_nanos
        + usage.output_tokens * prices.output_nanos
    )
    units, rest = divmod(exact, NANOS_PER_UNIT * _TOKENS_PER_PRICE)
    fraction = f"{rest:0{_FRACTION_DIGITS}d}".rstrip("0")
    return Cost(PRICED_USAGE, f"{units}.{fraction}" if fraction else str(units))


def _is_consistent(usage: Usage) -> bool:
    """Whether the classes are disjoint and sum: some servers leave reasoning out of the output but count it in the
    total. A count that was there and unreadable, or a part above its whole, makes the rest no bill.
    """
    counted = (usage.input_tokens or 0) + (usage.output_tokens or 0)
    from_caches = (usage.cached_tokens or 0) + (usage.cache_write_tokens or 0)
    parts_fit = from_caches <= (usage.input_tokens or 0) and (usage.reasoning_tokens or 0) <= (usage.output_tokens or 0)
    return not set(usage.invalid) - {"cost"} and usage.total_tokens in (None, counted) and parts_fit
