"""Invocation ids: UUIDs of version 7 (RFC 9562, section 5.7), whose text sorts by time."""

import uuid
from typing import Final

RANDOM_BYTES: Final = 10
_MILLIS_MASK: Final = (1 << 48) - 1


def uuid7(millis: int, random: bytes) -> str:
    """The id of a moment in milliseconds since the epoch, and ten random bytes."""
    if len(random) != RANDOM_BYTES:
        raise ValueError("ten random bytes are needed")
    value = (millis & _MILLIS_MASK) << 80 | int.from_bytes(random)
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return str(uuid.UUID(int=value))
