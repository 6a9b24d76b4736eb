"""A route: a frozen profile of the way to one model (design/admission.md, Routes and admission control)."""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from types import MappingProxyType
from urllib.parse import SplitResult, quote, urlsplit

import httpx

from adapter_svc.admission import MAX_BODY_BYTES, Allowance, ExpectedIdentity, WireFormat
from adapter_svc.admission.formats import format_of
from adapter_svc.admission.limits import DEFAULT_LIMITS
from adapter_svc.admission.strict_json import JsonValue, read_strict
from adapter_svc.admission.verdict import Inadmissible
from adapter_svc.routes.errors import InvalidRoute
from countersign.kit.canonical import canonical_json, sha256
from countersign.kit.money import NANOS_PER_UNIT, MoneyError, text_to_nanos_exact

DEFAULT_INPUT_LIMIT_BYTES = 20_000
MAX_OUTPUT_CAP = 10_000_000
MAX_TIMEOUT_MILLIS = 3_600_000
MIN_NANOS_PER_MILLION = NANOS_PER_UNIT // 1000
"""A thousandth of a unit per million tokens: anything below, but zero, is a price per token by mistake."""
MAX_NANOS_PER_MILLION = 10_000 * NANOS_PER_UNIT

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REFUSED_OPTIONS: Mapping[WireFormat, frozenset[str]] = MappingProxyType(
    {
        WireFormat.CHAT_COMPLETIONS: frozenset(
            {"max_tokens", "max_completion_tokens", "messages", "model", "tool_choice", "tools"}
            | {"function_call", "functions", "n", "stream", "stream_options"}
        ),
        WireFormat.MESSAGES: frozenset(
            {"max_tokens", "messages", "model", "system", "tool_choice", "tools"}
            | {"stream", "mcp_servers", "container", "stop_sequences"}
        ),
        WireFormat.RESPONSES: frozenset(
            {"max_output_tokens", "input", "instructions", "model", "tool_choice", "tools"}
            | {"stream", "stream_options", "background", "conversation", "previous_response_id", "prompt", "store"}
        ),
        WireFormat.GENERATE_CONTENT: frozenset(
            {"contents", "systemInstruction", "system_instruction", "tools", "toolConfig", "tool_config"}
            | {"cachedContent", "cached_content", "generation_config"}
        ),
    }
)
"""By format: the members that the adapter sets, and those that would make the answer another than the one that is
judged, or keep a part of the conversation with the provider.
"""

_REFUSED_GENERATION_CONFIG = frozenset(
    {"maxOutputTokens", "max_output_tokens", "candidateCount", "candidate_count", "stopSequences", "stop_sequences"}
)


class OutputCapMember(StrEnum):
    """The request's member that carries the output cap."""

    MAX_TOKENS = "max_tokens"
    MAX_COMPLETION_TOKENS = "max_completion_tokens"


@dataclass(frozen=True, slots=True)
class FreePrice:
    """The route costs nothing."""


@dataclass(frozen=True, slots=True)
class TokenPrices:
    """Decimal text per million tokens, in units of the account's currency.

    Input that is read from a cache or written to one is priced as other input where its own price is empty.

    Raises InvalidRoute for text that is no amount, finer than a nano-unit, or implausible for a million tokens.
    """

    input_per_million: str
    output_per_million: str
    cached_input_per_million: str = ""
    cache_write_per_million: str = ""

    def __post_init__(self) -> None:
        if self.dearest_input_nanos + self.output_nanos == 0:
            raise InvalidRoute("a route without a price is declared free", field="price")

    @property
    def input_nanos(self) -> int:
        """Nano-units per million input tokens."""
        return _price_nanos(self.input_per_million, "input_per_million")

    @property
    def output_nanos(self) -> int:
        """Nano-units per million output tokens."""
        return _price_nanos(self.output_per_million, "output_per_million")

    @property
    def cached_input_nanos(self) -> int:
        """Nano-units per million input tokens that come from a cache."""
        return _price_nanos(self.cached_input_per_million or self.input_per_million, "cached_input_per_million")

    @property
    def cache_write_nanos(self) -> int:
        """Nano-units per million input tokens that go into a cache."""
        return _price_nanos(self.cache_write_per_million or self.input_per_million, "cache_write_per_million")

    @property
    def dearest_input_nanos(self) -> int:
        """Nano-units per million input tokens of the dearest kind: what a bound must reckon with."""
        return max(self.input_nanos, self.cached_input_nanos, self.cache_write_nanos)

    @property
    def digest(self) -> bytes:
        """SHA-256 of the canonical JSON of the prices that are given."""
        table = {one.name: getattr(self, one.name) for one in fields(self) if getattr(self, one.name)}
        return sha256(canonical_json(table))


