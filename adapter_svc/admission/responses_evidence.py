"""What a response says of tokens, cost and identity, and its output's own bytes.

Read whatever the verdict: usage absent is not usage zero, and a number's spelling is kept
(design/ledger.md, RecordReceipt).
"""

from adapter_svc.admission.billing import Billing, Path, find_counts
from adapter_svc.admission.gateway_cost import cost_of
from adapter_svc.admission.limits import Limits
from adapter_svc.admission.raw_json import part
from adapter_svc.admission.strict_json import JsonValue
from adapter_svc.admission.verdict import Continuation, ServedIdentity, Usage
from countersign.kit.canonical import sha256

_COUNTS: dict[str, tuple[Path, ...]] = {
    "input_tokens": (("input_tokens",),),
    "output_tokens": (("output_tokens",),),
    "total_tokens": (("total_tokens",),),
    "cached_tokens": (("input_tokens_details", "cached_tokens"),),
    "reasoning_tokens": (("output_tokens_details", "reasoning_tokens"),),
    "cache_write_tokens": (("input_tokens_details", "cache_write_tokens"),),
}
"""Where each count stands under `usage`."""


def read_served(body: dict[str, JsonValue]) -> ServedIdentity:
    """The names that the body gives for itself."""
    return ServedIdentity(model=_text(body.get("model")), provider_name=_text(body.get("provider")))


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None


def billing_of(body: dict[str, JsonValue], raw: bytes, limits: Limits) -> Billing:
    """The billing evidence of `body`, which was read from `raw`."""
    usage = body.get("usage")
    if not isinstance(usage, dict):
        return Billing(Usage(invalid=() if usage is None else ("usage",)), None)
    cost = cost_of(body, raw, limits)
    counts, invalid = find_counts(usage, _COUNTS)
    if usage.get("cost") is not None and cost is None:
        invalid = (*invalid, "cost")
    return Billing(Usage(**counts, invalid=invalid), cost)


def read_continuation(raw: bytes) -> Continuation:
    """The bytes of the array `output`, exactly as they stand in `raw`.

    Raises Inadmissible `MALFORMED_JSON` where the second reader does not find them: no bytes, no action.
    """
    output = part(raw, "output")
    return Continuation(output, sha256(output))
