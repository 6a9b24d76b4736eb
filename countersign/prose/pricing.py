"""The cost of a run whose harness states none: usage times the frozen prices (design/native-harness.md, section 7)."""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

from countersign.adapter.v1.adapter_pb2 import Usage
from countersign.prose.codes import Code, ProseError
from countersign.prose.settings import CURRENCY, HarnessName
from countersign.study.errors import StudyError
from countersign.study.price_snapshot import TOKENS_PER_PRICE, PriceEntry, PriceSnapshot, load_snapshot

_DIGITS: Final = 15
"""Of a nano-dollar for a million tokens, behind the point: no product has more."""
PROVIDERS: Final = {
    HarnessName.CLAUDE: "anthropic",
    HarnessName.CODEX: "openai",
    HarnessName.AGENTS_SDK: "openai",
    HarnessName.MOCK: "openai",
}
"""Whose prices hold. The others are left out: OMP and pi may change the model within a run, and state their cost;
Gemini CLI's counts do not say how many tokens of thought there were, nor always which of several models had them."""


@dataclass(frozen=True, slots=True)
class Priced:
    """An amount in US dollars, exact, as decimal text; or None, and why there is none."""

    amount: str | None
    trouble: str | None = None


class PriceTable:
    """The prices of one provider in a snapshot."""

    def __init__(self, snapshot: PriceSnapshot, provider: str | None) -> None:
        self._snapshot = snapshot
        self._provider = provider

    @property
    def source(self) -> str:
        """Where the prices are from, with the snapshot's digest."""
        return self._snapshot.source

    def price(self, model: str, usage: Usage) -> Priced:
        """What `usage` of `model` costs; without an amount wherever that is not certain."""
        if self._provider is None:
            return Priced(None, "this harness's usage and prices cannot be brought together")
        try:
            entry = self._snapshot.entry(self._provider, model)
        except StudyError as error:
            return Priced(None, error.message)
        trouble = _why_not(entry, usage)
        return Priced(None, trouble) if trouble else Priced(_decimal(_cost(entry, usage)))


def load_table(path: Path, harness: HarnessName) -> PriceTable:
    """The prices at `path` that hold for a harness. Raises ProseError, CONFIG_INVALID, where it is no snapshot."""
    try:
        snapshot = load_snapshot(path)
    except StudyError as error:
        raise ProseError(Code.CONFIG_INVALID, error.message) from None
    if snapshot.document.get("currency") != CURRENCY:
        raise ProseError(Code.CONFIG_INVALID, f"the prices are not in {CURRENCY}")
    return PriceTable(snapshot, PROVIDERS.get(harness))


def _why_not(entry: PriceEntry, usage: Usage) -> str | None:
    if not usage.HasField("input_tokens") or not usage.HasField("output_tokens"):
        return "the stream does not say how many tokens there were"
    if usage.cached_input_tokens + usage.cache_write_tokens > usage.input_tokens:
        return "the tokens that the stream reports contradict each other"
    if usage.reasoning_tokens > usage.output_tokens:
        return "the tokens that the stream reports contradict each other"
    if entry.tier_starts_at is not None and usage.input_tokens >= entry.tier_starts_at:
        return "large requests of this model are dearer, and the stream does not say how large each one was"
    return None


def _cost(entry: PriceEntry, usage: Usage) -> Fraction:
    """Exact dollars; a class of input without a price of its own has the input's (as for a route's calls)."""
    fresh = Fraction(entry.prices["input_per_million"])
    cached = Fraction(entry.prices.get("cached_input_per_million", fresh))
    written = Fraction(entry.prices.get("cache_write_per_million", fresh))
    plain_tokens = usage.input_tokens - usage.cached_input_tokens - usage.cache_write_tokens
    per_million = plain_tokens * fresh + usage.cached_input_tokens * cached + usage.cache_write_tokens * written
    per_million += usage.output_tokens * Fraction(entry.prices["output_per_million"])
    return per_million / TOKENS_PER_PRICE


def _decimal(amount: Fraction) -> str:
    """`amount` as decimal text, rounded up at the last digit that a price can reach."""
    scaled = -(-amount.numerator * 10**_DIGITS // amount.denominator)
    whole, rest = divmod(scaled, 10**_DIGITS)
    fraction = f"{rest:0{_DIGITS}d}".rstrip("0")
    return f"{whole}.{fraction}" if fraction else str(whole)