def _price_nanos(text: str, name: str) -> int:
    try:
        nanos = text_to_nanos_exact(text)
    except MoneyError:
        raise InvalidRoute("write the price as a decimal number of at most nine places", field=name) from None
    if nanos != 0 and not MIN_NANOS_PER_MILLION <= nanos <= MAX_NANOS_PER_MILLION:
        raise InvalidRoute("a price is per million tokens: 0, or from 0.001 to 10000", field=name)
    return nanos


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Deadlines of one attempt: to be connected, from sent to the answer's head, and for the whole.

    Raises InvalidRoute for a deadline that is not positive, over an hour, or longer than the whole.
    """

    connect_millis: int = 10_000
    first_byte_millis: int = 120_000
    total_millis: int = 300_000

    def __post_init__(self) -> None:
        for limit in fields(self):
            if not 1 <= getattr(self, limit.name) <= min(self.total_millis, MAX_TIMEOUT_MILLIS):
                raise InvalidRoute("a timeout is positive and at most the total, at most an hour", field=limit.name)


@dataclass(frozen=True, slots=True)
class Route:
    """One way to one model. Holds the name of the key's variable, never the key.

    `base_url` goes up to and with the version. An empty `api_key_variable` means that no key is sent. With
    `charge_reported_cost` the provider's own figure is charged where it reports one. `output_cap` is in tokens.
    `request_options` is the JSON text of further members of the request. `streamed` asks for the answer as events.

    Raises InvalidRoute naming the field, and UnsupportedWireFormat.
    """

    name: str
    base_url: str
    wire_format: WireFormat
    model: str
    identity: ExpectedIdentity
    price: FreePrice | TokenPrices
    output_cap: int
    api_key_variable: str = ""
    charge_reported_cost: bool = False
    input_limit_bytes: int = DEFAULT_INPUT_LIMIT_BYTES
    timeouts: Timeouts = field(default_factory=Timeouts)
    allowances: frozenset[Allowance] = frozenset()
    request_options: bytes = b"{}"
    output_cap_member: OutputCapMember = OutputCapMember.MAX_TOKENS
    streamed: bool = False

    def __post_init__(self) -> None:
        format_of(self.wire_format, streamed=self.streamed)
        _require(self.name != "", "name a route", "name")
        _require(self.model != "", "name the model to ask for", "model")
        _require_address(self.base_url, bool(self.api_key_variable))
        variable_ok = not self.api_key_variable or _VARIABLE.fullmatch(self.api_key_variable) is not None
        _require(variable_ok, "name an environment variable, or none", "api_key_variable")
        _require(1 <= self.output_cap <= MAX_OUTPUT_CAP, f"from 1 to {MAX_OUTPUT_CAP} tokens", "output_cap")
        _require(
            1 <= self.input_limit_bytes <= MAX_BODY_BYTES, f"from 1 to {MAX_BODY_BYTES} bytes", "input_limit_bytes"
        )
        charges_nothing = self.charge_reported_cost and isinstance(self.price, FreePrice)
        _require(not charges_nothing, "a free route charges no reported cost", "charge_reported_cost")
        _read_options(self.wire_format, self.request_options)

    @property
    def options(self) -> MappingProxyType[str, JsonValue]:
        """The further members of the request."""
        return MappingProxyType(_read_options(self.wire_format, self.request_options))

    @property
    def endpoint(self) -> str:
        """Where requests are posted."""
        return f"{self.base_url.rstrip('/')}/{self._path}"

    @property
    def _path(self) -> str:
        match self.wire_format:
            case WireFormat.CHAT_COMPLETIONS:
                return "chat/completions"
            case WireFormat.MESSAGES:
                return "messages"
            case WireFormat.RESPONSES:
                return "responses"
            case WireFormat.GENERATE_CONTENT:
                method = "streamGenerateContent?alt=sse" if self.streamed else "generateContent"
                return f"models/{quote(self.model, safe='')}:{method}"


def _require(holds: bool, message: str, name: str) -> None:
    if not holds:
        raise InvalidRoute(message, field=name)


def _require_address(base_url: str, carries_key: bool) -> None:
    try:
        parts = urlsplit(base_url)
        host, port_ok = parts.hostname or "", parts.port is None or parts.port > 0
        _ = httpx.URL(base_url).host  # what the transport will make of it
    except (ValueError, httpx.InvalidURL):
        raise InvalidRoute("write the address as https://host/path", field="base_url") from None
    plain = base_url.isascii() and base_url.isprintable() and " " not in base_url
    addressed = parts.scheme in ("http", "https") and host != "" and port_ok
    _require(plain and addressed, "write the address as https://host/path", "base_url")
    _require(not _has_extras(base_url, parts), "no user, query or fragment in the address", "base_url")
    _require(
        not carries_key or parts.scheme == "https" or _is_loopback(host),
        "a key goes over https, or to this machine only",
        "base_url",
    )


def _has_extras(base_url: str, parts: SplitResult) -> bool:
    return parts.username is not None or parts.password is not None or "?" in base_url or "#" in base_url


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _read_options(wire_format: WireFormat, text: bytes) -> dict[str, JsonValue]:
    try:
        options = read_strict(text, DEFAULT_LIMITS)
    except Inadmissible:
        options = None
    if not isinstance(options, dict):
        raise InvalidRoute("write the options as one JSON object", field="request_options")
    refused = sorted(_REFUSED_OPTIONS[wire_format] & options.keys())
    _require(not refused, f"options may not set {', '.join(refused)}", "request_options")
    if wire_format is WireFormat.GENERATE_CONTENT:
        _require_generation_config(options.get("generationConfig", {}))
    return options


def _require_generation_config(config: JsonValue) -> None:
    """Its members stand beside the output cap (docs/formats.md, Conversation (generate_content))."""
    named = config.keys() & _REFUSED_GENERATION_CONFIG if isinstance(config, dict) else {"generationConfig"}
    _require(not named, f"options may not set {', '.join(sorted(named))} so", "request_options")
