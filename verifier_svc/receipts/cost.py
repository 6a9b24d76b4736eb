"""What a receipt cost, recomputed exactly (design/ledger.md, RecordReceipt)."""

import re
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from verifier_svc.receipts.verdicts import Decoded

NANOS_PER_UNIT = 10**9
TOKENS_PER_PRICE = 10**6
_DECIMAL = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([-+]?[0-9]+))?")
MAX_SPELLING = 64
"""The most characters of an amount's spelling; longer ones are not money."""
_MAX_MAGNITUDE = 400
"""A first digit beyond this power of ten, either way, is no amount of money; without it a short text could spell a
gigantic number."""
_MOST_NANOS = 2**63 - 1


class CostBasis(StrEnum):
    """How a call's cost was found."""

    PROVIDER_REPORTED = "PROVIDER_REPORTED"
    PRICED_USAGE = "PRICED_USAGE"
    FREE_ROUTE = "FREE_ROUTE"


@dataclass(frozen=True, slots=True)
class Price:
    """A route's frozen prices: currency units for a million tokens, as decimal text.

    Where a cache's price is empty, its tokens cost what other input costs.
    """

    input_per_million: str
    output_per_million: str
    cached_input_per_million: str = ""
    cache_write_per_million: str = ""


@dataclass(frozen=True, slots=True)
class _Rates:
    uncached_input: Fraction
    cache_read: Fraction
    cache_write: Fraction
    output: Fraction

    @property
    def dearest_input(self) -> Fraction:
        return max(self.uncached_input, self.cache_read, self.cache_write)


def exact_amount(text: str) -> Fraction | None:
    """The amount that `text` spells as a JSON number, None where it is not one or is absurdly long, large, fine or
    negative."""
    match = _DECIMAL.fullmatch(text) if len(text) <= MAX_SPELLING else None
    if match is None:
        return None
    sign, whole, fraction, power = match.groups()
    digits, exponent = int(whole + (fraction or "")), int(power or 0) - len(fraction or "")
    if abs(len(str(digits)) - 1 + exponent) > _MAX_MAGNITUDE:
        return None
    amount = digits * Fraction(10) ** exponent
    return None if sign and amount else amount


def rounded_up_nanos(amount: Fraction) -> int:
    """`amount` in nano-units, the next whole one where it is finer."""
    return -((-amount * NANOS_PER_UNIT) // 1)


def recomputed_nanos(basis: CostBasis, decoded: Decoded, price: Price | None) -> int | None:
    """The call's cost in nano-units on `basis`; None where the receipt does not say it: then it is
    unresolved, not zero."""
    if basis is CostBasis.FREE_ROUTE:
        return 0
    if basis is CostBasis.PROVIDER_REPORTED:
        amount = None if decoded.reported_cost is None else exact_amount(decoded.reported_cost)
        return None if amount is None else _money(amount)
    return None if price is None else _priced(decoded, price)


def bound_nanos(request_bytes: int, output_cap: int, price: Price | None) -> int | None:
    """What must be reserved for a request: each byte as a token of the dearest kind of input, and the whole output cap.

    None where the prices are no amounts (design/ledger.md, Reserve).
    """
    if price is None:
        return 0
    rates = _rates(price)
    if rates is None:
        return None
    total = request_bytes * rates.dearest_input + output_cap * rates.output
    return rounded_up_nanos(total / TOKENS_PER_PRICE)


def _rates(price: Price) -> _Rates | None:
    texts = (
        price.input_per_million,
        price.cached_input_per_million or price.input_per_million,
        price.cache_write_per_million or price.input_per_million,
        price.output_per_million,
    )
    amounts = [amount for amount in map(exact_amount, texts) if amount is not None]
    return _Rates(*amounts) if len(amounts) == len(texts) else None


def _priced(decoded: Decoded, price: Price) -> int | None:
    """Usage x price by class; None where a whole was not stated or the counts contradict one another."""
    tokens, rates = decoded.usage, _rates(price)
    if tokens is None or rates is None or not tokens.is_consistent:
        return None
    if tokens.uncached_input is None or tokens.output_tokens is None:
        return None
    total = (
        tokens.uncached_input * rates.uncached_input
        + (tokens.cache_read or 0) * rates.cache_read
        + (tokens.cache_write or 0) * rates.cache_write
        + tokens.output_tokens * rates.output
    )
    return _money(total / TOKENS_PER_PRICE)


def _money(amount: Fraction) -> int | None:
    """The amount in nano-units; None for more than an account can hold."""
    nanos = rounded_up_nanos(amount)
    return nanos if nanos <= _MOST_NANOS else None
