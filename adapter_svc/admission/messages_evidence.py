"""What a body of the messages format says of tokens and identity, and the bytes of its content.

Read whatever the verdict: usage absent is not usage zero (design/ledger.md, RecordReceipt). The format reports no cost
and no total. Its `input_tokens` are those that no cache was asked for: ours are the sum with the ones read from a cache
and written to one. A class that is absent adds nothing; without `input_tokens` itself the input is unknown.
"""

from adapter_svc.admission.billing import Billing, Path, find_counts, read_count
from adapter_svc.admission.limits import Limits
from adapter_svc.admission.raw_json import part
from adapter_svc.admission.rules import JsonObject
from adapter_svc.admission.verdict import Continuation, ServedIdentity, Usage
from countersign.kit.canonical import sha256

_COUNTS: dict[str, tuple[Path, ...]] = {
    "input_tokens": (("input_tokens",),),
    "output_tokens": (("output_tokens",),),
    "cached_tokens": (("cache_read_input_tokens",),),
    "cache_write_tokens": (("cache_creation_input_tokens",),),
    "reasoning_tokens": (("output_tokens_details", "thinking_tokens"),),
}
"""Where each count stands under `usage`."""
_INPUT_CLASSES = ("input_tokens", "cached_tokens", "cache_write_tokens")


def read_served(body: JsonObject) -> ServedIdentity:
    """The model that the body names; the format has no provider name."""
    model = body.get("model")
    return ServedIdentity(model=model if isinstance(model, str) else None)


def billing_of(body: JsonObject, raw: bytes, limits: Limits) -> Billing:
    """The billing evidence of `body`; unreadable counts are absent and named in `invalid`."""
    del raw, limits
    usage = body.get("usage")
    if not isinstance(usage, dict):
        return Billing(Usage(invalid=() if usage is None else ("usage",)), None)
    counts, invalid = find_counts(usage, _COUNTS)
    total = _input_tokens(counts, invalid)
    if counts["input_tokens"] is not None and total is None and "input_tokens" not in invalid:
        invalid = ("input_tokens", *invalid)
    return Billing(Usage(**{**counts, "input_tokens": total}, invalid=invalid), None)


def _input_tokens(counts: dict[str, int | None], invalid: tuple[str, ...]) -> int | None:
    """The three classes together; None where one is unreadable or the first is absent."""
    if counts["input_tokens"] is None or any(name in invalid for name in _INPUT_CLASSES):
        return None
    return read_count(sum(counts[name] or 0 for name in _INPUT_CLASSES))


def read_continuation(raw: bytes) -> Continuation:
    """The bytes of the array of content blocks, exactly as they stand in `raw`."""
    content = part(raw, "content")
    return Continuation(content, sha256(content))
