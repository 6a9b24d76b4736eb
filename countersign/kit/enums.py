"""Names of the contracts' enums, those of a newer version included."""

from typing import Any


def name_of(kind: Any, value: int, prefix: str) -> str:
    """The name of `value` among `kind`, without `prefix`; UNKNOWN_n for a value n that this version does not know."""
    try:
        return str(kind.Name(value)).removeprefix(prefix)
    except ValueError:
        # A service that is newer than its client may say more than the client knows: shown, not guessed at.
        return f"UNKNOWN_{value}"
