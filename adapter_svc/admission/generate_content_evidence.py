"""What a body of the generate_content format says of tokens and identity, and the bytes of its content.

Read whatever the verdict: usage absent is not usage zero (design/ledger.md, RecordReceipt). The format reports no
cost. Its `promptTokenCount` has the cached tokens in it and leaves out those of provider-run tools' results; its
`candidatesTokenCount` leaves out the thoughts. Ours are the sums: a second class that is absent adds nothing, without
the first the sum is unknown.
"""

from adapter_svc.admission.billing import Billing, Path, find_counts, read_count
from adapter_svc.admission.limits import Limits
from adapter_svc.admission.raw_json import part
from adapter_svc.admission.rules import JsonObject
from adapter_svc.admission.verdict import Continuation, ServedIdentity, Usage
from countersign.kit.canonical import sha256

_COUNTS: dict[str, tuple[Path, ...]] = {
    "input_tokens": (("promptTokenCount",),),
    "tool_input_tokens": (("toolUsePromptTokenCount",),),
    "output_tokens": (("candidatesTokenCount",),),
    "total_tokens": (("totalTokenCount",),),
    "cached_tokens": (("cachedContentTokenCount",),),
    "reasoning_tokens": (("thoughtsTokenCount",),),
}
"""Where each count stands under `usageMetadata`."""
_SUMS = {"input_tokens": "tool_input_tokens", "output_tokens": "reasoning_tokens"}
"""The counts that are the sum of two, and the second of them."""


def read_served(body: JsonObject) -> ServedIdentity:
    """The model that the body names; the format has no provider name."""
    model = body.get("modelVersion")
    return ServedIdentity(model=model if isinstance(model, str) else None)


def billing_of(body: JsonObject, raw: bytes, limits: Limits) -> Billing:
    """The billing evidence of `body`; unreadable counts are absent and named in `invalid`."""
    del raw, limits
    usage = body.get("usageMetadata")
    if not isinstance(usage, dict):
        return Billing(Usage(invalid=() if usage is None else ("usage",)), None)
    counts, unreadable = find_counts(usage, _COUNTS)
    sums = {name: _sum(counts[name], counts[other]) for name, other in _SUMS.items()}
    spoilt = {
        name
        for name, other in _SUMS.items()
        if other in unreadable or (counts[name] is not None and sums[name] is None)
    }
    named = [name for name in counts if name in spoilt or name in unreadable]
    return Billing(
        Usage(
            **{name: None if name in spoilt else sum_ for name, sum_ in sums.items()},
            **{name: counts[name] for name in ("total_tokens", "cached_tokens", "reasoning_tokens")},
            invalid=tuple(name for name in named if name != "tool_input_tokens"),
        ),
        None,
    )


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None else read_count(first + (second or 0))


def read_continuation(raw: bytes) -> Continuation:
    """The bytes of the only candidate's content, exactly as they stand in `raw`."""
    content = part(raw, "candidates", 0, "content")
    return Continuation(content, sha256(content))
