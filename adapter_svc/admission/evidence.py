"""What a chat_completions body says of tokens, cost and identity, and its message's own bytes.

Read whatever the verdict: usage absent is not usage zero, and a number's spelling is kept
(design/ledger.md, RecordReceipt).
"""

from dataclasses import dataclass

import msgspec

from adapter_svc.admission.limits import DEFAULT_LIMITS, Limits
from adapter_svc.admission.strict_json import JsonValue, read_strict
from adapter_svc.admission.verdict import Continuation, Inadmissible, Reason, ServedIdentity, Usage
from countersign.kit.canonical import sha256

_COUNTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "input_tokens": (("prompt_tokens",),),
    "output_tokens": (("completion_tokens",),),
    "total_tokens": (("total_tokens",),),
    "cached_tokens": (
        ("prompt_tokens_details", "cached_tokens"),
        ("prompt_cache_hit_tokens",),
        ("num_cached_tokens",),
        ("cached_tokens",),
    ),
    "reasoning_tokens": (("completion_tokens_details", "reasoning_tokens"),),
}
"""Where each count stands under `usage`; the first place that has one wins (OpenAI, DeepSeek, Mistral,
z.ai).
"""
_MAX_COUNT = 2**63 - 1


class _RawUsage(msgspec.Struct):
    cost: msgspec.Raw


class _RawBodyUsage(msgspec.Struct):
    usage: _RawUsage


class _RawChoice(msgspec.Struct):
    message: msgspec.Raw


class _RawBodyMessage(msgspec.Struct):
    choices: tuple[_RawChoice]


_usage_decoder = msgspec.json.Decoder(_RawBodyUsage)
_message_decoder = msgspec.json.Decoder(_RawBodyMessage)


def read_served(body: dict[str, JsonValue]) -> ServedIdentity:
    """The names that the body gives for itself."""
    return ServedIdentity(model=_text(body.get("model")), provider_name=_text(body.get("provider")))


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None


@dataclass(frozen=True, slots=True)
class Billing:
    """What a body says that its answer took: tokens, and the cost as spelled, None where it gives none."""

    usage: Usage
    reported_cost: str | None


def read_billing(raw: bytes, limits: Limits = DEFAULT_LIMITS) -> Billing:
    """The billing evidence of a chat_completions body; empty where it is not a strict JSON object."""
    try:
        body = read_strict(raw, limits)
    except Inadmissible:
        return Billing(Usage(), None)
    return billing_of(body if isinstance(body, dict) else {}, raw, limits)


def billing_of(body: dict[str, JsonValue], raw: bytes, limits: Limits) -> Billing:
    """The billing evidence of `body`, which was read from `raw`."""
    cost = _cost_of(body, raw, limits)
    return Billing(_usage_of(body, cost), cost)


def _usage_of(body: dict[str, JsonValue], reported_cost: str | None) -> Usage:
    """The token counts of the body; unreadable ones are absent and named in `invalid`.

    `reported_cost` is what `_cost_of` found: a cost that is there and unreadable is named too.
    """
    usage = body.get("usage")
    if not isinstance(usage, dict):
        return Usage(invalid=() if usage is None else ("usage",))
    found = {name: _first_present(usage, places) for name, places in _COUNTS.items()}
    invalid = [name for name, value in found.items() if value is not None and _count(value) is None]
    if usage.get("cost") is not None and reported_cost is None:
        invalid.append("cost")
    return Usage(**{name: _count(value) for name, value in found.items()}, invalid=tuple(invalid))


def _first_present(usage: dict[str, JsonValue], places: tuple[tuple[str, ...], ...]) -> JsonValue:
    for place in places:
        value: JsonValue = usage
        for key in place:
            value = value.get(key) if isinstance(value, dict) else None
        if value is not None:
            return value
    return None


def _count(value: JsonValue) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= _MAX_COUNT else None


def _is_number(value: JsonValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cost_of(body: dict[str, JsonValue], raw: bytes, limits: Limits) -> str | None:
    """`usage.cost` as spelled in `raw` (OpenRouter reports it, in units of its account's currency).

    None where it is absent, not a number, longer than any amount is, or not the whole bill: under `is_byok` the
    gateway counts its own fee only and another provider bills the tokens.
    """
    usage = body.get("usage")
    if not isinstance(usage, dict) or not _is_number(usage.get("cost")) or usage.get("is_byok") not in (None, False):
        return None
    try:
        text = bytes(_usage_decoder.decode(raw).usage.cost).decode("ascii")
    except msgspec.DecodeError:
        return None
    return text if len(text) <= limits.cost_chars else None


def read_continuation(raw: bytes) -> Continuation:
    """The bytes of the only choice's message, exactly as they stand in `raw`.

    Raises Inadmissible `MALFORMED_JSON` where the second reader does not find them: no bytes, no action.
    """
    try:
        message = bytes(_message_decoder.decode(raw).choices[0].message)
    except msgspec.DecodeError:
        raise Inadmissible(Reason.MALFORMED_JSON, "/choices/0/message") from None
    return Continuation(message, sha256(message))
