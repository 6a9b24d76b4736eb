"""The cost that a gateway reports under `usage`, for every format that it speaks (design/ledger.md, RecordReceipt)."""

import msgspec

from adapter_svc.admission.limits import Limits
from adapter_svc.admission.strict_json import JsonValue


class _RawUsage(msgspec.Struct):
    cost: msgspec.Raw


class _RawBodyUsage(msgspec.Struct):
    usage: _RawUsage


_usage_decoder = msgspec.json.Decoder(_RawBodyUsage)


def cost_of(body: dict[str, JsonValue], raw: bytes, limits: Limits) -> str | None:
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


def _is_number(value: JsonValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
