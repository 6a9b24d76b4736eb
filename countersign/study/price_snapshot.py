"""A price snapshot: token prices of many models, frozen in one file with its digest (design/admission.md, Routes).

The prices come from the package `genai-prices`, as installed: nothing is fetched. They are in USD per million tokens.
What the package says that a route's four prices cannot is refused by name, never approximated.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from countersign.kit.canonical import canonical_json, sha256
from countersign.study.errors import BadInput, BadPlan
from countersign.study.files import read_bytes

if TYPE_CHECKING:
    # Loaded where a snapshot is taken only: the other commands start a twelfth sooner.
    from genai_prices.types import ConditionalPrice, ModelInfo, ModelPrice, Provider

SCHEMA = "countersign.prices/1"
CURRENCY = "USD"
TOKENS_PER_PRICE = 1_000_000
PACKAGE = "genai-prices"

_PRICES = {
    "input_mtok": "input_per_million",
    "output_mtok": "output_per_million",
    "cache_read_mtok": "cached_input_per_million",
    "cache_write_mtok": "cache_write_per_million",
}
"""The package's names, and a route's."""
_EVERY_REQUEST = frozenset({"requests_kcount", "input_text_messages_kcount", "input_mchars", "output_reasoning_mtok"})
"""Units in which a text request is billed beside, or instead of, the four."""


class _Inexpressible(Exception):
    """The model's price is not four numbers; the message says why."""


@dataclass(frozen=True, slots=True)
class PriceEntry:
    """One model's prices. `tier_starts_at` is the number of input tokens from which dearer ones hold, None for none."""

    provider: str
    model: str
    prices: Mapping[str, str]
    tier_starts_at: int | None

    def to_json(self) -> dict[str, Any]:
        """The entry as the file holds it."""
        tier = {} if self.tier_starts_at is None else {"tier_starts_at": self.tier_starts_at}
        return {"provider": self.provider, "model": self.model, **self.prices, **tier}


@dataclass(frozen=True, slots=True)
class PriceSnapshot:
    """A snapshot as its file holds it; `digest` is the SHA-256 of the file's canonical JSON without the digest."""

    document: Mapping[str, Any]
    digest: bytes

    @property
    def source(self) -> str:
        """Where the prices are from: package, version, day, digest."""
        of = self.document["source"]
        return f"{of['package']} {of['version']} as of {self.document['as_of']}, snapshot {self.digest.hex()[:16]}"

    def entry(self, provider: str, model: str) -> PriceEntry:
        """The entry of one model. Raises BadPlan where there is none, with the reason where it was refused."""
        for one in self.document["entries"]:
            if (one["provider"], one["model"]) == (provider, model):
                given = {name: one[name] for name in _PRICES.values() if name in one}
                return PriceEntry(provider, model, given, one.get("tier_starts_at"))
        for one in self.document["refused"]:
            if (one["provider"], one["model"]) == (provider, model):
                raise BadPlan(
                    f"the snapshot has no price of {provider}/{model} ({one['why']}): write the price by hand"
                )
        raise BadPlan(f"the snapshot does not have {provider}/{model}: see its file for the names, or write the price")

    def to_bytes(self) -> bytes:
        """The file's content."""
        return canonical_json({**self.document, "digest": self.digest.hex()})


def take_snapshot(providers: frozenset[str], now: datetime) -> PriceSnapshot:
    """The prices in force at `now`, of the providers named, of all where none is.

    Raises BadInput for a provider that the package does not know.
    """
    from genai_prices.data_snapshot import get_snapshot

    known = get_snapshot().providers
    missing = sorted(providers - {provider.id for provider in known})
    if missing:
        names = ", ".join(provider.id for provider in known)
        raise BadInput(f"{PACKAGE} knows no provider {', '.join(missing)}, only {names}")
    chosen = [provider for provider in known if not providers or provider.id in providers]
    entries, refused = [], []
    for provider, model in _models(chosen):
        try:
            entries.append(_entry(provider, model, now).to_json())
        except _Inexpressible as reason:
            refused.append({"provider": provider.id, "model": model.id, "why": str(reason)})
    document = {
        "schema": SCHEMA,
        "source": {"package": PACKAGE, "version": version(PACKAGE)},
        "as_of": now.astimezone(UTC).date().isoformat(),
        "currency": CURRENCY,
        "entries": entries,
        "refused": refused,
    }
    return PriceSnapshot(document, sha256(canonical_json(document)))


def load_snapshot(path: Path) -> PriceSnapshot:
    """The snapshot at `path`. Raises BadInput where it is missing, no snapshot, or altered."""
    try:
        document = json.loads(read_bytes(path))
        claimed = bytes.fromhex(document.pop("digest"))
        intact = document["schema"] == SCHEMA and sha256(canonical_json(document)) == claimed
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise BadInput(f"{path} is not a price snapshot: make one with countersign prices") from None
    if not intact:
        raise BadInput(f"{path} does not have the digest that it states: it was altered")
    return PriceSnapshot(document, claimed)


def _models(providers: "list[Provider]") -> "Iterator[tuple[Provider, ModelInfo]]":
    for provider in sorted(providers, key=lambda one: one.id):
        for model in sorted(provider.models, key=lambda one: one.id):
            yield provider, model


def _entry(provider: "Provider", model: "ModelInfo", now: datetime) -> PriceEntry:
    from genai_prices.types import TieredPrices

    price = _in_force(model.prices, now)
    values = {name: value for name, value in vars(price).items() if value is not None}
    beside = sorted(_EVERY_REQUEST & values.keys())
    if beside:
        raise _Inexpressible(f"also billed by {', '.join(beside)}")
    if "input_mtok" not in values or "output_mtok" not in values:
        raise _Inexpressible("no price for both input and output tokens")
    tiers = [value.tiers[0].start for value in values.values() if isinstance(value, TieredPrices) and value.tiers]
    prices = {ours: _text(values[theirs]) for theirs, ours in _PRICES.items() if theirs in values}
    if not any(float(text) for text in prices.values()):
        raise _Inexpressible("free of charge: declare the route free")
    return PriceEntry(provider.id, model.id, prices, min(tiers, default=None))


def _in_force(prices: "ModelPrice | list[ConditionalPrice]", now: datetime) -> "ModelPrice":
    """The last one whose condition holds, as the package itself picks it."""
    from genai_prices.types import ModelPrice, TimeOfDateConstraint

    if isinstance(prices, ModelPrice):
        return prices
    if any(isinstance(one.constraint, TimeOfDateConstraint) for one in prices):
        raise _Inexpressible("the price depends on the time of day")
    active = [one.prices for one in prices if one.constraint is None or one.constraint.active(now)]
    if not active:
        raise _Inexpressible("no price is in force")
    return active[-1]


def _text(value: Any) -> str:
    from genai_prices.types import TieredPrices

    number = value.base if isinstance(value, TieredPrices) else value
    whole, _, fraction = f"{number:f}".partition(".")
    fraction = fraction.rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole
