"""What a way of playing decides: the next tool, with its claim where the tool is finish."""

from dataclasses import dataclass

WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Move:
    """The next tool, with the claim where the tool is finish."""

    tool: str
    claim: str | None = None


def finish(claim: str) -> Move:
    """End the episode with `claim`."""
    return Move("finish", claim)
