"""The one table of limits on what is read (design/admission.md, Reading bytes)."""

from dataclasses import dataclass, fields

MAX_BODY_BYTES = 8 * 1024 * 1024
"""The most that a response may be, after decompression; the transport stops reading there too."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on a response; each may be lowered, none raised or set below 1.

    Raises ValueError for a value out of that range.
    """

    body_bytes: int = MAX_BODY_BYTES
    depth: int = 64
    cost_chars: int = 64

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            if not 1 <= value <= limit.default:
                raise ValueError(f"{limit.name} must be from 1 to {limit.default}")


DEFAULT_LIMITS = Limits()
