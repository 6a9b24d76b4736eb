"""What a chat_completions body says of tokens, cost and identity, and its message's own bytes.

Read whatever the verdict: usage absent is not usage zero, and a number's spelling is kept
(design/ledger.md, RecordReceipt).
"""

import msgspec

from adapter_svc.admission.billing import Billing, Path, find_counts
from adapter_svc.admission.gateway_cost import cost_of
from adapter_svc.admission.limits import Limits
from adapter_svc.admission.strict_json import JsonValue
from adapter_svc.admission.verdict import Continuation, Inadmissible, Reason, ServedIdentity, Usage
from countersign.kit.canonical import sha256

_COUNTS: dict[str, tuple[Path, ...]] = {
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
    "cache_write_tokens": (("prompt_tokens_details", "cache_write_tokens"),),
}
"""Where each count stands under `usage`; the first place that has one wins (OpenAI, OpenRouter, DeepSeek,
Mistral, z.ai).
"""


class _RawChoice(msgspec.Struct):
    message: msgspec.Raw


class _RawBodyMessage(msgspec.Struct):
    choices: tuple[_RawChoice]


_message_decoder = msgspec.json.Decoder(_RawBodyMessage)


def read_served(body: dict[str, JsonValue]) -> ServedIdentity:
    """The names that the body gives for itself."""
    return ServedIdentity(model=_text(body.get("model")), provider_name=_text(body.get("provider")))


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None


def billing_of(body: dict[str, JsonValue], raw: bytes, limits: Limits) -> Billing:
    """The billing evidence of `body`, which was read from `raw`."""
    cost = cost_of(body, raw, limits)
    return Billing(_usage_of(body, cost), cost)


def _usage_of(body: dict[str, JsonValue], reported_cost: str | None) -> Usage:
    """The token counts of the body; unreadable ones are absent and named in `invalid`.

    `reported_cost` is what `cost_of` found: a cost that is there and unreadable is named too.
    """
    usage = body.get("usage")
    if not isinstance(usage, dict):
        return Usage(invalid=() if usage is None else ("usage",))
    counts, invalid = find_counts(usage, _COUNTS)
    if usage.get("cost") is not None and reported_cost is None:
        invalid = (*invalid, "cost")
    return Usage(**counts, invalid=invalid)


def read_continuation(raw: bytes) -> Continuation:
    """The bytes of the only choice's message, exactly as they stand in `raw`.

    Raises Inadmissible `MALFORMED_JSON` where the second reader does not find them: no bytes, no action.
    """
    try:
        message = bytes(_message_decoder.decode(raw).choices[0].message)
    except msgspec.DecodeError:
        raise Inadmissible(Reason.MALFORMED_JSON, "/choices/0/message") from None
    return Continuation(message, sha256(message))
